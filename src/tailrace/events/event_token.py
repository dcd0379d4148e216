"""The resume token of an event.

`resume_token` builds the token object for comparisons; `id_element` writes the event's `_id` field as
BSON. The token of a plain document change whose key is a single `_id` of an ordinary type is spliced from
the kind's prepared bytes; all others go through the KeyString encoder. Both give the same bytes.
"""

from binascii import hexlify
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import CLASSIC_TYPES, ChangeEvent, EventKind
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN
from tailrace.events.resume_token import CURRENT_VERSION, ResumeToken


def resume_token(event: ChangeEvent, version: int = CURRENT_VERSION) -> ResumeToken:
    """The token of an event in the given version."""
    if event.cause is not None:
        return replace(resume_token(event.cause, version), from_invalidate=True)
    kind = event.kind
    return ResumeToken(
        cluster_time=event.entry.ts,
        version=version,
        txn_op_index=event.entry.txn_op_index,
        uuid=kind.uuid,
        identifier=_identifier(event, version),
    )


def _identifier(event: ChangeEvent, version: int) -> bytes | None:
    operation_type = event.kind.operation_type
    if version < 2 and operation_type in CLASSIC_TYPES:
        return event.document_key
    parts = [rawbson.string(b"operationType", operation_type.encode())]
    if event.document_key is not None:
        parts.append(rawbson.element(rawbson.DOCUMENT, b"documentKey", event.document_key))
    elif event.ddl is not None and event.ddl.description is not None:
        parts.append(rawbson.element(rawbson.DOCUMENT, b"operationDescription", event.ddl.description))
    return rawbson.document(*parts)


def id_element(event: ChangeEvent, version: int = CURRENT_VERSION) -> bytes:
    """The event's `_id` field: a finished BSON element."""
    key = event.document_key
    if key is not None and version == 2:
        write_key = _SINGLE_ID_KEYS.get(key[4:9])
        key_hex = None if write_key is None else write_key(key)
        if key_hex is not None:
            entry = event.entry
            index = _NO_TRANSACTION if entry.extras is PLAIN else _index(entry.txn_op_index)
            middle = event.kind.token_middle
            size = _TIME_SIZE + len(index) + len(middle) + len(key_hex) + len(_END) - 2
            frame = _FRAMES.get(size) or _frame(size)
            return b"".join((frame, _time_and_version(entry.ts), index, middle, key_hex, _END))
    elif version == 2 and event.ddl is not None and event.ddl.description is not None:
        numbered = _numbered_id(event, event.ddl.description)
        if numbered is not None:
            return numbered
    return b"\x03_id\0" + resume_token(event, version).to_bson()


def id_elements(kind: EventKind, cluster_time: int, keys: Sequence[bytes]) -> list[bytes] | None:
    """The `_id` fields of the inserts of one entry, counted from 0, in version 2.

    None if one of the keys needs the general encoder.
    """
    lead = b""
    write_key: Callable[[bytes], bytes | None] | None = None
    time, middle = _time_and_version(cluster_time), kind.token_middle
    fixed = _TIME_SIZE + len(middle) + len(_END) - 2
    frames, join = _FRAMES, b"".join
    found = []
    for index, key in enumerate(keys):
        if key[4:9] != lead:
            lead = key[4:9]
            write_key = _SINGLE_ID_KEYS.get(lead)
        key_hex = None if write_key is None else write_key(key)
        if key_hex is None:
            return None
        number = _index(index)
        size = fixed + len(number) + len(key_hex)
        found.append(join((frames.get(size) or _frame(size), time, number, middle, key_hex, _END)))
    return found


def _numbered_id(event: ChangeEvent, description: bytes) -> bytes | None:
    """The field of an event whose description ends in the number of a transaction; None of any other.

    The transactions of a session differ in nothing else, so the encoder is asked once for each session.
    """
    shared = description[:-9]
    if not shared.endswith(_NUMBER_NAME) or event.cause is not None:
        return None
    number: int = _read_int64(description, len(shared))[0]
    if not 0 < number < _LARGE_NUMBER:
        return None
    lead = _time_and_version(event.entry.ts) + _index(event.entry.txn_op_index)
    ending = _positive_int(number) + _TOKEN_END
    place = (event.kind, shared)
    found = _NUMBERED.get(place)
    if found is None:
        *_, (kind, name, _, _) = rawbson.elements(description)
        # The same bytes may be a part of another value.
        is_number = (kind, name) == (rawbson.INT64, b"txnNumber")
        found = _around_number(event, lead, ending) if is_number else (b"", b"")
        remember(_NUMBERED, place, found)
    middle, type_bits = found
    if not middle:
        return None
    text = rawbson.string(b"_data", b"".join((lead, middle, ending)))
    return b"\x03_id\0" + rawbson.document(text, type_bits)


def _around_number(event: ChangeEvent, lead: bytes, ending: bytes) -> tuple[bytes, bytes]:
    """What stands before the number in the text of a token, and the element behind the text."""
    document = resume_token(event, 2).to_bson()
    _, _, start, end = next(rawbson.elements(document))
    text = document[start + 4 : end - 1]
    return text[len(lead) : -len(ending)], document[end:-1]


def single_id_hex(key: bytes) -> bytes | None:
    """How a document key continues a token of version 2, up to the token's last three bytes.

    None if it is not a single `_id` of an ordinary type; then the general encoder has to write it.
    """
    write_key = _SINGLE_ID_KEYS.get(key[4:9])
    return None if write_key is None else write_key(key)


def transaction_index_hex(txn_op_index: int) -> bytes:
    """An operation's place in its transaction as it stands in a token of version 2."""
    return _index(txn_op_index)


_TOKEN_END: Final = b"000004"
"""The ends of the identifier's documents and of the token"""
_END: Final = _TOKEN_END + b"\0\0"
"""The same, then the ends of the text and of the document"""
_NUMBER_NAME: Final = b"\x12txnNumber\0"
_LARGE_NUMBER: Final = 1 << 53
"""Numbers from here on are left to the encoder"""
_NUMBERED: Final[dict[tuple[EventKind, bytes], tuple[bytes, bytes]]] = {}
_TIME_SIZE: Final = 2 + 16 + 10
_NO_TRANSACTION: Final = b"29"


@lru_cache(maxsize=256)
def _time_and_version(cluster_time: int) -> bytes:
    """The cluster time, version 2 and token type 128."""
    return b"82%016X2B042C0100" % cluster_time


@lru_cache(maxsize=4096)
def _index(txn_op_index: int) -> bytes:
    return _positive_int(txn_op_index) if txn_op_index else _NO_TRANSACTION


_INT_TYPES: Final = [b"%02X" % (0x2A + size) for size in range(10)]
"""Types of whole numbers above zero, by how many bytes they have"""


def _positive_int(value: int) -> bytes:
    """The KeyString of a whole number above zero, in hex."""
    digits = b"%X" % (value << 1)
    if len(digits) % 2:
        digits = b"0" + digits
    return _INT_TYPES[len(digits) // 2] + digits


_read_int32: Final = rawbson.INT32_LE.unpack_from
_read_int64: Final = rawbson.INT64_LE.unpack_from
_FRAMES: Final[dict[int, bytes]] = {}


def _frame(size: int) -> bytes:
    """Everything in front of the hex text of a token of this size."""
    pack = rawbson.INT32_LE.pack
    return remember(_FRAMES, size, b"\x03_id\0%b\x02_data\0%b" % (pack(size + 17), pack(size + 1)))


# How a document key of exactly {_id: value} continues the token, by the five bytes type, "_id", NUL. None
# means that this value needs the general encoder: another field follows, or type bits are not zero.


def _object_id(key: bytes) -> bytes | None:
    return b"645F69640064" + hexlify(key[9:21]).upper() if len(key) == 22 else None


def _string(key: bytes) -> bytes | None:
    text = key[13:-2]
    if 0 in text or len(key) != int.from_bytes(key[9:13], "little") + 14:
        return None
    return b"3C5F6964003C%b00" % hexlify(text).upper()


def _int32(key: bytes) -> bytes | None:
    if len(key) != 14:
        return None
    value: int = _read_int32(key, 9)[0]
    if value <= 0:
        return b"1E5F69640029" if value == 0 else None
    return b"1E5F696400" + _positive_int(value)


def _uuid(key: bytes) -> bytes | None:
    if len(key) != 31 or key[9:14] != b"\x10\0\0\0\x04":
        return None
    return b"5A5F6964005A1004" + hexlify(key[14:30]).upper()


_SINGLE_ID_KEYS: Final[dict[bytes, Callable[[bytes], bytes | None]]] = {
    b"\x07_id\0": _object_id,
    b"\x02_id\0": _string,
    b"\x10_id\0": _int32,
    b"\x05_id\0": _uuid,
}
