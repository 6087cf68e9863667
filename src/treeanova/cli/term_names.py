"""The term that `--term` names, as it is typed."""

from __future__ import annotations

import csv
import difflib

from treeanova.core.arrays import Names
from treeanova.core.labels import quoted, split_label
from treeanova.decomposition.decomposition import Decomposition
from treeanova.views.standings import features_by_label


def term_named(text: str, fx: Decomposition) -> Names:
    """Names of the features of a term, from "a", "a,b", "a × b" or "a x b"; names may hold commas in quotes."""
    labelled = features_by_label(fx.terms, fx.schema).get(text.strip(), ())
    typed = ((text,), _listed(text), split_label(text), labelled)
    readings = dict.fromkeys(tuple(sorted(name.strip() for name in names)) for names in typed)
    known = {tuple(sorted(names)): names for names in fx.terms}
    found = [known[reading] for reading in readings if reading in known]
    if not found:
        raise ValueError(f"`--term` must be a term that has a table, got {text!r}; {_near(text, fx)}.")
    if len(found) > 1:
        raise ValueError(f"`--term` must name one term, got {text!r}; write {' or '.join(map(_typed, found))}.")
    names = found[0]
    if not fx.terms[names].has_table:
        raise ValueError(
            f"`--term` must be a term that has a table, got {text!r}, which is known at rows only; in Python, "
            "fx.term_values(X, names) gives its values."
        )
    return names


def _typed(names: Names) -> str:
    """A line of CSV, which can be read in one way only."""
    return ",".join(map(quoted, names))


def _near(text: str, fx: Decomposition) -> str:
    """Terms with tables whose names are close to a text."""
    labels = [",".join(names) for names, term in fx.terms.items() if term.has_table]
    near = difflib.get_close_matches(text, labels, n=3, cutoff=0.4) or labels[:3]
    return f"there are {'; '.join(near)} ({len(labels)} in all)"


def _listed(text: str) -> Names:
    """Names from a line of CSV; none where it is not such a line."""
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:  # a line break outside quotes
        return ()
