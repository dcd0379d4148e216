"""One event of the recorded stream, as the facts that its oplog entry has."""

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken

_SPLIT: Final = b"splitEvent"
_ONLY_ONCE: Final = frozenset({b"_id", _SPLIT})
UNREADABLE: Final = 40532
_BINARY_HEADER: Final = 5
"""Bytes of length and subtype in front of a binary value"""


class ShownEvent:
    """An event of a stream with expanded events and with images; its fragments, if it was split."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self._raw = pieces[0] if len(pieces) == 1 else _joined(pieces)
        self._places = {name: (kind, start, end) for kind, name, start, end in rawbson.elements(self._raw)}
        kind, time = self._value(b"clusterTime")
        if kind != rawbson.TIMESTAMP:
            raise CommandError(UNREADABLE, "an event of the source has no cluster time")
        self.time: int = rawbson.UINT64_LE.unpack(time)[0]

    @cached_property
    def token(self) -> ResumeToken:
        return ResumeToken.parse(self.document(b"_id"))

    @cached_property
    def operation_type(self) -> str:
        return self.text(b"operationType")

    @property
    def wall(self) -> int:
        """Milliseconds since 1970."""
        kind, value = self._value(b"wallTime")
        return rawbson.INT64_LE.unpack(value)[0] if kind == rawbson.DATE else 0

    @cached_property
    def uuid(self) -> bytes | None:
        """That of the collection; events of views show none, but their tokens have that of system.views."""
        kind, value = self._value(b"collectionUUID")
        return value[_BINARY_HEADER:] if kind == rawbson.BINARY else self.token.uuid

    @cached_property
    def database(self) -> str:
        return _text_in(self._ns, b"db") or ""

    @cached_property
    def collection(self) -> str:
        return _text_in(self._ns, b"coll") or ""

    @property
    def _ns(self) -> bytes:
        return self.document_or_none(b"ns") or rawbson.EMPTY

    @property
    def ns(self) -> str:
        return f"{self.database}.{self.collection}"

    @property
    def command_ns(self) -> str:
        """The namespace of the command entries of its database."""
        return f"{self.database}.$cmd"

    @property
    def lsid(self) -> bytes | None:
        return self.document_or_none(b"lsid")

    @property
    def txn_number(self) -> int:
        kind, value = self._value(b"txnNumber")
        return rawbson.INT64_LE.unpack(value)[0] if kind == rawbson.INT64 else 0

    def shows(self, name: bytes) -> bool:
        return name in self._places

    def document(self, name: bytes) -> bytes:
        """Return a field that has to be there."""
        found = self.document_or_none(name)
        if found is None:
            shown = name.decode()
            raise CommandError(UNREADABLE, f"an event of type {self.operation_type} has no document {shown}")
        return found

    def document_or_none(self, name: bytes) -> bytes | None:
        kind, value = self._value(name)
        return value if kind == rawbson.DOCUMENT else None

    def text(self, name: bytes) -> str:
        kind, start, end = self._places.get(name, (0, 0, 0))
        if kind != rawbson.STRING:
            raise CommandError(UNREADABLE, f"an event of the source has no text {name.decode()}")
        return rawbson.string_value(self._raw, start, end)

    def _value(self, name: bytes) -> tuple[int, bytes]:
        kind, start, end = self._places.get(name, (0, 0, 0))
        return kind, self._raw[start:end]


def pieces_left(raw: bytes) -> int:
    """Return how many fragments of a split event follow this one; 0 for a whole event."""
    split = rawbson.subdocument(raw, _SPLIT) if _SPLIT in raw else None
    if split is None:
        return 0
    return _int_in(split, b"of") - _int_in(split, b"fragment")


def _joined(pieces: Sequence[bytes]) -> bytes:
    """The event of some fragments; its fields are in another order."""
    parts = [_element(pieces[0], b"_id")]
    for piece in pieces:
        parts += (
            rawbson.element(kind, name, piece[start:end])
            for kind, name, start, end in rawbson.elements(piece)
            if name not in _ONLY_ONCE
        )
    return rawbson.document(*parts)


def _element(raw: bytes, name: bytes) -> bytes:
    found = rawbson.field(raw, name)
    return b"" if found is None else rawbson.element(found[0], name, found[1])


def _text_in(raw: bytes, name: bytes) -> str | None:
    return rawbson.text(raw, rawbson.find(raw, name))


def _int_in(raw: bytes, name: bytes) -> int:
    found = rawbson.field(raw, name)
    return 0 if found is None else int.from_bytes(found[1], "little")
