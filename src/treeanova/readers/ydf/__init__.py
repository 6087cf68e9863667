"""Yggdrasil Decision Forests (ydf): gradient boosted trees, random forests and CART as a Forest.

The facts that the reader relies on:

- Numbers are cast to float32; a condition is x >= t. Discretized numbers are compared with a boundary in the same way.
- A category is a text: booleans are "true" and "false", whole numbers their decimals, and other numbers are refused. A
  condition is a set of items of the column's dictionary, whose item 0 stands for all texts that are not in it.
- Missing are NaN, None and the empty text. Each condition holds its own answer for them; the fast engines, which
  replace missing values instead, are used only where that gives the same.
- Booleans are never missing.
- Boosted trees add up from the initial predictions. Of K classes, tree i belongs to class i mod K; two classes have one
  score, the log-odds of the second. The loss POISSON predicts the exponential of the sum.
- Random forests average the leaves. Where `winner_takes_all` is set, the default for classification, each tree votes
  for the most frequent class of its leaf, the first of several.
- Oblique conditions use several columns at once, and columns of sets of texts or of vectors have no single value: both
  are refused, as are uplift, survival and anomaly models.

A model's folder is read through ydf, which must be installed.
"""

from __future__ import annotations

from treeanova.readers.ydf.reader import read, read_file

__all__ = ["read", "read_file"]
