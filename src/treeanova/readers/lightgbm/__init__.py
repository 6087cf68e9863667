"""LightGBM models (Booster, its scikit-learn wrappers, text files) as a Forest.

Everything is read from LightGBM's text format: ``Booster.model_to_string()`` holds the trees up to the best iteration,
as ``predict`` uses them, with the starting score and the learning rate in the leaf values, to the last digit. The
facts that the reader relies on:

* x with abs(x) <= float32(1e-35) counts as 0, then x goes left when x <= threshold, in float64.
* `decision_type` packs: bit 0 category split, bit 1 default left, bits 2-3 missing type. None: NaN is 0. Zero: NaN and
  0 go the default way. NaN: NaN goes the default way.
* At a category split the threshold is the number of a bit set; codes in it go left, everything else (NaN, negative,
  unseen) goes right; codes are truncated to integers, so that -0.5 is category 0.
* With ``average_output`` (random forest), `predict` gives the mean of the trees and raw_score=True their sum; the
  Forest gives the mean.
* Category columns of pandas come as their codes; ``pandas_categorical`` lists the categories of each such column, in
  column order without names. Ordered ones (and those left out of ``categorical_feature=``) are split as numbers.
* Spaces in feature names became underscores when the model was trained; the schema has the names of the model.
"""

from __future__ import annotations

from treeanova.readers.lightgbm.reader import read, read_file

__all__ = ["read", "read_file"]
