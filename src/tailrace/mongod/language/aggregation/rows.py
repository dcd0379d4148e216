"""What flows through a pipeline: documents that are decoded and encoded at most once, and pauses.

A `Row` is a document as bytes, as values, or as both. The first stage that uses `Row.document` decodes it; a
document that no stage changes leaves the pipeline with its original bytes.

`PAUSE` may be anywhere between rows. It means that some work has been done, and that the caller may yield to
others: an event loop would otherwise be blocked while a `$group` reads a million documents. Every stage
passes pauses on at once, also while it collects rows.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode_with_ticks
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.pacing import tick

Document: TypeAlias = dict[str, Any]

ROWS_BETWEEN_PAUSES: Final = 256


class Pause(Enum):
    """One member, so that type checkers can narrow on it."""

    PAUSE = "pause"

    def __repr__(self) -> str:
        return "PAUSE"


PAUSE: Final = Pause.PAUSE


class Row:
    """A document in a pipeline."""

    __slots__ = ("_document", "_raw")

    def __init__(self, document: Document | None = None, raw: bytes | None = None) -> None:
        self._document = document
        self._raw = raw

    @property
    def document(self) -> Document:
        """The values; never change them in place, since other rows may share parts of them."""
        document = self._document
        if document is None:
            assert self._raw is not None, "a row is made of bytes or of values"
            document = self._document = decode(self._raw)
        return document

    @property
    def raw(self) -> bytes:
        """The bytes; raises BSONObjectTooLarge for a document that does not fit into a reply."""
        raw = self._raw
        if raw is None:
            assert self._document is not None, "a row is made of bytes or of values"
            try:
                raw = self._raw = encode_with_ticks(self._document)
            except ValueError:
                # BSON itself cannot have a document of this size.
                raise _too_large("more than 2GB") from None
            if len(raw) > rawbson.MAX_INTERNAL_SIZE:
                raise _too_large(str(len(raw)))
        return raw

    @property
    def stored(self) -> bytes:
        """The bytes, of any size."""
        raw = self._raw
        if raw is None:
            assert self._document is not None, "a row is made of bytes or of values"
            raw = encode_with_ticks(self._document)
            if len(raw) <= rawbson.MAX_INTERNAL_SIZE:  # otherwise `raw` has to refuse it
                self._raw = raw
        return raw

    @property
    def is_packed(self) -> bool:
        """Whether it has bytes only."""
        return self._document is None

    def forget_values(self) -> None:
        """Hold only the bytes, if there are any: values take many times as much memory."""
        if self._raw is not None:
            self._document = None


class FoundRow(Row):
    """A stored document with the key of its record."""

    __slots__ = ("key",)

    def __init__(self, key: bytes, raw: bytes) -> None:
        super().__init__(raw=raw)
        self.key = key


def pack(row: Row) -> bytes:
    """A row as bytes, to be stored for a while."""
    key = row.key if isinstance(row, FoundRow) else b""
    return b"%b%b%b" % (rawbson.INT32_LE.pack(len(key)), key, row.stored)


def unpack(record: bytes) -> Row:
    """The row of `pack`; a document that is too large for a reply is refused later, as it was before."""
    start = 4 + rawbson.INT32_LE.unpack_from(record)[0]
    raw = record[start:]
    if start > 4:
        return FoundRow(record[4:start], raw)
    return Row(raw=raw) if len(raw) <= rawbson.MAX_INTERNAL_SIZE else Row(decode(raw))


def _too_large(size: str) -> CommandError:
    reason = f"BSONObj size: {size} is invalid. Size must be between 0 and {rawbson.MAX_INTERNAL_SIZE}(16MB)"
    return CommandError(ErrorCode.BSONObjectTooLarge, reason)


Item: TypeAlias = Row | Pause
Rows: TypeAlias = Iterator[Item]


def rows_of(documents: Iterable[bytes | Pause]) -> Rows:
    """Rows of stored documents."""
    for raw in documents:
        yield raw if raw is PAUSE else Row(raw=raw)


def paced(rows: Iterable[Row]) -> Rows:
    """Rows that a stage has collected, with ticks between them."""
    for row in rows:
        tick()
        yield row
