"""Spark ML: decision trees, random forests and gradient boosted trees, alone or at the end of a PipelineModel.

The facts that the reader relies on:

- A saved model is a folder: a line of JSON in metadata/, nodes in data/ (Parquet), and for ensembles the weights of
  trees in treesMetadata/. A PipelineModel has its stages in stages/. Spark is not needed, but pyarrow is; models in
  memory are saved to a temporary folder by Spark itself.
- Numbers are compared in float64: x <= t goes left, and NaN goes right.
- A category split stores the categories that go left. Spark keeps the smaller of this set and of its complement, so
  that other values, NaN included, go left only if more than half of the categories do.
- StringIndexer takes a text to its position; with handleInvalid="keep" unknown and missing texts have the position
  after the last. VectorIndexer does the same with the numbers of a column that has few; all others are unchanged.
  With "error" and "skip" such rows have no prediction, and are errors here.
- VectorAssembler refuses missing values or drops their rows, unless handleInvalid="keep".
- Regression: the weighted sum of trees, for random forests their mean. Classification trees give the shares of classes
  in a leaf, random forests the mean of these.
- GBTClassifier: the probability is the logistic function of twice the sum of trees. The score here is that double,
  the log-odds of the second class; Spark's `rawPrediction` is half of it.

Stages that change columns in other ways are refused.
"""

from __future__ import annotations

from treeanova.readers.spark.reader import read, read_file

__all__ = ["read", "read_file"]
