"""Fields that a projection includes, computes or excludes: trees of paths that go through arrays."""

from typing import Any, Final

from tailrace.query.expressions import Environment, Expression
from tailrace.query.missing import MISSING
from tailrace.query.reshape.computed import ComputedFields
from tailrace.query.reshape.path_tree import PathTree

NOT_COMPUTED: Final = None
"""The leaf of a field that is included or excluded; every other leaf is an expression."""

Projection = PathTree[Expression | None]


class Exclusion:
    """Excludes fields; all others stay in place."""

    __slots__ = ("_below", "_names")

    def __init__(self, paths: Projection) -> None:
        below = {name: entry for name, entry in paths.entries.items() if isinstance(entry, PathTree)}
        self._names = paths.entries.keys() - below.keys()
        self._below = {name: Exclusion(entry) for name, entry in below.items()}

    def applied_to(self, value: Any) -> Any:
        """The value without the fields, in documents and in arrays of documents."""
        if isinstance(value, dict):
            return {
                name: self._below[name].applied_to(item) if name in self._below else item
                for name, item in value.items()
                if name not in self._names
            }
        if isinstance(value, list):
            return [self.applied_to(item) for item in value]
        return value


class Inclusion:
    """Includes fields, in the document's order, then sets computed ones, in the specification's order."""

    __slots__ = ("_below", "_computed", "_names")

    def __init__(self, paths: Projection) -> None:
        self._names: set[str] = set()
        self._below: dict[str, Inclusion] = {}
        self._computed = ComputedFields()
        for name, entry in paths.entries.items():
            if isinstance(entry, PathTree):
                child = self._below[name] = Inclusion(entry)
                if child.computes:
                    self._computed.fields[name] = child._computed
            elif entry is NOT_COMPUTED:
                self._names.add(name)
            else:
                self._computed.fields[name] = entry

    @property
    def computes(self) -> bool:
        """Whether any field, here or nested, is computed."""
        return bool(self._computed.fields)

    def project(self, document: dict[str, Any], env: Environment) -> dict[str, Any]:
        result = self._kept(document)
        self._computed.set_in(result, env)
        return result

    def _kept(self, document: dict[str, Any]) -> dict[str, Any]:
        result = {}
        for name, item in document.items():
            if name in self._names:
                result[name] = item
            elif child := self._below.get(name):
                kept = child._kept_in(item)
                # If nested fields are computed, any value here is replaced by a document.
                if kept is not MISSING or child.computes:
                    result[name] = kept
        return result

    def _kept_in(self, value: Any) -> Any:
        """The included part of a value with nested paths: `MISSING` for one that is not a document."""
        if isinstance(value, dict):
            return self._kept(value)
        if isinstance(value, list):
            items = [self._kept_in(item) for item in value]
            return items if self.computes else [item for item in items if item is not MISSING]
        return MISSING
