"""Settings of sources: values by which they are equal, and defaults."""

from __future__ import annotations

import pytest

from treeanova.anova.solvers.base import Options
from treeanova.terms.source import Settings, Source


def test_settings_are_equal_by_value():
    assert Settings() == Settings(Options(), 1, None, 0)
    assert Settings(n_jobs=2) != Settings()
    with pytest.raises(AttributeError, match="cannot assign"):
        Settings().n_jobs = 3


def test_a_source_must_say_all_that_decompositions_ask():
    with pytest.raises(TypeError, match="abstract"):
        Source()
