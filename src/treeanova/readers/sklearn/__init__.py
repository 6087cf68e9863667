"""scikit-learn (1.5 and later): trees, forests, bagged trees, AdaBoost and both kinds of gradient boosting as a Forest.

The facts that the reader relies on:

- Trees, and all ensembles of them, cast inputs to float32 and go left when x <= threshold, a float64; NaN goes where
  `missing_go_to_left` says. Gradient boosting and AdaBoost refuse NaN; for others the estimator itself tells.
- `tree_.value` holds means for regression and fractions of classes for classification.
- Gradient boosting adds the start `init_` and learning_rate times each tree of `estimators_`, which early stopping cut.
- AdaBoost adds up a weighted vote of each tree for one class, over the sum of all weights.
- HistGradientBoosting compares float64 numbers, and its leaf values include the learning rate. Its trees number the
  columns with categories first. A category becomes its position among the sorted labels; an unseen one acts as NaN.
  None, which polars uses for missing values, is a label like others if it was in the training data.

The score is the sum that the estimators compute: `predict` of regressors (before an inverse log link),
`decision_function` of boosted classifiers, `predict_proba` of other classifiers (of the second class, if there are
two). scikit-learn refuses infinite inputs for trees of float32; the Forest scores them as very large numbers.
"""

from __future__ import annotations

from treeanova.readers.sklearn.reader import read

__all__ = ["read"]
