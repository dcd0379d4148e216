"""What flows through a pipeline: documents that are decoded and encoded at most once, and pauses.

A `Row` is a document as bytes, as values, or as both. A stage that looks at values asks for `Row.document`,
and the first one to ask pays for decoding; a document that no stage changes leaves the pipeline as the very
bytes that came in.

`PAUSE` may stand anywhere between rows. It says that some work has been done and that whoever runs the
pipeline may want to let others have a turn: an event loop would otherwise stand still while a `$group` reads
a million documents. Stages hand pauses on as they come, blocking ones while they still collect.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

Document: TypeAlias = dict[str, Any]

ROWS_BETWEEN_PAUSES: Final = 256


class Pause(Enum):
    """One member, so that type checkers can narrow on it."""

    PAUSE = "pause"

    def __repr__(self) -> str:
        return "PAUSE"


PAUSE: Final = Pause.PAUSE


class Row:
    """One document on its way."""

    __slots__ = ("_document", "_raw")

    def __init__(self, document: Document | None = None, raw: bytes | None = None) -> None:
        self._document = document
        self._raw = raw

    @property
    def document(self) -> Document:
        """The values; never to be changed in place, since other rows may share parts of them."""
        document = self._document
        if document is None:
            assert self._raw is not None, "a row is made of bytes or of values"
            document = self._document = decode(self._raw)
        return document

    @property
    def raw(self) -> bytes:
        """The bytes; a document that is larger than a reply may hold is an error here."""
        raw = self._raw
        if raw is None:
            assert self._document is not None, "a row is made of bytes or of values"
            try:
                raw = self._raw = encode(self._document)
            except ValueError:
                # No document at all can be that large.
                raise _too_large("more than 2GB") from None
            if len(raw) > rawbson.MAX_INTERNAL_SIZE:
                raise _too_large(str(len(raw)))
        return raw


def _too_large(size: str) -> CommandError:
    reason = f"BSONObj size: {size} is invalid. Size must be between 0 and {rawbson.MAX_INTERNAL_SIZE}(16MB)"
    return CommandError(ErrorCode.BSONObjectTooLarge, reason)


Item: TypeAlias = Row | Pause
Rows: TypeAlias = Iterator[Item]


def rows_of(documents: Iterable[bytes | Pause]) -> Rows:
    """Rows of documents as they are stored."""
    for raw in documents:
        yield raw if raw is PAUSE else Row(raw=raw)


def paced(rows: Iterable[Row]) -> Rows:
    """Rows that a stage has collected, with pauses among them for the stages behind."""
    for count, row in enumerate(rows, start=1):
        yield row
        if not count % ROWS_BETWEEN_PAUSES:
            yield PAUSE


def collect(rows: Rows, documents: list[Document]) -> Iterator[Pause]:
    """Append the documents of all rows to a list; yields the pauses between them."""
    for row in rows:
        if row is PAUSE:
            yield row
        else:
            documents.append(row.document)
