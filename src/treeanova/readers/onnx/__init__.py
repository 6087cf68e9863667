"""ONNX: TreeEnsembleRegressor and TreeEnsembleClassifier (ai.onnx.ml 1 to 5) and TreeEnsemble (5) as a Forest.

The facts that the reader relies on, as onnxruntime 1.31 computes them (1.23 differs for some classifiers):

- The graph must be one tree operator that sees the input itself; Identity may be before it, and Identity, ZipMap, Cast
  to floats and multiplication by 1 after it. What changes columns or scores is refused.
- Inputs of float32 are compared with float32 thresholds, those of float64 with float64 thresholds. A node's condition
  is one of x <= t, x < t, x > t, x >= t, x == t and x != t. It is false for NaN, except x != t, which is true; where
  `missing_value_tracks_true` is set, NaN counts as true. A node with x == t becomes two nodes of the Forest.
- A node that asks for a set (BRANCH_MEMBER) is a chain of equalities. It is read for whole numbers from 1 to 30: for
  others, onnxruntime cuts off fractions of its input, so that 1.5 is in the set of 1 and 35.
- A node may have several parents, as in chains of equalities for a set of categories; it is copied for each.
- Scores are base values and the sum of the leaves' weights, or their mean over trees; MIN and MAX are refused.
- A classifier of two classes whose weights are all for the first gives one score s of the second, after which the
  probabilities are (1 - s, s) if no weight is negative, and the logistic function of (-s, s) for LOGISTIC.
- A regressor of one target has no post_transform in onnxruntime, which other runtimes may apply: link "other".

The score is the sum before `post_transform`, which is the link. No part of `onnx` is needed: files are read here.
"""

from __future__ import annotations

from treeanova.readers.onnx.reader import read, read_file

__all__ = ["read", "read_file"]
