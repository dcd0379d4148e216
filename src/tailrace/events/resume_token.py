"""Resume tokens: a position in a change stream, as text that sorts like the stream.

A token document is ``{_data: <hex>, _typeBits?: <binary>}``. The hex text is a KeyString of these components:

= ================= =========================================================================================
1 cluster time      of the oplog entry, or of a transaction's commit
2 version           0, 1 or 2
3 kind              `EVENT` or `HIGH_WATER_MARK`; from version 1 on
4 transaction index position of the operation in its transaction, 0 outside
5 from invalidate   whether this is the invalidate event of the event named; from version 1 on
6 UUID              of the collection; version 2 writes null if there is none, older ones write nothing
7 identifier        what happened to which document; a high water mark has none
8 fragment          number of a piece of a split event; version 2 only
= ================= =========================================================================================

A high water mark names a point in time, "everything from here on"; an event token names one event, and means
"everything after it". docs/resume-token.md explains the format with an example.
"""

from binascii import Error as HexError
from binascii import unhexlify
from dataclasses import dataclass, replace
from enum import Enum
from functools import total_ordering
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.keystring import KeyString, TypeBits, append_value
from tailrace.bson.keystring.layout import TIMESTAMP
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.layout.token import (
    CURRENT_VERSION,
    EVENT,
    HIGH_WATER_MARK,
    document_of_text,
    read_components,
    write_components,
)

_FAST_PATH_DIGITS: Final = 18


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class ResumeToken:
    """A decoded token. Equality and order are those of its hex text.

    Any combination of fields can be held, because any can be read; what cannot be written fails in `data`.
    """

    cluster_time: int
    """Seconds in the high 32 bits, increment in the low."""
    version: int = CURRENT_VERSION
    kind: int = EVENT
    txn_op_index: int = 0
    from_invalidate: bool = False
    uuid: bytes | None = None
    identifier: bytes | None = None
    """A raw BSON document."""
    fragment: int | None = None

    @classmethod
    def parse(cls, raw_token_document: bytes) -> "ResumeToken":
        """From the BSON of a token document; each fault has the server's code."""
        data, bits = check_token_fields(raw_token_document)
        # Latin-1 maps every byte to a character, so that text that is not UTF-8 fails as what it is: not hex.
        return cls.parse_data(data[4:-1].decode("latin-1"), b"" if bits is None else bits[5:])

    @classmethod
    def parse_data(cls, data: str, type_bits: bytes = b"") -> "ResumeToken":
        """From the hex text and the stored type bits.

        >>> token = ResumeToken.parse_data("8263515EAC000000022B0429296E1404")
        >>> token.cluster_time >> 32, token.version, token.is_high_water_mark
        (1666277036, 2, True)
        """
        return cls(**read_components(key_bytes(data), type_bits))

    @classmethod
    def high_water_mark(cls, cluster_time: int, version: int = CURRENT_VERSION) -> "ResumeToken":
        """The token of a point in time.

        >>> ResumeToken.high_water_mark(0x63515EAC_00000002).data
        '8263515EAC000000022B0429296E1404'
        """
        return cls(cluster_time, version, HIGH_WATER_MARK)

    @property
    def is_high_water_mark(self) -> bool:
        """Whether this names a point in time and nothing else."""
        return self.kind == HIGH_WATER_MARK and not (
            self.txn_op_index
            or self.from_invalidate
            or self.uuid
            or self.identifier
            or self.fragment is not None
        )

    @property
    def operation_type(self) -> str | None:
        """The operation type the identifier names; version 1 names those of expanded streams only."""
        identifier = self.identifier or rawbson.EMPTY
        return rawbson.text(identifier, rawbson.find(identifier, b"operationType"))

    def with_fragment(self, fragment: int) -> "ResumeToken":
        """The token of a piece of this event."""
        return replace(self, fragment=fragment)

    @property
    def data(self) -> str:
        """The hex text."""
        return self.key_string().data.hex().upper()

    def to_bson(self) -> bytes:
        key = self.key_string()
        return document_of_text(key.data.hex().upper().encode(), key.type_bits)

    def key_string(self) -> KeyString:
        """The components as bytes; raises what the server raises for fields that do not go together."""
        self._check_can_be_written()
        out, bits = bytearray(), TypeBits()
        write_components(self, out, bits)
        return KeyString(bytes(out), bits.serialize())

    def _check_can_be_written(self) -> None:
        if self.kind == HIGH_WATER_MARK:
            if not self.is_high_water_mark:
                raise CommandError(6189505, "a high water mark token carries nothing but its cluster time")
            return
        if self.version >= 2:
            if self.identifier is None:
                raise CommandError(6189502, "an event token of version 2 needs an event identifier")
            return
        if self.fragment is not None:
            raise CommandError(7182504, f"a token of version {self.version} has no fragment number")
        if self.identifier is not None and self.uuid is None:
            raise CommandError(50788, f"a token of version {self.version} has no identifier without a UUID")

    def identifier_key(self) -> bytes:
        """The identifier as bytes that compare in BSON order; empty if there is none."""
        if self.identifier is None:
            return b""
        out = bytearray()
        append_value(out, TypeBits(), self.identifier, rawbson.DOCUMENT, 0, len(self.identifier))
        return bytes(out)

    def _order(self) -> tuple[Any, ...]:
        return (
            self.cluster_time,
            self.version,
            self.kind,
            self.txn_op_index,
            self.from_invalidate,
            self.uuid or b"",
            self.identifier_key(),
            -1 if self.fragment is None else self.fragment,
        )

    def __eq__(self, other: object) -> bool:
        return self._order() == other._order() if isinstance(other, ResumeToken) else NotImplemented

    def __lt__(self, other: "ResumeToken") -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(self._order())


def check_token_fields(raw_token_document: bytes) -> tuple[bytes, bytes | None]:
    """The values of `_data` and `_typeBits` as BSON; raises if one has another type."""
    data = rawbson.field(raw_token_document, b"_data")
    if data is None or data[0] != rawbson.STRING:
        raise CommandError(40647, "a resume token must have a string field _data")
    bits = rawbson.field(raw_token_document, b"_typeBits")
    if bits is not None and (bits[0] != rawbson.BINARY or bits[1][4] != 0):
        raise CommandError(40648, "_typeBits of a resume token must be binary data of subtype 0")
    return data[1], None if bits is None else bits[1]


def key_bytes(data: str) -> bytes:
    """The bytes of a token's hex text, upper or lower case."""
    try:
        return unhexlify(data)
    except (HexError, ValueError):
        raise CommandError(
            ErrorCode.FailedToParse, "_data of a resume token must be an even number of hex digits"
        ) from None


def cluster_time_of(data: str) -> int:
    """The cluster time of a token, read from its first 18 hex digits; the others are ignored.

    >>> cluster_time_of("8263515EAC00000002...") == 0x63515EAC_00000002
    True
    """
    if len(data) < _FAST_PATH_DIGITS:
        raise CommandError(ErrorCode.FailedToParse, "the resume token ends within its cluster time")
    head = key_bytes(data[:_FAST_PATH_DIGITS])
    if head[0] != TIMESTAMP:
        raise CommandError(ErrorCode.FailedToParse, "the resume token does not start with a cluster time")
    return int.from_bytes(head[1:], "big")


class Resume(Enum):
    """What an event means to a stream that looks for the client's token."""

    CHECK_NEXT = "the event is before the token: skip it"
    FOUND = "the event is the one the token names"
    SURPASSED = "the event is after the token"
    NEEDS_SPLIT = "the token names a piece of this event: split it again"


def compare_for_resume(event: ResumeToken, client: ResumeToken) -> Resume:
    """Compare an event with the client's token; versions are not compared."""
    place = (event.cluster_time, event.kind, event.txn_op_index, event.from_invalidate, event.uuid or b"")
    wanted = (
        client.cluster_time,
        client.kind,
        client.txn_op_index,
        client.from_invalidate,
        client.uuid or b"",
    )
    if place != wanted:
        return Resume.SURPASSED if place > wanted else Resume.CHECK_NEXT
    if event.identifier != client.identifier:
        # Different bytes may still be equal by value: a client may have dropped the type bits.
        key, wanted_key = event.identifier_key(), client.identifier_key()
        if key != wanted_key:
            return Resume.SURPASSED if key > wanted_key else Resume.CHECK_NEXT
    if event.fragment == client.fragment:
        return Resume.FOUND
    if event.fragment is None:
        return Resume.NEEDS_SPLIT
    return Resume.SURPASSED if event.fragment > _or_before_first(client.fragment) else Resume.CHECK_NEXT


def _or_before_first(fragment: int | None) -> int:
    return -1 if fragment is None else fragment


__all__ = [
    "CURRENT_VERSION",
    "EVENT",
    "HIGH_WATER_MARK",
    "Resume",
    "ResumeToken",
    "cluster_time_of",
    "compare_for_resume",
    "key_bytes",
]
