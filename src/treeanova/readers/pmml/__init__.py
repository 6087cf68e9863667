"""PMML: TreeModel, and MiningModel that adds up or averages TreeModels, as a Forest.

The facts that the reader relies on (PMML 4.x):

- Children of a node are tried in their order, and the first whose predicate is true is taken. If none is true, the
  prediction is that of the node for noTrueChildStrategy="returnLastPrediction", else there is none.
- A comparison with a missing value is unknown. What happens then is missingValueStrategy: "none" takes it as false,
  "defaultChild" goes to the node's default child, "lastPrediction" stops there, "nullPrediction" predicts nothing.
- Predicates may be True, False, comparisons, sets, isMissing and isNotMissing, and combinations of these on one field.
- Fields of the type float are compared in float32, all other numbers in float64. Categories are compared as text.
- A category that the field does not list is invalid: an error here, unless invalidValueTreatment is "asMissing". "asIs"
  is an error too, because scorers differ in what they do then.
- A MiningModel is the sum, the mean or the weighted mean or sum of its segments; majorityVote counts the scores of
  classes. Targets may rescale a number.

Documents with a DTD are refused, as are weightedConfidence and aggregateNodes, modelChain, derived fields other than
copies, replaced missing values, and predictions that may not exist.
"""

from __future__ import annotations

from treeanova.readers.pmml.reader import read, read_file

__all__ = ["read", "read_file"]
