"""The diff of an update, recovered from its event: the inverse of `update_diff/description.py`.

A description has fewer facts than the diff that it shows: which fields existed before, and before MongoDB 6.1
what the dots in a path mean. The images of the event tell, if it has them. Without them a diff with whole
paths as names has the same description. What is found is checked: it has this description, and it makes
the document after the update from the one before it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.recovered.shown_event import UNREADABLE, ShownEvent
from tailrace.events.update_diff import describe, image_after
from tailrace.events.update_diff.disambiguate import is_ambiguous_name

Step: TypeAlias = bytes | int
"""A step of a path: a field's name, or the place of an element."""
Path: TypeAlias = tuple[Step, ...]
Value: TypeAlias = tuple[int, bytes]
"""Type byte and value bytes"""
_PathOf: TypeAlias = Callable[[bytes, Value | None, bool], Path | None]
"""(dotted path, new value of an updated field, whether the field was removed) to the path in steps"""

_DISAMBIGUATED: Final = b"disambiguatedPaths"
_FALSE: Final = b"\0"
_CONTAINERS: Final = (rawbson.DOCUMENT, rawbson.ARRAY)


def diff_of_event(event: ShownEvent) -> bytes:
    """Return a diff with the description of an update event; raises `CommandError` if none was found."""
    description = event.document(b"updateDescription")
    before = event.document_or_none(b"fullDocumentBeforeChange")
    after = event.document_or_none(b"fullDocument")
    is_expanded = rawbson.find(description, _DISAMBIGUATED) is not None
    for diff in _candidates(description, before, after):
        try:
            if describe(diff, expanded=is_expanded) != description:
                continue
            if before is None or after is None or image_after(before, diff) == after:
                return diff
        except CommandError:
            continue  # no diff at all
    raise CommandError(UNREADABLE, "no diff has the updateDescription of the event")


def _candidates(description: bytes, before: bytes | None, after: bytes | None) -> Iterator[bytes]:
    changes = _Changes.of(description)
    if before is not None and after is not None:
        pre, post = before, after
        found = changes.resolved(lambda path, value, removed: _path_in(path, value, removed, pre, post))
        if found is not None:
            yield _Builder(inserts_moved=False).document(found, before)
            yield _Builder(inserts_moved=True).document(found, before)
    meanings = _meanings(description)
    found = changes.resolved(lambda path, _value, _removed: meanings.get(path) or _split(path))
    if found is not None:
        yield _Builder().document(found, None)
    found = changes.resolved(lambda path, _value, _removed: (path,))
    if found is not None:
        yield _Builder().document(found, None)


# -- what a description lists -------------------------------------------------------------------------------


class _Resolved(NamedTuple):
    """What happens below a place, by the rest of its path, in the order of the description."""

    updated: Sequence[tuple[Path, Value]]
    removed: Sequence[Path]
    truncated: Sequence[tuple[Path, int]]

    def below(self, step: Step) -> "_Resolved":
        return _Resolved(
            [(path[1:], value) for path, value in self.updated if len(path) > 1 and path[0] == step],
            [path[1:] for path in self.removed if len(path) > 1 and path[0] == step],
            [(path[1:], length) for path, length in self.truncated if path and path[0] == step],
        )

    def steps_down(self) -> list[Step]:
        """The containers that change inside, in an order that agrees with each of the lists."""
        return _merged(
            list(dict.fromkeys(path[0] for path, _ in self.updated if len(path) > 1)),
            list(dict.fromkeys(path[0] for path in self.removed if len(path) > 1)),
            list(dict.fromkeys(path[0] for path, _ in self.truncated if path)),
        )

    @property
    def is_of_array(self) -> bool:
        """Whether the place is an array."""
        return any(not path for path, _ in self.truncated) or any(
            isinstance(path[0], int) for path in (*(path for path, _ in self.updated), *self.removed) if path
        )


class _Changes(NamedTuple):
    updated: Sequence[tuple[bytes, Value]]
    removed: Sequence[bytes]
    truncated: Sequence[tuple[bytes, int]]

    @classmethod
    def of(cls, description: bytes) -> "_Changes":
        lists: dict[bytes, bytes] = {
            name: description[start:end]
            for kind, name, start, end in rawbson.elements(description)
            if kind in _CONTAINERS
        }
        updated = lists.get(b"updatedFields", rawbson.EMPTY)
        removed = lists.get(b"removedFields", rawbson.EMPTY)
        truncated = lists.get(b"truncatedArrays", rawbson.EMPTY)
        return cls(
            [(name, (kind, updated[start:end])) for kind, name, start, end in rawbson.elements(updated)],
            [removed[start + 4 : end - 1] for _, _, start, end in rawbson.elements(removed)],
            [_truncation(truncated[start:end]) for _, _, start, end in rawbson.elements(truncated)],
        )

    def resolved(self, path_of: _PathOf) -> _Resolved | None:
        """The same with paths in steps; None if one of them cannot be found."""
        updated = [(path_of(path, value, False), value) for path, value in self.updated]
        removed = [path_of(path, None, True) for path in self.removed]
        truncated = [(path_of(path, None, False), length) for path, length in self.truncated]
        if any(path is None for path in (*(p for p, _ in updated), *removed, *(p for p, _ in truncated))):
            return None
        return _Resolved(
            [(path, value) for path, value in updated if path is not None],
            [path for path in removed if path is not None],
            [(path, length) for path, length in truncated if path is not None],
        )


def _truncation(raw: bytes) -> tuple[bytes, int]:
    name = rawbson.text(raw, rawbson.find(raw, b"field")) or ""
    found = rawbson.field(raw, b"newSize")
    return name.encode(), 0 if found is None else int.from_bytes(found[1][:4], "little")


# -- what a dotted path means -------------------------------------------------------------------------------


def _meanings(description: bytes) -> dict[bytes, Path]:
    """The paths that the description itself explains."""
    found: dict[bytes, Path] = {}
    paths = rawbson.subdocument(description, _DISAMBIGUATED) or rawbson.EMPTY
    for _, name, start, end in rawbson.elements(paths):
        steps = paths[start:end]
        found[name] = tuple(
            int.from_bytes(steps[at:stop], "little") if kind == rawbson.INT32 else steps[at + 4 : stop - 1]
            for kind, _, at, stop in rawbson.elements(steps)
        )
    return found


def _split(path: bytes) -> Path:
    """A path that is not ambiguous: numbers are places in arrays, except at the top."""
    first, *others = path.split(b".")
    return (first, *(int(step) if is_ambiguous_name(step, is_first=False) else step for step in others))


def _path_in(path: bytes, value: Value | None, is_removed: bool, before: bytes, after: bytes) -> Path | None:
    """A path in the images: of a new value or a shorter array in the one after, of a removed field before."""
    if is_removed:
        return next(_paths(path, before, rawbson.DOCUMENT, lambda _: True), None)
    if value is None:
        return next(_paths(path, after, rawbson.DOCUMENT, lambda found: found[0] == rawbson.ARRAY), None)
    return next(_paths(path, after, rawbson.DOCUMENT, lambda found: found == value), None)


def _paths(path: bytes, image: bytes, kind: int, accepts: Callable[[Value], bool]) -> Iterator[Path]:
    """The ways through a document or array along a dotted path to an accepted value."""
    for found, name, start, end in rawbson.elements(image):
        step: Step = int(name) if kind == rawbson.ARRAY else name
        if name == path and accepts((found, image[start:end])):
            yield (step,)
        elif found in _CONTAINERS and path.startswith(name + b"."):
            for rest in _paths(path[len(name) + 1 :], image[start:end], found, accepts):
                yield (step, *rest)


# -- diffs --------------------------------------------------------------------------------------------------


class _Builder:
    def __init__(self, *, inserts_moved: bool = False) -> None:
        """``inserts_moved`` is for updates that move fields to the end, which existed before."""
        self._inserts_moved = inserts_moved

    def document(self, changes: _Resolved, before: bytes | None) -> bytes:
        """The diff of a document, whose state before is given if it is known."""
        existed = None if before is None else {name for _, name, _, _ in rawbson.elements(before)}
        updates: list[bytes] = []
        inserts: list[bytes] = []
        for path, (kind, value) in changes.updated:
            if len(path) == 1:
                name = _name(path[0])
                is_new = existed is not None and (self._inserts_moved or name not in existed)
                (inserts if is_new else updates).append(rawbson.element(kind, name, value))
        deletes = [
            rawbson.element(rawbson.BOOL, _name(path[0]), _FALSE)
            for path in changes.removed
            if len(path) == 1
        ]
        parts = [_section(b"d", deletes), _section(b"u", updates), _section(b"i", inserts)]
        for step in changes.steps_down():
            name = _name(step)
            parts.append(self._part(b"s" + name, changes.below(step), _value_in(before, name)))
        return rawbson.document(*parts)

    def _array(self, changes: _Resolved, before: bytes | None) -> bytes:
        parts = [rawbson.element(rawbson.BOOL, b"a", b"\x01")]
        for path, length in changes.truncated:
            if not path:
                parts.append(rawbson.element(rawbson.INT32, b"l", rawbson.INT32_LE.pack(length)))
        entries: dict[int, bytes] = {}
        for path, (kind, value) in changes.updated:
            if len(path) == 1:
                entries[_place(path[0])] = rawbson.element(kind, b"u" + _name(path[0]), value)
        for step in changes.steps_down():
            name = _name(step)
            entries[_place(step)] = self._part(b"s" + name, changes.below(step), _value_in(before, name))
        parts += (entry for _, entry in sorted(entries.items()))
        return rawbson.document(*parts)

    def _part(self, name: bytes, changes: _Resolved, before: bytes | None) -> bytes:
        diff = self._array if changes.is_of_array else self.document
        return rawbson.element(rawbson.DOCUMENT, name, diff(changes, before))


def _section(letter: bytes, entries: list[bytes]) -> bytes:
    return rawbson.element(rawbson.DOCUMENT, letter, rawbson.document(*entries)) if entries else b""


def _value_in(container: bytes | None, name: bytes) -> bytes | None:
    found = None if container is None else rawbson.field(container, name)
    return found[1] if found is not None and found[0] in _CONTAINERS else None


def _name(step: Step) -> bytes:
    return b"%d" % step if isinstance(step, int) else step


def _place(step: Step) -> int:
    return step if isinstance(step, int) else int(step) if step.isdigit() else 0


def _merged(*sequences: list[Step]) -> list[Step]:
    """One order that agrees with each sequence, if there is one."""
    waiting = [sequence for sequence in sequences if sequence]
    merged: list[Step] = []
    while waiting:
        step = next(
            (each[0] for each in waiting if all(each[0] not in other[1:] for other in waiting)), waiting[0][0]
        )
        merged.append(step)
        waiting = [rest for each in waiting if (rest := [other for other in each if other != step])]
    return merged
