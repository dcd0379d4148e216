"""The resume token of an event.

`resume_token` builds the token object for comparisons; `token_document` writes it as BSON. The token of a
document change whose key is a single `_id` of an ordinary type is spliced from the kind's template; all
others go through the KeyString encoder. Both give the same bytes.
"""

from binascii import hexlify
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import CLASSIC_TYPES, ChangeEvent, EventKind
from tailrace.events.layout.token import (
    DOCUMENT_END,
    WRAPPED_KEYS,
    change_token,
    document_lead,
    document_of_text,
    identifier_of,
)
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
    if version < WRAPPED_KEYS and operation_type in CLASSIC_TYPES:
        return event.document_key
    description = None if event.ddl is None else event.ddl.description
    return identifier_of(operation_type, event.document_key, description)


def token_document(event: ChangeEvent, version: int = CURRENT_VERSION) -> bytes:
    """The token as the BSON document that clients see as `_id`."""
    key = event.document_key
    if key is not None and version == CURRENT_VERSION:
        write_key = _SINGLE_ID_KEYS.get(key[4:9])
        key_hex = None if write_key is None else write_key(key)
        if key_hex is not None:
            entry = event.entry
            index = NO_INDEX if entry.extras is PLAIN else index_hex(entry.txn_op_index)
            middle = event.kind.token.fixed[2]
            size = _FIXED_SIZE + len(index) + len(middle) + len(key_hex)
            lead = _LEADS.get(size) or _lead(size)
            return b"".join((lead, _time_and_version(entry.ts), index, middle, key_hex, _END))
    elif version == CURRENT_VERSION and event.ddl is not None and event.ddl.description is not None:
        numbered = _numbered(event, event.ddl.description)
        if numbered is not None:
            return numbered
    return resume_token(event, version).to_bson()


def token_documents(kind: EventKind, cluster_time: int, keys: Sequence[bytes]) -> list[bytes] | None:
    """The tokens of the inserts of one entry, counted from 0, in version 2.

    None if one of the keys needs the general encoder.
    """
    first = b""
    write_key: Callable[[bytes], bytes | None] | None = None
    time, middle = _time_and_version(cluster_time), kind.token.fixed[2]
    fixed = _FIXED_SIZE + len(middle)
    leads, join = _LEADS, b"".join
    found = []
    for index, key in enumerate(keys):
        if key[4:9] != first:
            first = key[4:9]
            write_key = _SINGLE_ID_KEYS.get(first)
        key_hex = None if write_key is None else write_key(key)
        if key_hex is None:
            return None
        number = index_hex(index)
        size = fixed + len(number) + len(key_hex)
        found.append(join((leads.get(size) or _lead(size), time, number, middle, key_hex, _END)))
    return found


def _numbered(event: ChangeEvent, description: bytes) -> bytes | None:
    """The token of an event whose description ends in the number of a transaction; None of any other.

    The transactions of a session differ in nothing else, so the encoder is asked once for each session.
    """
    shared = description[:-9]
    if not shared.endswith(_NUMBER_NAME) or event.cause is not None:
        return None
    number: int = _read_int64(description, len(shared))[0]
    entry = event.entry
    place = (event.kind, shared)
    found = _NUMBERED.get(place)
    if found is None:
        if not 0 < number < LARGE_NUMBER:
            return None
        *_, (kind, name, _, _) = rawbson.elements(description)
        # The same bytes may be a part of another value.
        is_number = (kind, name) == (rawbson.INT64, b"txnNumber")
        found = _around_number(event, number) if is_number else (b"", b"")
        remember(_NUMBERED, place, found)
    middle, type_bits = found
    if not middle or not 0 < number < LARGE_NUMBER:
        return None
    return document_of_text(numbered_text(entry.ts, entry.txn_op_index, middle, number), type_bits)


def _around_number(event: ChangeEvent, number: int) -> tuple[bytes, bytes]:
    """The part of a token's text between its beginning and the number, and its type bits."""
    key = resume_token(event).key_string()
    text = key.data.hex().upper().encode()
    without = numbered_text(event.entry.ts, event.entry.txn_op_index, b"|", number)
    before, _, after = without.partition(b"|")
    return text[len(before) : -len(after)], key.type_bits


def numbered_text(cluster_time: int, index: int, middle: bytes, number: int) -> bytes:
    """The text of a token that ends in the number of a transaction, which is below `LARGE_NUMBER`.

    ``middle`` is the same for all transactions of a session.
    """
    parts = (_time_and_version(cluster_time), index_hex(index), middle, _positive_int(number), _TOKEN_END)
    return b"".join(parts)


def single_id_hex(key: bytes) -> bytes | None:
    """The digits of a document key in a token of version 2; the token's last three bytes follow them.

    None if it is not a single `_id` of an ordinary type; then the general encoder has to write it.
    """
    write_key = _SINGLE_ID_KEYS.get(key[4:9])
    return None if write_key is None else write_key(key)


_SAMPLE: Final = change_token("insert", None)
_TIME_AND_VERSION: Final = _SAMPLE.fixed[0] + b"%016X" + _SAMPLE.fixed[1]
"""From the token's beginning to its transaction index: the same for all kinds"""
_TOKEN_END: Final = _SAMPLE.fixed[3]
_END: Final = _TOKEN_END + DOCUMENT_END
_FIXED_SIZE: Final = len(_TIME_AND_VERSION % 0) + len(_TOKEN_END)
_NUMBER_NAME: Final = b"\x12txnNumber\0"
LARGE_NUMBER: Final = 1 << 53
"""Numbers from here on are left to the encoder"""
_NUMBERED: Final[dict[tuple[EventKind, bytes], tuple[bytes, bytes]]] = {}
NO_INDEX: Final = b"29"
"""The transaction index 0, which operations outside of transactions have"""


@lru_cache(maxsize=256)
def _time_and_version(cluster_time: int) -> bytes:
    return _TIME_AND_VERSION % cluster_time


@lru_cache(maxsize=4096)
def index_hex(txn_op_index: int) -> bytes:
    """An operation's position in its transaction, as a token of version 2 holds it."""
    return _positive_int(txn_op_index) if txn_op_index else NO_INDEX


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
_LEADS: Final[dict[int, bytes]] = {}


def _lead(size: int) -> bytes:
    """The beginning of a token document whose text has ``size`` digits."""
    return remember(_LEADS, size, document_lead(size))


# How a document key of exactly {_id: value} continues the token, by the five bytes type, "_id", NUL. None
# means that this value needs the general encoder: another field follows, or type bits are not zero.


OBJECT_ID_LEAD: Final = b"645F69640064"
"""What precedes the hex digits of an ObjectId: type and name of the field, and the type of the value"""


def _object_id(key: bytes) -> bytes | None:
    return OBJECT_ID_LEAD + hexlify(key[9:21]).upper() if len(key) == 22 else None


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
