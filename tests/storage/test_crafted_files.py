"""Files made by hand: whatever the header and the arrays hold, they are refused at load or their decomposition answers.

Each value of the header and each array of small files is replaced by others, one at a time. What loads must answer all
questions without an error of Python or NumPy, and with weights and terms that are numbers.
"""

from __future__ import annotations

import collections
import copy
import io
import json
import math
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import treeanova
from tests.support.archives import reference
from tests.support.training import fit
from treeanova import load
from treeanova.errors import ArchiveError

VALUES = [None, True, -1, 0, 1, 2.5, 70_000, 10**30, math.nan, math.inf, -1e300, "", "x", [], {}, [[]], [1, 2]]


def deep():
    """Trees of order 4 with tables of one feature only, purified under dependent features: a file with all parts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 1] += X[:, 0]
    model = fit(RandomForestRegressor(2, max_depth=4, random_state=0), X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3])
    weights = rng.random(200) + 0.5
    return treeanova.decompose(model, X, sample_weight=weights, density="empirical", tensor_order=2), X[:5]


def with_reference():
    rows = np.array([[0.5, "a"], [-999, "b"], [np.nan, "a"]], dtype=object)
    return reference(), rows


CASES = {"tables": with_reference, "trees": deep}


def content_of(path):
    with zipfile.ZipFile(path) as file:
        names = [name for name in file.namelist() if name != "header.json"]
        return json.loads(file.read("header.json")), {name: file.read(name) for name in names}


def write(path, header, parts):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.json", json.dumps(header))
        for name, part in parts.items():
            file.writestr(name, part)


def places_in(plain, place=()):
    """Every value of nested lists and dicts, containers included, by the way to it."""
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for name, value in items:
        yield (*place, name)
        yield from places_in(value, (*place, name))


def replaced(plain, place, value):
    changed = copy.deepcopy(plain)
    inner = changed
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return changed


def crafted_arrays(array):
    """The array with other values, of other shapes, and of other kinds."""
    flat = array.ravel()
    for value in (np.nan, np.inf, -1.0, 0.0, 3.0, 70_000.0, 1e300):
        for where in {0, len(flat) - 1} if len(flat) else ():
            changed = flat.astype(np.float64)
            changed[where] = value
            yield changed.reshape(array.shape)
            if array.dtype.kind in "iu" and abs(value) < 2**40:
                yield changed.astype(np.int64).reshape(array.shape)
    yield from (np.zeros_like(array), np.full(array.shape, -1.0), array[:-1], array[:0], flat, array[None], array.T)
    yield from (np.concatenate([array, array]), array[::-1], np.zeros(()), np.zeros(0), np.full(array.shape, 70_000))
    yield from (array.astype(kind) for kind in ("f4", "i1", "i8", "u8", "?", "c16", "U3", "S3", "f2", ">f8"))
    yield from (np.zeros(array.shape, "M8[s]"), np.zeros(array.shape, "V4"), np.zeros(array.shape, [("a", "f8")]))


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def fault_of(path, rows):
    """What goes wrong with a file, in words; None where it is refused, or loaded and answers."""
    try:
        fx = load(path)
    except ArchiveError as error:
        return None if path.name in str(error) else f"the error does not name the file: {error}"
    except Exception as error:  # noqa: BLE001  any other kind is what this looks for
        return f"load: {type(error).__name__}: {error}"
    return next(filter(None, (fault_in(name, ask, fx) for name, ask in questions(rows, path).items())), None)


def questions(rows, path):
    return {
        "decision_function": lambda fx: fx.decision_function(rows),
        "explain": lambda fx: fx.explain(rows).values,
        "importance": lambda fx: fx.importance(),
        "by feature": lambda fx: fx.importance(by="feature"),
        "print": lambda fx: f"{fx} {fx!r} {fx.certificate} {fx.certificate!r} {fx.schema}",
        "tables": lambda fx: [fx.table(names) for names in fx.terms if fx.terms[names].has_table],
        "save": lambda fx: fx.save(path.with_name("again.tav")),
        "load": lambda fx: load(path.with_name("again.tav")),
        "weights": lambda fx: [assert_weights(table) for table in fx._cell_weights.values()],
        "terms": lambda fx: [assert_finite(table) for table in fx._function.effects.terms.values()],
    }


def assert_weights(table):
    assert np.isfinite(table).all()
    assert (table >= 0).all()
    assert table.sum() > 0


def assert_finite(table):
    assert np.isfinite(table).all()


def is_own(error):
    """Whether an error states what must be: an answer in words of ours."""
    return isinstance(error, ValueError | TypeError) and " must " in str(error)


def fault_in(name, ask, fx):
    try:
        with np.errstate(all="ignore"):
            ask(fx)
    except Exception as error:  # noqa: BLE001  any kind is what this looks for
        return None if is_own(error) else f"{name}: {type(error).__name__}: {error}"
    return None


@pytest.fixture(scope="module", params=["tables", pytest.param("trees", marks=pytest.mark.thorough)])
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crafted")
    fx, rows = CASES[request.param]()
    fx.save(folder / "fx.tav")
    return (*content_of(folder / "fx.tav"), rows)


@pytest.fixture(autouse=True)
def no_sync(monkeypatch):
    """Thousands of files need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.filterwarnings("ignore")
def test_a_file_that_is_not_changed_answers(saved, tmp_path):
    header, parts, rows = saved
    write(tmp_path / "fx.tav", header, parts)
    load(tmp_path / "fx.tav")
    assert fault_of(tmp_path / "fx.tav", rows) is None


@pytest.mark.filterwarnings("ignore")
def test_crafted_headers_are_refused_or_answer(saved, tmp_path):
    """Places that differ by their position in a list only take turns with the values, else this would take minutes."""
    header, parts, rows = saved
    faults, n_of_kind = {}, collections.Counter()
    for place in places_in(header):
        kind = tuple(name for name in place if isinstance(name, str))
        n_of_kind[kind] += 1
        step = 17 if n_of_kind[kind] > 1 else 1 if os.environ.get("TREEANOVA_THOROUGH") else 5
        for value in VALUES[n_of_kind[kind] % step :: step]:
            write(tmp_path / "fx.tav", replaced(header, place, value), parts)
            faults[place, repr(value)] = fault_of(tmp_path / "fx.tav", rows)
    assert {case: fault for case, fault in faults.items() if fault} == {}


@pytest.mark.filterwarnings("ignore")
def test_crafted_arrays_are_refused_or_answer(saved, tmp_path):
    """Arrays of the same folder take turns with the changes, and the first one has a third of them unless thorough."""
    header, parts, rows = saved
    faults, n_of_kind = {}, collections.Counter()
    for name, part in parts.items():
        kind = name.rpartition("/")[0] if "rows/" not in name else name
        kind = kind if kind.rpartition("/")[2].isalpha() else f"{kind.partition('/')[0]}/{name.rpartition('/')[2]}"
        n_of_kind[kind] += 1
        every = 7 if n_of_kind[kind] > 1 else 1 if os.environ.get("TREEANOVA_THOROUGH") else 3
        for number, crafted in list(enumerate(crafted_arrays(np.load(io.BytesIO(part)))))[
            n_of_kind[kind] % every :: every
        ]:
            write(tmp_path / "fx.tav", header, {**parts, name: npy(crafted)})
            faults[name, number, f"{crafted!r:.100}"] = fault_of(tmp_path / "fx.tav", rows)
    assert {case: fault for case, fault in faults.items() if fault} == {}


def refuse_in_little_memory(paths):
    """The errors of loading files with at most a gigabyte more than the imports take."""
    code = (
        "import resource, sys, treeanova\n"
        "from treeanova import decomposition\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 10**9, used + 10**9))\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        treeanova.load(path)\n"
        "    except treeanova.errors.ArchiveError as error:\n        print(error, type(error.__cause__).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_a_number_in_a_header_cannot_fill_the_memory(tmp_path):
    reference().save(tmp_path / "fx.tav")
    header, parts = content_of(tmp_path / "fx.tav")
    changes = {
        "missing": (("axes", "tuple", 0, "fields", "missing_bin"), 10**9),
        "unseen": (("axes", "tuple", 1, "fields", "unseen_bin"), 10**9),
        "categories": (
            ("features", "fields", "features", "tuple", 1, "fields", "encoder"),
            {"type": "integer-category", "fields": {"codes": 10**9}},
        ),
    }
    for name, (place, value) in changes.items():
        write(tmp_path / name, replaced(header, place, value), parts)
    message = "must be a whole file saved by treeanova, got one that does not fit. ValueError"
    answers = refuse_in_little_memory(tmp_path / name for name in changes)
    assert answers == [f"{name} {message}" for name in changes]


@pytest.mark.parametrize("wrong", [np.nan, -0.25, np.inf])
def test_weights_that_are_no_masses_are_refused(wrong, tmp_path):
    reference().save(tmp_path / "fx.tav")
    header, parts = content_of(tmp_path / "fx.tav")
    weights = np.load(io.BytesIO(parts["weights/0-1.npy"])).copy()
    weights[0, 0] = wrong
    write(tmp_path / "fx.tav", header, {**parts, "weights/0-1.npy": npy(weights)})
    with pytest.raises(ArchiveError, match=r"fx\.tav must be a whole file"):
        load(tmp_path / "fx.tav")
