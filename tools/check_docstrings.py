"""Check that all that users call is documented: ``python tools/check_docstrings.py`` prints what is missing.

Public are the names in ``__all__`` of treeanova (from ``__init__.pyi``) and of its public modules: `density`,
`errors`, `export`, `plot`, and `model` for those who write readers. Checked are these functions and classes, and the
public methods and properties of the classes, by numpydoc's validator. Classes that pass through users' hands without
being asked anything (`BUILDING_BLOCKS`) document themselves; of their members only those named there. All else needs
no docstring where the name says it. Of numpydoc's checks these count:

- functions, classes and methods: a summary of one line that ends with a period (GL08, SS01, SS03, SS04, SS06), every
  parameter and no other, each with a description (PR01, PR02, PR03, PR07), Returns or Yields where something comes back
  (RT01, YD01), Examples (EX01), and known sections in numpydoc's order (GL03, GL06, GL07);
- properties: the summary. Members that override a documented one need none.

First lines of functions and methods are in the imperative ("Return …", "Write …"); reviews hold that, no tool does.
Not checked: types of parameters, which annotations state (PR04); descriptions of what is returned, where the summary
says it (RT03); See Also and extended summaries, which are written where they help (SA01, ES01).

A class documents the arguments of its constructor under Parameters, or under Attributes where it is a result that
users only read. Arguments that a base class documents count as documented.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from numpydoc.docscrape import NumpyDocString, get_doc_object
from numpydoc.validate import Validator, validate

SUMMARY = frozenset({"GL08", "SS01", "SS03", "SS04", "SS06"})
WHOLE = SUMMARY | {"GL03", "GL06", "GL07", "PR01", "PR02", "PR03", "PR07", "RT01", "YD01", "EX01"}
BUILDING_BLOCKS: dict[str, frozenset[str]] = {
    "Axis": frozenset({"labels", "edges", "size"}),
    "CategoryAxis": frozenset(),
    "Certificate": frozenset({"error", "is_pure", "least_pure", "purity", "tables_are_pure", "uniqueness"}),
    "Density": frozenset({"log_likelihood"}),
    "Effects": frozenset({"from_tables", "score"}),
    "Feature": frozenset(),
    "Forest": frozenset({"score"}),
    "Grid": frozenset({"index"}),
    "HigherCertificate": frozenset({"accuracy", "purity"}),
    "IntervalAxis": frozenset(),
    "Rows": frozenset(),
    "Schema": frozenset(),
    "Statistics": frozenset(),
}


class Documented(Validator):  # type: ignore[misc]  # numpydoc has no types
    """An object and its docstring; what it returns follows from its annotation, also where it is abstract."""

    def __init__(self, obj_name: Any) -> None:
        super().__init__(get_doc_object(obj_name))

    @property
    def method_returns_something(self) -> bool:
        """Whether a function is annotated to return anything but None."""
        returned = inspect.signature(self.obj).return_annotation
        return returned not in {None, "None", "NoReturn", inspect.Signature.empty}

    @property
    def parameter_mismatches(self) -> list[tuple[str, str]]:
        """Arguments and documented ones that differ; a class may document its arguments as attributes."""
        if not inspect.isclass(self.obj):
            mismatches: list[tuple[str, str]] = super().parameter_mismatches
            return mismatches
        if issubclass(self.obj, BaseException):
            return []
        public = {name for name in self.signature_parameters if not name.startswith("_")}
        missing = public - documented_names(self.obj)
        return [("PR01", f"Parameters {sorted(missing)} not documented")] if missing else []


def documented_names(kind: type) -> set[str]:
    """Names under Parameters and Attributes in the docstrings of a class and its bases."""
    names: set[str] = set()
    for cls in filter(is_ours, kind.__mro__):
        doc = NumpyDocString(inspect.cleandoc(cls.__doc__ or ""))
        for entry in [*doc["Parameters"], *doc["Attributes"]]:
            names |= set(entry.name.split(", "))
    return names


def is_ours(thing: Any) -> bool:
    """Whether a class or function is defined in treeanova."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "treeanova"


def public_objects(module: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """Public functions and classes of a module and of its public modules, each with its name."""
    for name in module.__all__:
        value = getattr(module, name)
        full_name = f"{module.__name__}.{name}"
        if isinstance(value, types.ModuleType):
            yield from public_objects(value)
        else:
            yield full_name, value


def members(kind: type) -> Iterator[tuple[str, Any, type]]:
    """Public methods and properties of a class, each with its name and the class that defines it."""
    for name in dir(kind):
        if name.startswith("_"):
            continue
        home = next(cls for cls in kind.__mro__ if name in vars(cls))
        member = vars(home)[name]
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if is_ours(home) and (inspect.isfunction(member) or is_property(member)):
            yield name, member, home


def is_property(member: Any) -> bool:
    """Whether a member is read without a call."""
    return isinstance(member, property | functools.cached_property)


def is_called_by_users(name: str, kind: type) -> bool:
    """Whether users call a member of a public class, rather than other rooms alone."""
    blocks = [BUILDING_BLOCKS[cls.__name__] for cls in kind.__mro__ if cls.__name__ in BUILDING_BLOCKS]
    return not blocks or any(name in members_of_block for members_of_block in blocks)


def is_override(name: str, home: type) -> bool:
    """Whether a base class of treeanova documents a member of the same name."""
    return any(is_ours(cls) and name in vars(cls) for cls in home.__mro__[1:])


def faults(thing: Any, codes: frozenset[str]) -> list[str]:
    """What is missing in the docstring of a function or class."""
    if not thing.__doc__:
        return ["GL08 The object does not have a docstring"]
    found = validate(thing, validator_cls=Documented)["errors"]
    return [f"{code} {text}" for code, text in found if code in codes]


def faults_of_member(name: str, member: Any, home: type) -> list[str]:
    """What is missing in the docstring of a method or property."""
    if is_override(name, home) or (member.__doc__ or "").startswith("Former name of"):
        return []
    if is_property(member):
        function = member.fget if isinstance(member, property) else member.func
        return faults(function, SUMMARY)
    return faults(member, WHOLE)


def all_faults() -> Iterator[tuple[str, str]]:
    """Name of each public object that is not documented well, and what is missing."""
    checked: set[str] = set()
    for full_name, value in public_objects(importlib.import_module("treeanova")):
        yield from ((full_name, fault) for fault in faults(value, WHOLE))
        for name, member, home in members(value) if inspect.isclass(value) else ():
            member_name = f"{home.__module__}.{home.__qualname__}.{name}"
            if member_name not in checked and is_called_by_users(name, value):
                checked.add(member_name)
                yield from ((member_name, fault) for fault in faults_of_member(name, member, home))


def main() -> int:
    """Print all faults; 1 where there are any."""
    lines = [f"{name}: {fault}" for name, fault in all_faults()]
    for line in lines:
        print(line)
    if lines:
        print(f"{len(lines)} faults in docstrings; what counts is listed in {__file__}", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
