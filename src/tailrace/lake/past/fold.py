"""Documents rebuilt from canonical events in their order."""

from collections.abc import Iterable, Iterator
from typing import Final

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.errors import HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.update_diff import apply_diff

_EQUAL_BY_BYTES: Final = frozenset({rawbson.OBJECT_ID, rawbson.STRING, rawbson.BINARY})
"""Types of `_id` whose values are equal only if their bytes are; a number may be stored with another type."""


class FoldedDocuments:
    """The documents of one collection after the events so far.

    They are found by `_id`. On different shards there may be several with the same one; the other fields of
    an event's key tell which is meant.
    """

    def __init__(self) -> None:
        self._by_id: dict[bytes, list[bytes]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_id.values()))

    def __iter__(self) -> Iterator[bytes]:
        for found in self._by_id.values():
            yield from found

    def add(self, document: bytes) -> None:
        """Add a document that was there before the events."""
        self._by_id.setdefault(identity_in(document), []).append(document)

    def apply(self, events: Iterable[ChangeEvent]) -> None:
        """Apply changes; `HistoryError` if one does not fit the documents."""
        for event in events:
            if event.entry.extras.from_migrate:
                continue  # a chunk that moves changes no document
            self._apply(event)

    def _apply(self, event: ChangeEvent) -> None:
        key, identity = event.document_key or rawbson.EMPTY, identity_of(event)
        there = self._by_id.get(identity, [])
        operation = event.kind.operation_type
        if operation == "insert":
            self._by_id[identity] = [*there, event.full_document or rawbson.EMPTY]
            return
        place = _place(there, key)
        if place is None:
            raise _misfit(event)
        if operation == "delete":
            del there[place]
            if not there:
                del self._by_id[identity]
        elif event.update is None:
            there[place] = event.full_document or rawbson.EMPTY
        else:
            diff = rawbson.subdocument(event.update, b"diff")
            if diff is None:
                raise _misfit(event)
            there[place] = apply_diff(there[place], diff)


def identity_of(event: ChangeEvent) -> bytes:
    """The `_id` of the changed document, the same for values that MongoDB considers equal."""
    return identity_in(event.document_key or rawbson.EMPTY)


def identity_in(document: bytes) -> bytes:
    """The same of a document."""
    found = rawbson.find(document, b"_id")
    if found is None:
        return b""
    kind, _, start, end = found
    value = document[start:end]
    if kind in _EQUAL_BY_BYTES:
        return bytes([kind]) + value
    return keystring.encode(rawbson.document(rawbson.element(kind, b"", value))).data


def _place(there: list[bytes], key: bytes) -> int | None:
    if len(there) == 1:
        return 0
    names = [name for _, name, _, _ in rawbson.elements(key)]
    for place, document in enumerate(there):
        if all(_element(document, name) == _element(key, name) for name in names if b"." not in name):
            return place
    return None


def _element(document: bytes, name: bytes) -> bytes:
    """The type and the value of a field; nothing if there is none."""
    found = rawbson.find(document, name)
    return b"" if found is None else bytes([found[0]]) + document[found[2] : found[3]]


def _misfit(event: ChangeEvent) -> HistoryError:
    return HistoryError(
        f"the {event.kind.operation_type} at {in_words(event.entry.ts)} does not fit the changes before it: "
        "the history is not complete, or was changed by hand"
    )
