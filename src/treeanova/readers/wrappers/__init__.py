"""Wrappers of scikit-learn around models of any library: searches, votes, stacks, bags and one model for each target.

The facts that the reader relies on:

- Searches (GridSearchCV and others) and FrozenEstimator predict with one model.
- VotingRegressor and BaggingRegressor predict a weighted mean of their members' predictions; soft VotingClassifier and
  BaggingClassifier that of their members' probabilities. Only members whose prediction is the score itself can be
  added up: the mean of exponentials or of logistic functions is no sum over leaves.
- StackingRegressor with a linear last step predicts a weighted sum; StackingClassifier with a logistic regression of
  two classes has such a sum as its log-odds.
- TransformedTargetRegressor applies the inverse transformation of the target to the prediction: an affine one is
  applied to leaf values, np.exp is the link "log", any other is the link "other".
- CalibratedClassifierCV averages calibrated probabilities. With one member, the sigmoid of a score of two classes is
  the logistic function of an affine map, which is applied to leaf values; other calibrations are the link "other".
  With several members, the default, the mean of their scores is read, with a warning: the probability is the mean of
  the calibrated probabilities, which does not follow from that score (link "other").
- MultiOutputRegressor, MultiOutputClassifier and OneVsRestClassifier hold one model for each output.

Members see the same columns, except those of bags, which see some. A Pipeline among them is read on the columns that
enter it.
"""

from __future__ import annotations

from treeanova.readers.wrappers.reader import is_wrapper, read

__all__ = ["is_wrapper", "read"]
