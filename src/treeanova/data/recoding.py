"""Encoded rows of one model as another model would have encoded them: exactly, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import REFUSED_LABEL, Encoder, Feature, Schema


def places_of_features(old: Schema, new: Schema) -> list[int]:
    """Return each feature's place in `old`: by name if both know names, else by position; ValueError if unlike."""
    if not all(schema.named or schema.given for schema in (old, new)):
        if len(old.features) != len(new.features):
            raise _other_columns_error(old, new)
        return list(range(len(new.features)))
    for theirs in _spellings(new, old):
        for ours in _spellings(old, new):
            if set(theirs) == set(ours):
                return [ours.index(name) for name in theirs]
    raise _other_columns_error(old, new)


def _spellings(schema: Schema, other: Schema) -> list[list[str]]:
    """Return the sets of names of a schema, with underscores for spaces if one of two models has replaced them."""
    if not (schema.underscores or other.underscores):
        return [list(spelling) for spelling in schema.spellings]
    return [[name.replace(" ", "_") for name in spelling] for spelling in schema.spellings]


def _other_columns_error(old: Schema, new: Schema) -> ValueError:
    """Return the error, to be raised, for statistics of other columns."""
    ours, theirs = (
        f"{', '.join(map(repr, schema.names[:10]))}{', …' * (len(schema.names) > 10)}" for schema in (old, new)
    )
    return ValueError(
        f"`X` must be statistics of the model's columns {theirs}, got those of {ours}; pass the rows themselves."
    )


def with_labels_of(old: Schema, new: Schema) -> Schema:
    """Return the schema `new` with names of categories that `old` has taken from data, where the model stores none."""
    if not any(feature.encoder.wants_labels for feature in new.features):
        return new
    features = list(new.features)
    for j, place in enumerate(places_of_features(old, new)):
        encoder, old_encoder = features[j].encoder, old.features[place].encoder
        if encoder.wants_labels and type(old_encoder) is type(encoder):
            labels = np.array(old_encoder.labels or (), dtype=object)
            features[j] = dataclasses.replace(features[j], encoder=encoder.labelled(labels, features[j].name))
    return dataclasses.replace(new, features=tuple(features))


def unlike_columns(old: Schema, new: Schema, places: Sequence[int]) -> list[str]:
    """Return names of features that two models read in different ways: values of one mean nothing to the other."""
    pairs = ((old.features[place], feature) for place, feature in zip(places, new.features, strict=True))
    return [theirs.name for ours, theirs in pairs if not theirs.encoder.takes_values_of(ours.encoder)]


def accept_the_same(old: Schema, new: Schema) -> bool:
    """Whether each feature of `new` accepts missing and unseen values if that of `old` does."""
    pairs = zip(old.features, new.features, strict=True)
    return all(
        ours.accepts_missing <= theirs.accepts_missing and ours.accepts_unseen <= theirs.accepts_unseen
        for ours, theirs in pairs
    )


def have_same_categories(old: Schema, new: Schema) -> bool:
    """Whether the categories of all features have the same codes in two schemas."""
    pairs = zip(old.features, new.features, strict=True)
    return all(_have_same_codes(*_identities(one.encoder, other.encoder)) for one, other in pairs)


Identities = Sequence[Hashable] | None


def _identities(old: Encoder, new: Encoder) -> tuple[Identities, Identities]:
    """Return what tells categories apart in both columns: labels, unless encoders of one kind know better."""
    return (old.identities, new.identities) if type(old) is type(new) else (old.labels, new.labels)


def _have_same_codes(ours: Identities, theirs: Identities) -> bool:
    """Whether categories have the same codes by both lists: equal ones, or the codes as one of them."""
    if ours is None or theirs is None or ours == theirs:
        return True
    return len(ours) == len(theirs) and tuple(range(len(ours))) in (ours, theirs)


def recoded_column(column: Floats, old: Feature, new: Feature, *, unseen_by_both: bool = False) -> Floats | None:
    """Turn codes of categories by `old` into codes by `new`; None if `new` may know labels that `old` has not seen."""
    # Only the caller can rule that out, by `unseen_by_both`. Labels that `new` refuses become `REFUSED_LABEL`.
    ours, theirs = _identities(old.encoder, new.encoder)
    if ours is None or theirs is None or _have_same_codes(ours, theirs):
        return column
    positions = {label: float(code) for code, label in enumerate(theirs)}
    other = REFUSED_LABEL if new.encoder.refuses_labels and not unseen_by_both else float(len(theirs))
    unseen = np.nan if set(theirs) - set(ours) and not unseen_by_both else float(len(theirs))
    new_codes = np.array([*(positions.get(label, other) for label in ours), unseen])
    is_present = ~np.isnan(column)
    recoded = np.full(column.shape, np.nan)
    recoded[is_present] = new_codes[column[is_present].astype(np.int64)]
    return None if np.isnan(recoded[is_present]).any() else recoded
