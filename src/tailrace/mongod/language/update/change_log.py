"""The changes of a modifier update, as the ``$v: 2`` diff for the oplog.

Changes are added path by path and collected in a tree with the shape of the diff: for each document the
sections ``d``, ``u``, ``i`` and the sub-diffs, for each array the changed elements in ascending order.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from tailrace.mongod.language.update.operator import Path


@dataclass(slots=True)
class _DocumentChanges:
    deletes: dict[str, bool] = field(default_factory=dict)
    updates: dict[str, Any] = field(default_factory=dict)
    inserts: dict[str, Any] = field(default_factory=dict)
    children: dict[str, "_Changes"] = field(default_factory=dict)

    def to_diff(self) -> dict[str, Any]:
        sections = {"d": self.deletes, "u": self.updates, "i": self.inserts}
        diff: dict[str, Any] = {name: entries for name, entries in sections.items() if entries}
        diff.update({f"s{name}": child.to_diff() for name, child in self.children.items()})
        return diff


@dataclass(slots=True)
class _ArrayChanges:
    updates: dict[int, Any] = field(default_factory=dict)
    children: dict[int, "_Changes"] = field(default_factory=dict)

    def to_diff(self) -> dict[str, Any]:
        diff: dict[str, Any] = {"a": True}
        for index in sorted({*self.updates, *self.children}):
            if index in self.children:
                diff[f"s{index}"] = self.children[index].to_diff()
            else:
                diff[f"u{index}"] = self.updates[index]
        return diff


_Changes: TypeAlias = _DocumentChanges | _ArrayChanges


class ChangeLog:
    """Collects changes and builds the diff.

    >>> log = ChangeLog()
    >>> log.updated(("a", 3), "x"), log.inserted(("b",), 1), log.deleted(("c", "d"))
    (None, None, None)
    >>> log.to_diff()
    {'i': {'b': 1}, 'sa': {'a': True, 'u3': 'x'}, 'sc': {'d': {'d': False}}}
    """

    def __init__(self) -> None:
        self._root = _DocumentChanges()

    def updated(self, path: Path, value: Any) -> None:
        """A value was replaced, or an element was appended to an array."""
        changes, last = self._changes_at(path)
        changes.updates[last] = value

    def inserted(self, path: Path, value: Any) -> None:
        """A field was added to a document."""
        changes, last = self._changes_at(path)
        changes.inserts[last] = value

    def deleted(self, path: Path) -> None:
        """A field of a document was removed."""
        changes, last = self._changes_at(path)
        changes.deletes[last] = False

    def to_diff(self) -> dict[str, Any] | None:
        """The diff; None if nothing has changed."""
        return self._root.to_diff() or None

    def _changes_at(self, path: Path) -> tuple[Any, Any]:
        changes: Any = self._root
        for step, following in pairwise(path):
            child = changes.children.get(step)
            if child is None:
                child = _ArrayChanges() if isinstance(following, int) else _DocumentChanges()
                changes.children[step] = child
            changes = child
        return changes, path[-1]
