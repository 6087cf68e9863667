"""Families of features, such as all columns of a job: terms become terms of families, and sums stay exact.

A term whose features are all of one family belongs to that family, whatever its order. A term of features of several
families is an interaction of these families. A feature without a family is one by itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from treeanova.core.arrays import Floats, Ints, Key, Names
from treeanova.core.labels import labels_of


@dataclasses.dataclass(frozen=True)
class Families:
    """Which family each feature belongs to.

    Attributes
    ----------
    names
        Names of the families, in the order of their first features.
    places
        Position of the family of each feature.
    """

    names: Names
    places: tuple[int, ...]

    def key(self, key: Key) -> Key:
        """Positions of the families of a term's features."""
        return tuple(sorted({self.places[j] for j in key}))

    def merged(self, keys: Sequence[Key]) -> tuple[list[Key], Ints]:
        """Terms of families, and the position among them of each term of features."""
        of_terms = [self.key(key) for key in keys]
        distinct = sorted(set(of_terms), key=lambda key: (len(key), key))
        position = {key: i for i, key in enumerate(distinct)}
        return distinct, np.array([position[key] for key in of_terms], dtype=np.int64)

    def labels(self, keys: Iterable[Key]) -> list[str]:
        """Labels of terms of families."""
        return labels_of([[self.names[i] for i in key] for key in keys], self.names)


def families_of(groups: Mapping[str, Collection[str]] | None, features: Sequence[str]) -> Families:
    """The families that a user names, checked; each feature by itself for None."""
    if groups is None:
        return Families(tuple(features), tuple(range(len(features))))
    family_of = _family_of_each(groups, features)
    names = [family_of.get(feature, feature) for feature in features]
    taken = [name for feature, name in zip(features, names, strict=True) if name == feature and name in groups]
    for name in taken:
        if name not in family_of:
            raise ValueError(
                f"`groups` must not name a family like a feature outside it, got {name!r}; choose another name."
            )
    distinct = tuple(dict.fromkeys(names))
    return Families(distinct, tuple(distinct.index(name) for name in names))


def _family_of_each(groups: Any, features: Sequence[str]) -> dict[str, str]:
    """The family of each feature that has one."""
    if not isinstance(groups, Mapping):
        kind = type(groups).__name__
        raise TypeError(f"`groups` must map names of families to lists of features, got {kind}; pass {{'job': [...]}}.")
    family_of: dict[str, str] = {}
    for family, members in groups.items():
        if isinstance(members, str) or not isinstance(members, Collection) or not len(members):
            raise ValueError(
                f"`groups` must give each family a list of features, got {members!r} for {family!r}; pass "
                f"{{{family!r}: ['a', 'b']}}."
            )
        for feature in members:
            if feature not in features:
                raise ValueError(
                    f"`groups` must hold features of the model, got {feature!r} in {family!r}; see "
                    "fx.feature_names_in_."
                )
            if family_of.setdefault(feature, str(family)) != str(family):
                raise ValueError(
                    f"`groups` must put each feature into one family, got {feature!r} in {family_of[feature]!r} and "
                    f"{family!r}; leave it out of one."
                )
    return family_of


def summed(values: Floats, places: Ints, n_sums: int) -> Floats:
    """Sums of arrays along the first axis: that of the i-th goes to the sum at ``places[i]``."""
    n_parts = len(places)
    which = scipy.sparse.csr_array((np.ones(n_parts), (places, np.arange(n_parts))), shape=(n_sums, n_parts))
    total: Floats = which @ values.reshape(n_parts, math.prod(values.shape[1:]))
    return total.reshape(n_sums, *values.shape[1:])
