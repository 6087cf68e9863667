"""CatBoost models as a Forest: from memory, from .cbm and from .json files; files need no CatBoost.

The facts that the reader relies on (measured with CatBoost 1.2.10):

- A numeric split is true when float32(x) > border. NaN is true only where the feature has ``has_nans`` and ``AsTrue``.
- Symmetric trees: leaf = sum of (split d is true) << d. Leaf numbers of other trees are those of
  ``calc_leaf_indexes``: in .cbm the stored ones, in .json (which stores none) leaves from left to right.
- The score is scale · (sum of leaves) + bias.
- A category is identified by the low 32 bits of CityHash64 of its text; integers and booleans are texts such as "1" and
  "0"; floats, None and NaN are refused. A CTR table identifies the category by a second, invertible hash of this one.
- A CTR of one categorical feature gives each category a float32 number, so that a split on it is a set of categories.
- Other CTRs have a number for each combination of categories of several features, of whether numbers are above borders,
  and of whether features have certain categories. A split on it is a set of cells; combinations that training did not
  have get the number of an unseen category. Trees with such splits are unfolded into trees that split one feature at a
  time, so that a leaf of CatBoost's may become several.
"""

from __future__ import annotations

from treeanova.readers.catboost.reader import read, read_file

__all__ = ["read", "read_file"]
