"""The check of docstrings notices what is missing; each case here is written by hand with its faults known."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("numpydoc")


@pytest.fixture(scope="module")
def check():
    path = Path(__file__).parents[1] / "tools" / "check_docstrings.py"
    spec = importlib.util.spec_from_file_location("check_docstrings", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complete(a: int) -> int:
    """Twice a number.

    Parameters
    ----------
    a
        The number.

    Returns
    -------
    int

    Examples
    --------
    >>> complete(2)
    4
    """
    return 2 * a


def bare(a: int) -> int:
    """Twice a number"""
    return 2 * a


def nothing_to_return(a: int) -> None:
    """Do nothing.

    Parameters
    ----------
    b
        Another name than that of the argument.
    """


@dataclasses.dataclass
class Result:
    """A result that users read.

    Attributes
    ----------
    value
        A number.
    """

    value: int
    other: int = 0

    @property
    def twice(self) -> int:
        """Twice the value."""
        return 2 * self.value

    def method(self) -> int:
        """A number."""
        return self.value

    def former(self) -> int:
        """Former name of `method`."""
        return self.method()


class Derived(Result):
    """A derived result."""

    def method(self) -> int:
        """Another number."""
        return self.value + 1


def codes(faults):
    return sorted(fault.partition(" ")[0] for fault in faults)


def test_functions(check):
    assert codes(check.faults(complete, check.WHOLE)) == []
    assert codes(check.faults(bare, check.WHOLE)) == ["EX01", "PR01", "RT01", "SS03"]
    assert codes(check.faults(nothing_to_return, check.WHOLE)) == ["EX01", "PR01", "PR02"]
    assert codes(check.faults(lambda: 0, check.WHOLE)) == ["GL08"]


def test_fields_of_a_class_are_documented_as_parameters_or_attributes(check, monkeypatch):
    monkeypatch.setattr(check, "is_ours", lambda thing: thing.__module__ == __name__)
    assert check.documented_names(Derived) == {"value"}
    faults = check.faults(Derived, check.WHOLE)
    assert codes(faults) == ["EX01", "PR01"]
    assert any("['other']" in fault for fault in faults)


def test_members(check, monkeypatch):
    monkeypatch.setattr(check, "is_ours", lambda thing: thing.__module__ == __name__)
    found = {name: codes(check.faults_of_member(name, member, home)) for name, member, home in check.members(Result)}
    assert found == {"twice": [], "method": ["EX01", "RT01"], "former": []}
    inherited = {name: home for name, _, home in check.members(Derived)}
    assert inherited == {"twice": Result, "method": Derived, "former": Result}
    assert codes(check.faults_of_member("method", Derived.method, Derived)) == []


def test_members_of_building_blocks_that_users_call(check):
    import treeanova

    assert check.is_called_by_users("log_likelihood", treeanova.density.Auto)
    assert not check.is_called_by_users("prepare", treeanova.density.Auto)
    assert check.is_called_by_users("labels", treeanova.model.IntervalAxis)
    assert not check.is_called_by_users("plain", treeanova.model.IntervalAxis)
    assert check.is_called_by_users("explain", treeanova.Decomposition)


def test_public_objects_include_those_of_public_modules(check):
    import treeanova

    names = dict(check.public_objects(treeanova))
    assert {"treeanova.decompose", "treeanova.density.Laplace", "treeanova.plot.effect", "treeanova.export.ebm"} <= set(
        names
    )
