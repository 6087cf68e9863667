"""Fields of a PMML document as features of a Schema."""

from __future__ import annotations

import dataclasses

import numpy as np

from treeanova.data.features import Encoder, Feature, Numeric
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import bound_below, bound_up_to
from treeanova.readers.checks import decimal_number
from treeanova.readers.pmml.document import Element
from treeanova.readers.xgboost.columns import Number
from treeanova.readers.ydf.columns import TextItems

_NUMBERS = {"double", "float", "integer"}


def refusal(reason: str) -> UnsupportedModelError:
    """The error that says why a document is not read."""
    return UnsupportedModelError(f"the PMML document cannot be read: {reason}.")


@dataclasses.dataclass(frozen=True)
class Field:
    """A field that predicates may use: the position of its feature, and how values are compared."""

    position: int
    is_single: bool = False
    categories: tuple[str, ...] | None = None
    unseen_is_missing: bool = False

    def bound(self, value: str, *, is_closed: bool) -> float:
        """The closed float64 bound of x <= value, or of x < value."""
        number = decimal_number(value)
        if np.isnan(number):
            raise refusal("predicates must compare with numbers, got NaN")
        if self.is_single:
            single = np.float32(number)
            return float(bound_up_to(single) if is_closed else bound_below(single))
        return number if is_closed else float(np.nextafter(number, -np.inf))


@dataclasses.dataclass(frozen=True)
class Fields:
    """All fields by name, and the features that they become."""

    by_name: dict[str, Field]
    features: tuple[Feature, ...]

    def get(self, name: str) -> Field:
        """The field of a predicate."""
        if name not in self.by_name:
            raise refusal(
                f"a predicate uses {name!r}, which is neither an active field nor a copy of one; write the model "
                "without transformations"
            )
        return self.by_name[name]


def read_fields(document: Element, model: Element) -> Fields:
    """The active fields of a model, in the order of its MiningSchema, and copies of them among derived fields."""
    dictionary, schema = document.first("DataDictionary"), model.first("MiningSchema")
    listed = dictionary.all("DataField") if dictionary else []
    declared = {field.get("name"): field for field in listed}
    if len(declared) < len(listed):
        raise refusal("fields of DataDictionary must have names of their own, got one twice")
    active = [field for field in (schema.children if schema else ()) if field.get("usageType", "active") == "active"]
    for mining in document.below("MiningField"):
        if "missingValueReplacement" in mining.attributes or mining.get("outliers", "asIs") != "asIs":
            raise refusal(
                f"values of field {mining.get('name')!r} are replaced before the trees; remove this from MiningSchema, "
                "and replace them in the data"
            )
    used = _used_categories(document)
    by_name: dict[str, Field] = {}
    features: list[Feature] = []
    for position, mining in enumerate(active):
        name = mining.get("name")
        if name not in declared:
            raise refusal(f"field {name!r} is not in DataDictionary")
        feature, by_name[name] = _field(declared[name], mining, position, used.get(name, []))
        features.append(feature)
    for element in document.below("DerivedField"):
        _add_copy(by_name, element)
    return Fields(by_name, tuple(features))


def _add_copy(by_name: dict[str, Field], element: Element) -> None:
    """Add a derived field that is another one, possibly cast to float."""
    source = element.first("FieldRef")
    if source is None or len(element.children) > 1 or source.get("field") not in by_name or source.get("mapMissingTo"):
        return
    field, kind = by_name[source.get("field")], element.get("dataType")
    if field.categories is None and kind in {"float", "double"}:
        by_name[element.get("name")] = dataclasses.replace(field, is_single=field.is_single or kind == "float")
    elif field.categories is not None and kind == "string":
        by_name[element.get("name")] = field


def _field(declared: Element, mining: Element, position: int, used: list[str]) -> tuple[Feature, Field]:
    name, kind = declared.get("name"), declared.get("dataType")
    if declared.get("optype") == "continuous" and kind in _NUMBERS:
        encoder: Encoder = Number() if kind == "float" else Numeric()
        return Feature(name, encoder), Field(position, kind == "float")
    if kind not in {"string", "boolean"}:
        raise refusal(f"field {name!r} must hold numbers or texts, got {declared.get('optype')} {kind}")
    listed = [value.get("value") for value in declared.all("Value") if value.get("property", "valid") == "valid"]
    names = tuple(dict.fromkeys([*listed, *used]))
    treatment = mining.get("invalidValueTreatment", "returnInvalid")
    if treatment not in {"returnInvalid", "asIs", "asMissing"} or not all(names):
        raise refusal(
            f"field {name!r} must list its values, and refuse others or take them as missing, got {treatment}"
        )
    # "asIs" is missing in some scorers, and a text like others in others.
    accepts_unseen = treatment == "asMissing" or not listed
    feature = Feature(name, TextItems(names, empty_is_missing=False), accepts_unseen=accepts_unseen)
    return feature, Field(position, False, names, unseen_is_missing=treatment == "asMissing" and bool(listed))


def _used_categories(document: Element) -> dict[str, list[str]]:
    """Values that predicates compare with fields."""
    found: dict[str, list[str]] = {}
    for predicate in document.below("SimplePredicate"):
        if "value" in predicate.attributes:
            found.setdefault(predicate.get("field"), []).append(predicate.get("value"))
    for predicate in document.below("SimpleSetPredicate"):
        found.setdefault(predicate.get("field"), []).extend(predicate.members)
    return found
