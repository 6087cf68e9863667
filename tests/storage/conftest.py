"""Decompositions to save, made anew for each test."""

from __future__ import annotations

import pytest

from tests.support.library_models import LIBRARY_MODELS


@pytest.fixture
def make_case():
    """Makes a decomposition and rows by the name of a case; skips the test where a library is missing."""

    def make(name):
        case = LIBRARY_MODELS[name]
        for library in case.libraries:
            pytest.importorskip(library)
        return case.make()

    return make


@pytest.fixture
def regression(make_case):
    """The decomposition of a regressor of three numbers, and rows."""
    return make_case("regression")
