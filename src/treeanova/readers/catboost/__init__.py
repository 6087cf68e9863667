"""CatBoost models as a Forest: from memory, from .cbm and from .json files; files need no CatBoost.

The facts that the reader relies on (measured with CatBoost 1.2.10):

- A numeric split is true when float32(x) > border. NaN is true only where the feature has ``has_nans`` and ``AsTrue``.
- Symmetric trees: leaf = sum of (split d is true) << d. Leaf numbers of other trees are those of
  ``calc_leaf_indexes``: in .cbm the stored ones, in .json (which stores none) leaves from left to right.
- The score is scale · (sum of leaves) + bias.
- A category is identified by the low 32 bits of CityHash64 of its text; integers and booleans are texts such as "1" and
  "0"; floats, None and NaN are refused. A CTR table identifies the category by a second, invertible hash of this one.
- A CTR of one categorical feature gives each category a float32 number, so that a split on it is a set of categories.
"""

from __future__ import annotations

from treeanova.readers.catboost.reader import read, read_file

__all__ = ["read", "read_file"]
