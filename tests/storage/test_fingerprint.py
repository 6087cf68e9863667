"""Fingerprints are the same for the same function only."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import treeanova
from tests.support.library_models import LIBRARY_MODELS, number_rows
from tests.support.training import fit
from treeanova.storage.saved import fingerprint

CODE = """
from treeanova.storage.saved import fingerprint
from tests.support.library_models import LIBRARY_MODELS
for name in {names!r}:
    fx, _ = LIBRARY_MODELS[name].make()
    print(fingerprint(fx._function.source, fx._function.terms, fx._function.scope))
"""
NAMES = ["regression", "order three"]


def print_of(fx):
    return fingerprint(fx._function.source, fx._function.terms, fx._function.scope)


def decompositions():
    pytest.importorskip("sklearn")
    return [LIBRARY_MODELS[name].make()[0] for name in NAMES]


def test_the_same_in_another_process_and_after_a_pickle():
    code = CODE.format(names=NAMES)
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = decompositions()
    assert printed.split() == [print_of(fx) for fx in found]
    assert [print_of(pickle.loads(pickle.dumps(fx))) for fx in found] == [print_of(fx) for fx in found]


def test_another_for_every_change(tmp_path):
    tree = pytest.importorskip("sklearn.tree")
    data = number_rows()
    model = fit(tree.DecisionTreeRegressor(max_depth=4, random_state=0), data, data.prod(axis=1))
    fx = treeanova.decompose(model, data, density="empirical", tensor_order=2)
    moved = model.tree_.threshold.copy()
    others = [fx, fx.with_density("uniform"), fx.truncate(2), fx.truncate(1), fx.drop("x0"), fx.raw]
    model.tree_.value[np.flatnonzero(model.tree_.children_left < 0)[0]] += 1e-9
    others.append(treeanova.decompose(model, data, density="empirical", tensor_order=2))
    assert (moved == model.tree_.threshold).all()
    prints = [print_of(other) for other in others]
    assert len(set(prints)) == len(prints)
