"""XGBoost models and their files (.json, .ubj) as a Forest.

The facts that the reader relies on, all measured with XGBoost 3.0 to 3.4:

- A value is cast to float32 and goes left when below the threshold; NaN, absent sparse entries and values equal to
  ``missing`` in float32 go the node's default way.
- A category in the node's list goes right, any other code left. Codes are cast to float32, fractions are truncated,
  negative codes are in no list. A matrix holds codes; a table's column of categories is matched by label.
- Scores are summed in float32 from the base margin on; the Forest holds the same numbers and sums in float64.
- The wrappers predict with the iterations up to ``best_iteration``, a plain Booster with all of them. Files that a
  wrapper wrote have the attribute ``scikit_learn``.
- Weights of trees (dropout) are in ``weight_drop``: of the booster "dart" up to 3.2, of "gbtree" in 3.3, of its model
  from 3.4 on.
- XGBoost crashes the process on some damaged files, so a file is passed to it only if its version is later than those
  tested, and after it was read here.
"""

from __future__ import annotations

from treeanova.readers.xgboost.reader import read, read_file

__all__ = ["read", "read_file"]
