"""EBMs: the Effects of InterpretML's ExplainableBoosting* models, which are additive already.

The facts that the reader relies on, all measured with interpret-core 0.7.8:

- A term of order d indexes its tensor with ``bins_[feature][min(d, len(bins_[feature])) - 1]``, so the main effect and
  the interactions of a feature have different bins. Bin 0 is for missing values, the last for unreadable ones.
- Continuous: bin = number of cuts <= x, plus 1, on float64. Text is parsed as Python's float() does. Text that does not
  spell a number reaches the last bin, which the axis here lacks: such text raises TypeError.
- Nominal and ordinal: categories are compared as text, and a dict gives the bin of each. Floats lose their ".0";
  booleans are "1" and "0", but "True" and "False" among Python ints or text; "" is a category; unknown text goes to the
  last bin. How dates are spelled depends on the container, so they raise TypeError.
- Columns of features in no term are not read at all.

A feature has one axis, whose bins are those that some term distinguishes, bit by bit. A term keeps the bins of its
order: a pair of 64 × 64 bins stays so, although main effects have a thousand.
"""

from __future__ import annotations

from treeanova.readers.ebm.reader import read

__all__ = ["read"]
