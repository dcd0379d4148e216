"""Fields that a projection includes, computes or excludes: trees of paths that go through arrays."""

from typing import Any

from tailrace.query.expressions import Environment, Expression
from tailrace.query.missing import MISSING
from tailrace.query.placed import PlacedDocument, array_of, elements_of, in_places, places_of
from tailrace.query.reshape.computed import NOT_COMPUTED, ComputedFields
from tailrace.query.reshape.path_tree import PathTree

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
            kept = {
                name: self._below[name].applied_to(item) if name in self._below else item
                for name, item in value.items()
                if name not in self._names
            }
            is_whole = len(kept) == len(value) and not isinstance(value, PlacedDocument)
            return kept if is_whole else in_places(kept, places_of(value))
        if isinstance(value, list):
            return array_of([self.applied_to(item) for item in elements_of(value)])
        return value


class Inclusion:
    """Includes fields, in the document's order, then sets computed ones, in the specification's order.

    If some are computed, nested paths that include get a place in that order, too. With ``keeps_places``, a
    value without the nested fields that are included keeps its place in the document or the array.
    """

    __slots__ = ("_below", "_computed", "_keeps_places", "_names", "computes")

    def __init__(self, paths: Projection, *, keeps_places: bool = False) -> None:
        self._keeps_places = keeps_places
        self.computes = False
        """Whether any field, here or nested, is computed."""
        self._names: set[str] = set()
        self._below: dict[str, Inclusion] = {}
        self._computed = ComputedFields()
        for name, entry in paths.entries.items():
            if isinstance(entry, PathTree):
                child = self._below[name] = Inclusion(entry, keeps_places=keeps_places)
                self._computed.fields[name] = child._computed if child.computes else NOT_COMPUTED
            elif entry is NOT_COMPUTED:
                self._names.add(name)
            else:
                self._computed.fields[name] = entry
        self.computes = any(field is not NOT_COMPUTED for field in self._computed.fields.values())

    def project(self, document: dict[str, Any], env: Environment) -> dict[str, Any]:
        kept = self._kept(document)
        return self._computed.set_in(kept, env) if self.computes else kept

    def _kept(self, document: dict[str, Any]) -> dict[str, Any]:
        result = {}
        emptied = False
        for name, item in document.items():
            if name in self._names:
                result[name] = item
            elif child := self._below.get(name):
                kept = child._kept_in(item)
                # If nested fields are computed, any value here is replaced by a document.
                if kept is not MISSING or child.computes:
                    result[name] = kept
                else:
                    emptied = True
        if not emptied or not self._keeps_places:
            return result
        return in_places(result, [name for name in document if name in self._names or name in self._below])

    def _kept_in(self, value: Any) -> Any:
        """The included part of a value with nested paths: `MISSING` for one that is not a document."""
        if isinstance(value, dict):
            return self._kept(value)
        if isinstance(value, list):
            items = [self._kept_in(item) for item in elements_of(value)]
            if self.computes:
                return items
            return array_of(items) if self._keeps_places else [item for item in items if item is not MISSING]
        return MISSING
