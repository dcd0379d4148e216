"""Apply the events of a change stream to a copy of the collections, as a consumer does.

`Fold` begins with the documents at the start of the stream and applies events one by one. With
`showRawUpdateDescription` an update has the server's diff and gives the same bytes. An ordinary
`updateDescription` has the new values but not the order of fields, so documents are then compared by
`unordered`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.events.update_diff import apply_diff
from tests.support.history import Documents, identity


class FoldError(AssertionError):
    """An event that does not fit the documents."""


class _AmbiguousDescription(Exception):  # noqa: N818 - a signal inside this file, not an error
    """One dotted name means two different paths."""


class Fold:
    """Collections to which events are applied."""

    def __init__(self, documents: Documents, look_up: Callable[[bytes], bytes] | None = None) -> None:
        """Begin with ``documents``; ``look_up`` returns the document after an update that cannot be applied.

        In the description of such an update one dotted name means two different paths: MongoDB writes such
        descriptions, and a consumer has to read the document again.
        """
        self.documents: Documents = {namespace: dict(content) for namespace, content in documents.items()}
        self._look_up = look_up

    def apply(self, event: bytes) -> None:
        """Apply one event; types that change no document are skipped."""
        kind = _text(event, b"operationType")
        if kind in ("insert", "update", "replace", "delete"):
            self._write(kind, event)
        elif kind == "drop":
            self.documents.pop(_namespace(event, b"ns"), None)
        elif kind == "rename":
            moved = self.documents.pop(_namespace(event, b"ns"), {})
            self.documents[_namespace(event, b"to")] = moved
        elif kind == "dropDatabase":
            prefix = f"{_namespace(event, b'ns')}."
            for namespace in [name for name in self.documents if name.startswith(prefix)]:
                del self.documents[namespace]

    def _write(self, kind: str, event: bytes) -> None:
        collection = self.documents.setdefault(_namespace(event, b"ns"), {})
        key = identity(_document(event, b"documentKey"))
        current = collection.get(key)
        if (current is None) != (kind == "insert"):
            raise FoldError(f"{kind} of a document that is {'not ' if current is None else ''}there")
        if kind == "delete":
            del collection[key]
        elif current is not None and kind == "update":
            collection[key] = self._updated(current, event)
        else:
            collection[key] = _document(event, b"fullDocument")

    def _updated(self, document: bytes, event: bytes) -> bytes:
        try:
            return updated(document, event)
        except _AmbiguousDescription:
            if self._look_up is None:
                raise
            return self._look_up(event)

    def content(self) -> Documents:
        """The collections that are not empty."""
        return {namespace: content for namespace, content in self.documents.items() if content}


def updated(document: bytes, event: bytes) -> bytes:
    """The document after an update event."""
    raw_description = rawbson.subdocument(event, b"rawUpdateDescription")
    if raw_description is not None:
        return apply_diff(document, _document(raw_description, b"diff"))
    return bsondocs.encode(_described(bsondocs.decode(document), _document(event, b"updateDescription")))


def unordered(document: bytes) -> bytes:
    """A form of the document that is equal for documents that differ only in the order of fields.

    >>> unordered(bsondocs.encode({"b": 1, "a": {"y": 1, "x": 2}})) == unordered(
    ...     bsondocs.encode({"a": {"x": 2, "y": 1}, "b": 1}))
    True
    """
    return bsondocs.encode(_sorted(bsondocs.decode(document)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


# -- update descriptions --------------------------------------------------------------------------------

Path = Sequence[str | int]


def _described(document: dict[str, Any], description: bytes) -> dict[str, Any]:
    """Apply an `updateDescription` that has `disambiguatedPaths`."""
    paths = bsondocs.decode(_document(description, b"disambiguatedPaths"))
    seen: set[str] = set()

    def path_of(name: str) -> Path:
        if name in seen:
            raise _AmbiguousDescription(name)
        seen.add(name)
        components: list[str | int] = paths[name] if name in paths else list(name.split("."))
        return components

    # Every name is resolved before the first change, so that an ambiguous description changes nothing.
    shortened = [
        (path_of(entry["field"]), entry["newSize"]) for entry in _values(description, b"truncatedArrays")
    ]
    removed = [path_of(name) for name in _values(description, b"removedFields")]
    fields = _document(description, b"updatedFields")
    updates = [
        (path_of(name.decode()), bsondocs.decode_value(fields, kind, start, end))
        for kind, name, start, end in rawbson.elements(fields)
    ]
    for path, size in shortened:
        array = _step(_parent(document, path), path[-1])
        array[:] = array[:size] + [None] * (size - len(array))
    for path in removed:
        del _parent(document, path)[path[-1]]
    for path, value in updates:
        _assign(_parent(document, path), path[-1], value)
    return document


def _parent(document: Any, path: Path) -> Any:
    for component in path[:-1]:
        document = _step(document, component)
    return document


def _step(container: Any, component: str | int) -> Any:
    return container[int(component)] if isinstance(container, list) else container[component]


def _assign(container: Any, component: str | int, value: Any) -> None:
    if isinstance(container, dict):
        container[component] = value
        return
    index = int(component)
    container.extend([None] * (index + 1 - len(container)))
    container[index] = value


# -- parts of an event ----------------------------------------------------------------------------------


def _document(raw: bytes, name: bytes) -> bytes:
    found = rawbson.subdocument(raw, name)
    if found is None:
        raise FoldError(f"no document {name.decode()}")
    return found


def _values(raw: bytes, name: bytes) -> list[Any]:
    values: list[Any] = bsondocs.decode(raw)[name.decode()]
    return values


def _text(raw: bytes, name: bytes) -> str:
    found = rawbson.find(raw, name)
    if found is None:
        raise FoldError(f"no string {name.decode()}")
    return rawbson.string_value(raw, found[2], found[3])


def _namespace(event: bytes, name: bytes) -> str:
    parts = bsondocs.decode(_document(event, name))
    return ".".join(parts.values())
