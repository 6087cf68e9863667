"""Wrappers of scikit-learn around models of any library: searches, votes, stacks, bags and one model for each target.

Facts:

- Searches (GridSearchCV and others) and FrozenEstimator predict with one model.
- VotingRegressor and BaggingRegressor predict a weighted mean of their members' predictions; soft VotingClassifier and
  BaggingClassifier that of their members' probabilities. Only members whose prediction is the score itself can be
  added up: the mean of exponentials or of logistic functions is not a sum over leaves.
- StackingRegressor with a linear last step predicts a weighted sum; StackingClassifier with a logistic regression of
  two classes has such a sum as its log-odds.
- TransformedTargetRegressor applies the inverse transformation of the target to the prediction: an affine one is
  applied to leaf values, np.exp is the link "log", any other is the link "other".
- CalibratedClassifierCV averages calibrated probabilities. With one member, the sigmoid of a score of two classes is
  the logistic function of an affine map, which is applied to leaf values; other calibrations are the link "other".
  With several members, the default, the reader takes the mean of their scores and warns: the mean probability does not
  follow from that score (link "other").
- MultiOutputRegressor, MultiOutputClassifier and OneVsRestClassifier hold one model for each output.

Members see the same columns, except those of bags, which see some. Pipelines are read on columns that enter them.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.errors import ScoreWarning, UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest, weighted_sum
from treeanova.model.grid import same_or_none
from treeanova.readers.outputs import (
    class_outputs,
    common_objective,
    in_column,
    objective_text,
    plain_labels,
    probability_objective,
)
from treeanova.readers.sklearn import check_methods, feature_names, is_sklearn

Content = Forest | Effects
ReadMember = Callable[[Any], Content]
Columns = Sequence[Ints] | None  # for each member the columns of the wrapper's data that it sees; None for all
_FUNCTIONS = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt}
_TREES = {"DecisionTreeRegressor", "DecisionTreeClassifier"}
# Linear models whose prediction is a weighted sum of their columns and a constant.
_LINEAR = {
    "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars", "LarsCV", "Lasso",
    "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "LinearRegression", "LinearSVR",
    "OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV", "QuantileRegressor", "Ridge", "RidgeCV",
    "SGDRegressor", "TheilSenRegressor",
}  # fmt: skip
_ROBUST = {"HuberRegressor", "LinearSVR", "SGDRegressor", "TheilSenRegressor"}
_LOGISTIC = {"LogisticRegression", "LogisticRegressionCV"}


def sum_of_members(
    wrapper: Any, members: Sequence[Forest], factors: Sequence[float] | Floats, columns: Columns = None
) -> Forest:
    """Return the sum over members of factor times score; `columns` has for each the columns that it sees."""
    forests = _on_common_columns(wrapper, members, columns)
    objective = common_objective(forest.schema.objective for forest in forests)
    first = dataclasses.replace(forests[0].schema, objective=objective)
    for forest in forests[1:]:
        if len(forest.schema.outputs) != len(first.outputs):
            raise refusal(wrapper, "its members have different numbers of outputs")
    return weighted_sum([forest.with_schema(first) for forest in forests], [float(factor) for factor in factors])


def with_one_output_each(wrapper: Any, members: Sequence[Forest], outputs: Sequence[str], link: str) -> Forest:
    """Return a forest that has the score of each member as one of its outputs."""
    forests = _on_common_columns(wrapper, members)
    if any(forest.n_outputs != 1 for forest in forests):
        raise refusal(
            wrapper, "each of its members must have one output (a number, or two classes); read them one by one"
        )
    objective = common_objective(forest.schema.objective for forest in forests)
    first = _without_decisions(forests[0].schema)
    schema = dataclasses.replace(first, outputs=tuple(outputs), link=link, classes=(), objective=objective)
    wide = [
        dataclasses.replace(
            forest,
            schema=schema,
            intercept=in_column(forest.intercept, np.array([k]), len(outputs))[0],
            values=in_column(forest.values[:, 0], np.full(forest.n_leaves, k), len(outputs)),
        )
        for k, forest in enumerate(forests)
    ]
    return weighted_sum(wide, [1.0] * len(wide))


def affine(forest: Forest, slope: npt.ArrayLike, shift: npt.ArrayLike) -> Forest:
    """Return slope times score plus shift, for all outputs or one of each per output."""
    slopes, shifts = np.asarray(slope, dtype=np.float64), np.asarray(shift, dtype=np.float64)
    return dataclasses.replace(forest, intercept=forest.intercept * slopes + shifts, values=forest.values * slopes)


def _without_decisions(schema: Schema) -> Schema:
    """Forget how a member chooses a class, because its wrapper chooses for itself."""
    return dataclasses.replace(schema, declared_classes=(), threshold=0.5)


def with_classes(wrapper: Any, forest: Forest, link: str) -> Forest:
    """Return a forest with the wrapper's classes as its outputs, and a link."""
    classes = plain_labels(wrapper.classes_)
    if forest.n_outputs != (1 if len(classes) == 2 else len(classes)):
        raise refusal(wrapper, f"its members must know all of its {len(classes)} classes")
    outputs, objective = class_outputs(classes), probability_objective(link)
    return forest.with_schema(
        dataclasses.replace(
            _without_decisions(forest.schema), outputs=outputs, link=link, classes=classes, objective=objective
        )
    )


def refusal(wrapper: Any, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"{type(wrapper).__name__} cannot be read: {reason}.")


def _on_common_columns(wrapper: Any, forests: Sequence[Forest], seen_columns: Columns = None) -> list[Forest]:
    """Return the members on the wrapper's columns; `seen_columns` has for each those that it sees, None for all."""
    columns = seen_columns or [np.arange(len(forest.schema.features)) for forest in forests]
    n_features = getattr(wrapper, "n_features_in_", None) or int(max(seen.max(initial=-1) for seen in columns)) + 1
    for forest, seen in zip(forests, columns, strict=True):
        if len(forest.schema.features) != len(seen) or seen.max(initial=-1) >= n_features:
            raise refusal(wrapper, f"its members must see its {n_features} columns")
    # By column, the features that read it in members; one may do so twice, because bags may draw a column twice.
    seen_at = [
        [f.schema.features[k] for f, seen in zip(forests, columns, strict=True) for k in np.flatnonzero(seen == j)]
        for j in range(n_features)
    ]
    features = [_common_feature(wrapper, j, features_at) for j, features_at in enumerate(seen_at)]
    names, named = _names_of_columns(wrapper, forests if seen_columns is None else (), n_features)
    common = {
        "features": tuple(dataclasses.replace(f, name=name) for f, name in zip(features, names, strict=True)),
        "named": named,
        "absent": same_or_none([f.schema.absent for f in forests]),
        "single_integers": same_or_none([f.schema.single_integers for f in forests]),
        "underscores": False,
    }
    return [
        dataclasses.replace(
            forest,
            schema=dataclasses.replace(forest.schema, **common),
            feature=np.where(forest.feature < 0, -1, seen[np.maximum(forest.feature, 0)]),
        )
        for forest, seen in zip(forests, columns, strict=True)
    ]


def _common_feature(wrapper: Any, j: int, features: Sequence[Feature]) -> Feature:
    """Return the feature that reads column j for all members; refuse it if they read it in different ways."""
    if not features:
        return Feature(f"x{j}")
    encoders = [feature.encoder for feature in features]
    if any(encoder != encoders[0] for encoder in encoders):
        # Numbers may differ in their type only; then the strictest encoder reads them.
        numbers = [e for e in encoders if isinstance(e, Numeric) and e.cast != "text" and np.isnan(e.missing)]
        if len(numbers) < len(encoders):
            raise refusal(
                wrapper, f"its members read column {features[0].name!r} in different ways (categories, missing values)"
            )
        strict = Numeric(cast="float64 only")
        encoders = [strict if strict in encoders else Numeric()]
    return Feature(
        features[0].name,
        encoders[0],
        accepts_missing=all(feature.accepts_missing for feature in features),
        accepts_unseen=all(feature.accepts_unseen for feature in features),
    )


def _names_of_columns(wrapper: Any, members_with_all: Sequence[Forest], n_features: int) -> tuple[list[str], bool]:
    """Return names of columns, and whether they are known: its own, else of a member that sees all, else x0, x1."""
    if hasattr(wrapper, "feature_names_in_"):
        return feature_names(wrapper)
    known_names = [list(forest.schema.names) for forest in members_with_all if forest.schema.named]
    return known_names[0] if known_names else [f"x{j}" for j in range(n_features)], bool(known_names)


def _read_transformed_target(model: Any, read_member: ReadMember) -> Forest:
    """Read TransformedTargetRegressor: an affine inverse changes leaf values, any other becomes the link."""
    forest = _member_forest(model, model.regressor_, read_member)
    transformer, link = model.transformer_, forest.schema.link
    is_function = is_sklearn(type(transformer)) and type(transformer).__name__ == "FunctionTransformer"
    line = _inverse_line(transformer)
    if link == "identity" and line is not None:
        objective = _rescaled_objective(forest.schema.objective, line[0])
        return affine(forest.with_schema(dataclasses.replace(forest.schema, objective=objective)), *line)
    objective = _objective_before_transformation(forest.schema.objective, transformer) if is_function else ""
    schema = dataclasses.replace(forest.schema, objective=objective)
    if is_function and transformer.inverse_func is None:
        return forest.with_schema(schema)
    is_exponential = is_function and transformer.inverse_func is np.exp and not transformer.inv_kw_args
    is_exponential = is_exponential and link == "identity"
    return forest.with_schema(dataclasses.replace(schema, link="log" if is_exponential else "other"))


def _objective_before_transformation(objective: str, transformer: Any) -> str:
    """Return the objective for the target before its transformation; empty if we have no name for it."""
    if transformer.func is None:
        return objective
    name = next((name for name, function in _FUNCTIONS.items() if transformer.func is function), None)
    is_plain = name is not None and not transformer.kw_args and objective and " of " not in objective
    return f"{objective} of {name}" if is_plain else ""


def _rescaled_objective(objective: str, slope: npt.ArrayLike) -> str:
    """Return the objective for a target that was divided by `slope`; empty if it has no name."""
    slopes = np.unique(np.asarray(slope, dtype=np.float64))
    name, *parameters = objective.split(":")
    if name in {"squared", "absolute"} or (name in {"pinball", "expectile"} and slopes[0] > 0):
        return objective
    if name in {"huber", "pseudo_huber", "fair"} and len(slopes) == 1:
        return objective_text(name, float(parameters[0]) * abs(float(slopes[0])))
    return ""


def _inverse_line(transformer: Any) -> tuple[npt.ArrayLike, npt.ArrayLike] | None:
    """Return slope and shift of a scaler's inverse; None for transformers whose inverse is not affine."""
    if not is_sklearn(type(transformer)):
        return None
    name = type(transformer).__name__
    if name in {"StandardScaler", "RobustScaler"}:
        scale = transformer.scale_
        center = transformer.center_ if name == "RobustScaler" else transformer.mean_ if transformer.with_mean else None
        return 1.0 if scale is None else scale, 0.0 if center is None else center
    if name == "MaxAbsScaler" and not getattr(transformer, "clip", False):
        return transformer.scale_, 0.0
    if name == "MinMaxScaler" and not transformer.clip:
        return 1 / transformer.scale_, -transformer.min_ / transformer.scale_
    return None


def is_wrapper(model: Any) -> bool:
    """Whether this module reads a model; `sklearn` reads bags of its own trees."""
    kind = _wrapper_class(model)
    if kind is None or not kind.startswith("Bagging"):
        return kind is not None
    return bool(getattr(model, "estimators_", [])) and not any(_is_instance_of(m, _TREES) for m in model.estimators_)


def read(model: Any, read_model: ReadMember) -> Content:
    """Read a wrapper of a class in `_READERS`; `read_model` reads its members."""
    kind = _wrapper_class(model)
    assert kind is not None  # noqa: S101  is_wrapper() was asked
    if not is_sklearn(type(model)):
        check_methods(model)
    read_kind, fitted_attribute = _READERS[kind]
    if not hasattr(model, fitted_attribute):
        hint = "fit it first, with refit=True" if fitted_attribute == "best_estimator_" else "fit it first"
        raise refusal(model, f"it must be fitted, got no `{fitted_attribute}`; {hint}")
    return read_kind(model, read_model)


def _wrapper_class(model: Any) -> str | None:
    """Return the class of scikit-learn by which a wrapper is read; None for other models."""
    names = [cls.__name__ for cls in type(model).__mro__ if is_sklearn(cls)]
    return next((name for name in names if name in _READERS), None)


def _is_instance_of(model: Any, names: set[str]) -> bool:  # of one of scikit-learn's classes, by name
    return any(cls.__name__ in names for cls in type(model).__mro__ if is_sklearn(cls))


def _member_forest(wrapper: Any, member: Any, read_member: ReadMember) -> Forest:  # UnsupportedModelError for effects
    content = read_member(member)
    if not isinstance(content, Forest):
        raise refusal(wrapper, f"its members must be of trees, got {type(member).__name__}; decompose them one by one")
    return content


def _member_forests(wrapper: Any, members: Sequence[Any], read_member: ReadMember) -> list[Forest]:
    return [_member_forest(wrapper, member, read_member) for member in members]


def _check_links(wrapper: Any, forests: Sequence[Forest], link: str) -> None:
    """Refuse members whose predictions are not sums over leaves: these have another link than `link`."""
    other = next((forest.schema.link for forest in forests if forest.schema.link != link), None)
    if other is not None:
        noun = "probabilities" if link == "probability" else "predictions"
        raise refusal(
            wrapper,
            f"it averages {noun}, and those of a member are not the sum of its leaves (its link is {other!r}), so that "
            "their mean is no sum over leaves; decompose the members one by one, they are in `estimators_`",
        )


def _read_calibrated(model: Any, read_member: ReadMember) -> Content:
    """Read CalibratedClassifierCV: the log-odds if they are an affine function of one score, else link "other"."""
    calibrated, *other_members = model.calibrated_classifiers_
    if other_members:
        return _mean_of_calibrated(model, read_member)
    forest = _member_forest(model, calibrated.estimator, read_member)
    forest = sum_of_members(model, [forest], [1.0])
    # The calibration sees decision_function() if there is one, which is the score, else probabilities.
    sees_score = forest.schema.link == "probability" or hasattr(calibrated.estimator, "decision_function")
    if sees_score and len(model.classes_) == 2 and calibrated.method == "sigmoid":
        sigmoid = calibrated.calibrators[0]  # predicts 1 / (1 + exp(a score + b))
        return with_classes(model, affine(forest, -sigmoid.a_, -sigmoid.b_), "logit")
    return with_classes(model, forest, "other")


def _mean_of_calibrated(model: Any, read_member: ReadMember) -> Content:
    """Return the mean score of several calibrated members, with a ScoreWarning: it does not give the probability."""
    forests = _member_forests(model, [member.estimator for member in model.calibrated_classifiers_], read_member)
    if len({forest.schema.link for forest in forests}) > 1:
        raise refusal(model, "its members must have the same scale; decompose `calibrated_classifiers_[i].estimator`")
    mean = sum_of_members(model, forests, np.full(len(forests), 1 / len(forests)))
    warnings.warn(
        f"{type(model).__name__} is decomposed as the mean of the scores of its {len(forests)} members before their "
        "calibration. Its probability is the mean of the members' calibrated probabilities, which is no function of "
        "this score; with ensemble=False there is one member, and the probability follows from the score.",
        ScoreWarning,
        stacklevel=2,
    )
    return with_classes(model, mean, "other")


def _read_votes(model: Any, read_member: ReadMember) -> Content:
    """Read VotingRegressor and VotingClassifier as the weighted mean of their members."""
    is_classifier = hasattr(model, "classes_")
    if is_classifier and model.voting != "soft":
        raise refusal(model, 'it counts votes for labels, which is no sum over leaves; fit it with voting="soft"')
    if is_classifier and isinstance(model.classes_, list):
        raise refusal(model, "it predicts several targets; fit one for each")
    forests = _member_forests(model, model.estimators_, read_member)
    _check_links(model, forests, "probability" if is_classifier else "identity")
    weights = np.ones(len(forests))
    if model.weights is not None:
        pairs = zip(model.estimators, model.weights, strict=True)
        weights = np.array([w for (_, member), w in pairs if not isinstance(member, str)], dtype=np.float64)
    mean = sum_of_members(model, forests, weights / weights.sum())
    return with_classes(model, mean, "probability") if is_classifier else mean


def _read_bag(model: Any, read_member: ReadMember) -> Content:
    """Read BaggingRegressor and BaggingClassifier as the mean of their members, which may see some columns only."""
    forests = _member_forests(model, model.estimators_, read_member)
    is_classifier = hasattr(model, "classes_")
    _check_links(model, forests, "probability" if is_classifier else "identity")
    if is_classifier and any(len(member.classes_) != len(model.classes_) for member in model.estimators_):
        raise refusal(model, "some of its members met some of the classes only; fit it with more rows")
    columns = [np.asarray(seen) for seen in model.estimators_features_]
    is_whole = all(np.array_equal(seen, np.arange(model.n_features_in_)) for seen in columns)
    mean = sum_of_members(model, forests, np.full(len(forests), 1 / len(forests)), None if is_whole else columns)
    return with_classes(model, mean, "probability") if is_classifier else mean


def _read_stack(model: Any, read_member: ReadMember) -> Content:
    """Read StackingRegressor with a linear last step as the weighted sum of its members."""
    weights, constant = _weights_of_last_step(model, _LINEAR, "a linear model")
    forests = _member_forests(model, model.estimators_, read_member)
    _check_links(model, forests, "identity")
    stacked = affine(_weighted_members(model, forests, weights), 1.0, constant)
    last = model.final_estimator_
    objective = "" if _is_instance_of(last, _ROBUST) else "squared"
    if _is_instance_of(last, {"QuantileRegressor"}):
        objective = objective_text("pinball", last.quantile)
    return stacked.with_schema(dataclasses.replace(stacked.schema, objective=objective))


def _read_class_stack(model: Any, read_member: ReadMember) -> Content:
    """Read StackingClassifier with a logistic last step: its log-odds are a weighted sum of the members."""
    weights, constant = _weights_of_last_step(model, _LOGISTIC, "a logistic regression")
    if isinstance(model.classes_, list) or len(model.classes_) != 2:
        raise refusal(model, "it must have two classes; fit one for each class")
    forests = _member_forests(model, model.estimators_, read_member)
    for forest, method in zip(forests, model.stack_method_, strict=True):
        is_score = method == "decision_function" or (method == "predict_proba" and forest.schema.link == "probability")
        if not is_score:
            raise refusal(
                model,
                f"its last step sees `{method}` of a member, which is not the sum of its leaves (its link is "
                f'{forest.schema.link!r}); fit it with stack_method="decision_function"',
            )
    return with_classes(model, affine(_weighted_members(model, forests, weights), 1.0, constant), "logit")


def _weights_of_last_step(model: Any, names: set[str], what: str) -> tuple[Floats, float]:
    """Return coefficients and intercept of a stack's last step, whose class must be one of `names`."""
    last = model.final_estimator_
    if not (is_sklearn(type(last)) and type(last).__name__ in names):
        raise refusal(model, f"its last step must be {what} to be a sum over leaves, got {type(last).__name__}")
    if model.passthrough:
        raise refusal(model, "its last step sees the columns themselves; fit it with passthrough=False")
    return np.ravel(last.coef_), float(np.ravel(last.intercept_)[0])


def _weighted_members(model: Any, forests: Sequence[Forest], weights: Floats) -> Forest:
    """Return the weighted sum of a stack's members; refuse members of several outputs."""
    if len(weights) != len(forests) or any(forest.n_outputs != 1 for forest in forests):
        raise refusal(model, "each of its members must give one column to the last step")
    return sum_of_members(model, forests, weights)


def _read_targets(model: Any, read_member: ReadMember) -> Content:
    """Read MultiOutputRegressor and MultiOutputClassifier, with one output per member."""
    forests = _member_forests(model, model.estimators_, read_member)
    links = {forest.schema.link for forest in forests}
    link = links.pop() if len(links) == 1 else "other"
    # A prediction is a label for each output, which the schema of several outputs can say for 0 and 1 only.
    predicts_0_or_1 = link == "logit" and all(
        forest.schema.classes == (0, 1) and forest.schema.threshold == 0.5 for forest in forests
    )
    if _is_instance_of(model, {"MultiOutputClassifier"}) and not predicts_0_or_1:
        link = "other"
    return with_one_output_each(model, forests, [f"y{k}" for k in range(len(forests))], link)


def _read_one_versus_rest(model: Any, read_member: ReadMember) -> Content:
    """Read OneVsRestClassifier, with one output per class; for two classes it has one member."""
    forests = _member_forests(model, model.estimators_, read_member)
    names = [str(label) for label in np.asarray(model.classes_).tolist()]
    if model.multilabel_:
        link = "logit" if all(forest.schema.link == "logit" for forest in forests) else "other"
        return with_one_output_each(model, forests, names, link)
    if len(forests) == 1:
        return with_classes(model, sum_of_members(model, forests, [1.0]), forests[0].schema.link)
    # Probabilities are divided by their sum, for which there is no link.
    return with_classes(model, with_one_output_each(model, forests, names, "other"), "other")


# How each class is read, and an attribute that it has after training.
_READERS: dict[str, tuple[Callable[[Any, ReadMember], Content], str]] = {
    "BaseSearchCV": (lambda model, read_member: read_member(model.best_estimator_), "best_estimator_"),
    "FrozenEstimator": (lambda model, read_member: read_member(model.estimator), "estimator"),
    "TransformedTargetRegressor": (_read_transformed_target, "regressor_"),
    "CalibratedClassifierCV": (_read_calibrated, "calibrated_classifiers_"),
    **dict.fromkeys(("VotingRegressor", "VotingClassifier"), (_read_votes, "estimators_")),
    **dict.fromkeys(("BaggingRegressor", "BaggingClassifier"), (_read_bag, "estimators_")),
    "StackingRegressor": (_read_stack, "final_estimator_"),
    "StackingClassifier": (_read_class_stack, "final_estimator_"),
    **dict.fromkeys(("MultiOutputRegressor", "MultiOutputClassifier"), (_read_targets, "estimators_")),
    "OneVsRestClassifier": (_read_one_versus_rest, "estimators_"),
}
