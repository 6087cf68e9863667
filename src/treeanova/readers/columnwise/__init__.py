"""Pipelines in the columns that enter them: splits on transformed columns become splits on raw ones, exactly.

A *column map* takes one raw column to one column that the model sees. `origins.py` finds, from the classes of the
transformers, which raw column each of the model's columns comes from, and refuses what mixes columns. The maps
themselves are never rewritten: `evaluation.py` asks the fitted transformers for their values, and the model's own
encoders for what its splits compare, so that all rounding (also that of float32) is theirs.

- A raw column of numbers: a split z <= t becomes the set of numbers x whose z goes left. Where this set changes is
  found by bisection over the floats, down to two neighbours (`numbers.py`); the neighbourhood of each change is looked
  at for more changes, which rounding may cause. Bisection starts between probes, floats of all sizes and those where a
  transformer is known to jump. Functions of the user must be monotone at the probes.
- A raw column of categories, one that an encoder sees: each known category, an unseen one, None and NaN are tried
  (`categories.py`). A split on any of the encoder's columns becomes a set of categories of the one raw feature, so that
  all its columns are one feature again.
- Missing values go where the transformed missing value goes: for an imputer, where the imputed value goes.

`agreement.py` compares the result with the transformers at rows of the user, which finds functions of the user that are
not what they seem at the numbers tried.

Values that the transformers refuse need no answer: if they are missing or unseen values, they are refused here too.
Rows are numbers in float64: scikit-learn computes in float32 on float32 columns, with other rounding, so that these are
refused (`columns.py`).
"""

from __future__ import annotations

from treeanova.readers.columnwise.agreement import check_agreement
from treeanova.readers.columnwise.pulling import in_raw_columns

__all__ = ["check_agreement", "in_raw_columns"]
