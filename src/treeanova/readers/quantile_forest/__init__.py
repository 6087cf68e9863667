"""quantile-forest: quantile regression forests whose prediction is a mean, as a Forest.

The facts that the reader relies on:

- Trees are those of scikit-learn. Each leaf keeps training rows: one, drawn at random, by default (max_samples_leaf=1).
- A quantile is that of the rows in all leaves that a row reaches, pooled: it is no sum over trees, and is refused. What
  `predict` gives without arguments is set by `default_quantiles`, 0.5 by default.
- With default_quantiles="mean" and one row in each leaf, `predict` gives the mean over trees of these rows' targets,
  clipped to the leaf's bounds where there are monotonic constraints. That is a sum over leaves, and is read.
- With more rows in each leaf the mean is that of all rows pooled: its denominator depends on the leaves of all trees,
  so that it is no sum, and is refused.

The leaf values are not those of `tree_.value`, which the quantile forest does not use.
"""

from __future__ import annotations

from treeanova.readers.quantile_forest.reader import read

__all__ = ["read"]
