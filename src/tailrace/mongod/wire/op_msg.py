"""OP_MSG, the message that both sides use today: flags, sections, and an optional checksum.

::

    uint32 flags | section ... | uint32 CRC-32C of everything before it, header included

    section kind 0   00, one document: the command or the reply; exactly one
    section kind 1   01, int32 size, name, 00, documents: an array of the command outside its body

The receiver must know the lower sixteen flags and may ignore the upper sixteen. A server closes the
connection on unknown flags, a wrong checksum or a third sequence; it answers all other faults of the sections
with an error code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

import google_crc32c

from tailrace.bson import raw
from tailrace.bson.in_pieces import LARGE, PIECE, Steps
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, WireError
from tailrace.mongod.wire.header import Header, OpCode
from tailrace.mongod.wire.large_document import large_document
from tailrace.mongod.wire.payload_document import check_document, document_end
from tailrace.pacing import finished

CHECKSUM_PRESENT: Final = 1 << 0
MORE_TO_COME: Final = 1 << 1
EXHAUST_ALLOWED: Final = 1 << 16
_REQUIRED: Final = 0xFFFF
_KNOWN: Final = CHECKSUM_PRESENT | MORE_TO_COME | EXHAUST_ALLOWED

MAX_SEQUENCES: Final = 2

_BODY: Final = 0
_SEQUENCE: Final = 1
_UINT32: Final = Struct("<I")
_CHECKSUM_SIZE: Final = 4
_NAME_PIECE: Final = 256
_FLAGS_SIZE: Final = 4
_START: Final = Struct("<iiiiIB")
"""Everything before the body: the header, the flags, the kind of the first section"""


@dataclass(slots=True)
class OpMsg:
    """A message: the bytes of the body, and of each document of each sequence. Treat it as immutable."""

    body: bytes
    sequences: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    flags: int = 0
    decoded: dict[str, Any] | None = field(default=None, compare=False)
    """The decoded body, if the message came from the wire; see `check_document`."""
    is_exact: bool = field(default=False, compare=False)
    """Whether nothing was lost in ``decoded``."""

    def merged(self) -> bytes:
        """The body with each sequence appended as an array field; documents are copied unchanged.

        >>> one = raw.document(raw.element(raw.NULL, b"x", b""))
        >>> merged = OpMsg(raw.EMPTY, {"documents": [one, one]}).merged()
        >>> [(kind, name) for kind, name, _, _ in raw.elements(merged)]
        [(4, b'documents')]
        """
        if not self.sequences:
            return self.body
        arrays = [
            raw.element(raw.ARRAY, name.encode(), _array(documents))
            for name, documents in self.sequences.items()
        ]
        return raw.document(raw.body(self.body), *arrays)


def _array(documents: Sequence[bytes]) -> bytes:
    return raw.document(*(b"\x03%d\0%b" % item for item in enumerate(documents)))


def encode(message: OpMsg, request_id: int, response_to: int = 0) -> bytes:
    """The whole message, header included; the checksum is computed if its flag is set."""
    parts: list[bytes] = []
    for name, documents in message.sequences.items():
        content = b"".join((name.encode(), b"\0", *documents))
        parts += (b"\1", _UINT32.pack(len(content) + 4), content)
    return encode_body(message.body, message.flags, request_id, response_to, parts)


def encode_body(
    body: bytes, flags: int, request_id: int, response_to: int = 0, sections: Sequence[bytes] = ()
) -> bytes:
    """The whole message for a body, followed by encoded sections."""
    has_checksum = flags & CHECKSUM_PRESENT
    length = _START.size + len(body) + sum(map(len, sections)) + (_CHECKSUM_SIZE if has_checksum else 0)
    start = _START.pack(length, request_id, response_to, OpCode.OP_MSG, flags, _BODY)
    encoded = b"".join((start, body, *sections))
    return encoded + _UINT32.pack(google_crc32c.value(encoded)) if has_checksum else encoded


def decode(header: Header, payload: bytes) -> OpMsg:
    """Decode the message after a header.

    Raises `WireError` if the connection must be closed, `CommandError` if the server replies with an error.
    """
    return finished(read_sections(payload, read_flags(header, payload)))


def read_flags(header: Header, payload: bytes | memoryview) -> int:
    """The flags; raises `WireError` for unknown ones or a wrong checksum."""
    if len(payload) < _FLAGS_SIZE:
        raise WireError("an OP_MSG ends before its flags")
    flags: int = _UINT32.unpack_from(payload)[0]
    unknown = flags & _REQUIRED & ~_KNOWN
    if unknown:
        raise WireError(_named(ErrorCode.IllegalOpMsgFlag, f"OP_MSG flags 0x{unknown:04x} are not known"))
    if flags & CHECKSUM_PRESENT:
        _check_checksum(header, payload)
    return flags


def _check_checksum(header: Header, payload: bytes | memoryview) -> None:
    start = len(payload) - _CHECKSUM_SIZE
    if start < _FLAGS_SIZE:
        raise WireError("an OP_MSG ends before its checksum")
    given = _UINT32.unpack_from(payload, start)[0]
    computed = google_crc32c.extend(google_crc32c.value(header.encode()), bytes(payload[:start]))
    if given != computed:
        reason = f"the checksum of an OP_MSG is {given:08x}, that of its bytes {computed:08x}"
        raise WireError(_named(ErrorCode.ChecksumMismatch, reason))


def read_sections(payload: bytes | memoryview, flags: int) -> Steps[OpMsg]:
    """Decode the sections, large ones in steps; raises like `decode`. Nothing refers to the payload then."""
    end = len(payload) - (_CHECKSUM_SIZE if flags & CHECKSUM_PRESENT else 0)
    body: bytes | None = None
    decoded: dict[str, Any] | None = None
    is_exact = False
    sequences: dict[str, list[bytes]] = {}
    position = _FLAGS_SIZE
    while position < end:
        kind = payload[position]
        start = position + 1
        if kind == _BODY:
            if body is not None:
                raise CommandError(40430, "an OP_MSG has more than one body section")
            position = document_end(payload, start, end)
            body = bytes(payload[start:position])
            if len(body) > LARGE:
                decoded = yield from large_document(body)
                is_exact = True
            else:
                decoded = check_document(body)
        elif kind == _SEQUENCE:
            position = yield from _read_sequence(payload, start, end, sequences)
        else:
            raise CommandError(40432, f"there is no OP_MSG section of kind {kind}")
    if body is None:
        raise CommandError(40587, "an OP_MSG has no body section")
    for name in sequences:
        if name in decoded if decoded is not None else raw.find(body, name.encode()) is not None:
            raise CommandError(40433, f"the field '{name}' is in the body and is a document sequence, too")
    return OpMsg(body, sequences, flags, decoded, is_exact)


def _read_sequence(
    payload: bytes | memoryview, start: int, limit: int, sequences: dict[str, list[bytes]]
) -> Steps[int]:
    """Read the section at ``start`` into ``sequences``; returns its end."""
    if len(sequences) == MAX_SEQUENCES:
        reason = f"an OP_MSG has more than {MAX_SEQUENCES} document sequences"
        raise WireError(_named(ErrorCode.TooManyDocumentSequences, reason))
    if start + 4 > limit:
        raise WireError("a document sequence ends within its size")
    size: int = raw.INT32_LE.unpack_from(payload, start)[0]
    end = start + size
    name_end = _name_end(payload, start + 4, min(end, limit))
    if end > limit or name_end < 0:
        raise WireError(f"a document sequence of {size} bytes does not fit its message or has no name")
    try:
        name = str(payload[start + 4 : name_end], "utf-8")
    except UnicodeDecodeError:
        raise WireError("the name of a document sequence is not UTF-8") from None
    if name in sequences:
        raise CommandError(40431, f"there are two document sequences called '{name}'")
    documents = sequences[name] = []
    position = paused_at = name_end + 1
    while position < end:
        document_start, position = position, document_end(payload, position, end)
        document = bytes(payload[document_start:position])
        if len(document) > LARGE:
            yield  # the copy takes some milliseconds
            yield from large_document(document, keep=False)
        else:
            check_document(document)
        documents.append(document)
        if position - paused_at > PIECE:
            paused_at = position
            yield
    return end


def _name_end(payload: bytes | memoryview, start: int, limit: int) -> int:
    """Where the name at ``start`` ends; -1 if it has no end. A memoryview cannot look for it."""
    for piece in range(start, limit, _NAME_PIECE):
        place = bytes(payload[piece : min(piece + _NAME_PIECE, limit)]).find(b"\0")
        if place >= 0:
            return piece + place
    return -1


def _named(code: ErrorCode, reason: str) -> str:
    # These connections are closed without a reply; the code helps to compare logs with those of MongoDB.
    return f"{reason} ({code.value} {code.name})"
