"""The components of a resume token in their order: how each is written and read.

`resume_token.py` documents the format. The checks of a token that is read come in the order of the
components, each with the server's code. Lenient where the server is: the first component may be of any type,
and a high water mark may carry a UUID, though it cannot be written again.

A new component is a new row of `COMPONENTS`, with the version that introduces it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.keystring import END, TypeBits, append_value, decode
from tailrace.bson.keystring.layout import FALSE, NULL, TIMESTAMP, TRUE
from tailrace.bson.keystring.numbers import append_int
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, KeyStringError
from tailrace.events.layout.template import INDEX, KEY, TIME, Template

EVENT: Final = 128
HIGH_WATER_MARK: Final = 0
CURRENT_VERSION: Final = 2
WRAPPED_KEYS: Final = 2
"""The first version whose identifiers have more than the document key"""

_UUID_VALUE: Final = b"\x10\0\0\0\x04"
"""Size and subtype of a UUID as a BSON value"""
_UUID_KEY: Final = b"\x5a\x10\x04"
"""The same as a KeyString"""


class TokenFields(Protocol):
    """What is written: a `ResumeToken`, or a sample of one."""

    @property
    def cluster_time(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def txn_op_index(self) -> int: ...
    @property
    def from_invalidate(self) -> bool: ...
    @property
    def uuid(self) -> bytes | None: ...
    @property
    def identifier(self) -> bytes | None: ...
    @property
    def fragment(self) -> int | None: ...


Values: TypeAlias = Iterator[tuple[int, bytes]]
"""BSON type and value of the components that were not read yet"""
Found: TypeAlias = Mapping[str, Any]
"""the components read so far, by name"""


@dataclass(frozen=True, slots=True)
class Component:
    """One row of the token's layout."""

    name: str
    """the attribute of `ResumeToken`"""
    write: Callable[[bytearray, TypeBits, TokenFields], None]
    read: Callable[[Values, Found], Any]
    since: int = 0
    """the first version that has it"""
    absent: Any = None
    """its value in older versions"""


# -- one function for each direction of each component ------------------------------------------------------


def _write_time(out: bytearray, _: TypeBits, token: TokenFields) -> None:
    out.append(TIMESTAMP)
    out += token.cluster_time.to_bytes(8, "big")


def _read_time(rest: Values, _: Found) -> int:
    kind, value = next(rest)
    return int.from_bytes(value, "little") if kind in (rawbson.TIMESTAMP, rawbson.DATE) else 0


def _write_integer(out: bytearray, bits: TypeBits, value: int) -> None:
    bits.skip(2)
    append_int(out, value)


def _read_integer(rest: Values, what: str, *, missing: int, wrong_type: int) -> int:
    found = next(rest, None)
    if found is None:
        raise CommandError(missing, f"the resume token ends before its {what}")
    if found[0] != rawbson.INT32:
        raise CommandError(wrong_type, f"the {what} of a resume token must be a 32-bit integer")
    return int.from_bytes(found[1], "little", signed=True)


def _write_version(out: bytearray, bits: TypeBits, token: TokenFields) -> None:
    _write_integer(out, bits, token.version)


def _read_version(rest: Values, _: Found) -> int:
    version = _read_integer(rest, "version", missing=50796, wrong_type=50854)
    if not 0 <= version <= CURRENT_VERSION:
        raise CommandError(50795, f"resume token version {version} is not supported")
    return version


def _write_kind(out: bytearray, bits: TypeBits, token: TokenFields) -> None:
    _write_integer(out, bits, token.kind)


def _read_kind(rest: Values, _: Found) -> int:
    kind = _read_integer(rest, "token type", missing=51055, wrong_type=51056)
    if kind not in (EVENT, HIGH_WATER_MARK):
        raise CommandError(51057, f"resume token type {kind} is not known")
    return kind


def _write_index(out: bytearray, bits: TypeBits, token: TokenFields) -> None:
    _write_integer(out, bits, token.txn_op_index)


def _read_index(rest: Values, _: Found) -> int:
    index = _read_integer(rest, "transaction index", missing=50793, wrong_type=50855)
    if index < 0:
        raise CommandError(50794, f"the transaction index of a resume token is negative: {index}")
    return index


def _write_from_invalidate(out: bytearray, _: TypeBits, token: TokenFields) -> None:
    out.append(TRUE if token.from_invalidate else FALSE)


def _read_from_invalidate(rest: Values, _: Found) -> bool:
    found = next(rest, None)
    if found is None:
        raise CommandError(50872, "the resume token ends before its invalidate flag")
    if found[0] != rawbson.BOOL:
        raise CommandError(50870, "the invalidate flag of a resume token must be a boolean")
    return found[1] != b"\0"


def _write_uuid(out: bytearray, _: TypeBits, token: TokenFields) -> None:
    if token.uuid is not None:
        out += _UUID_KEY
        out += token.uuid
    elif token.version >= 2:
        out.append(NULL)


def _read_uuid(rest: Values, found: Found) -> bytes | None:
    component = next(rest, None)
    if component is None:
        if found["version"] >= 2:
            raise CommandError(6189500, "the resume token ends before its UUID")
        return None
    kind, value = component
    if kind == rawbson.NULL:
        return None
    if kind != rawbson.BINARY or not value.startswith(_UUID_VALUE):
        raise CommandError(ErrorCode.InvalidUUID, "the UUID of a resume token must be a UUID or null")
    return value[5:]


def _write_identifier(out: bytearray, bits: TypeBits, token: TokenFields) -> None:
    if token.identifier is not None:
        append_value(out, bits, token.identifier, rawbson.DOCUMENT, 0, len(token.identifier))


def _read_identifier(rest: Values, found: Found) -> bytes | None:
    component = next(rest, None)
    if component is None:
        if found["version"] >= 2 and found["kind"] == EVENT:
            raise CommandError(6189501, "the resume token ends before its event identifier")
        return None
    if found["kind"] == HIGH_WATER_MARK:
        raise CommandError(6189504, "a high water mark token must not have an event identifier")
    if component[0] != rawbson.DOCUMENT:
        raise CommandError(6189503, "the event identifier of a resume token must be an object")
    return component[1]


def _write_fragment(out: bytearray, bits: TypeBits, token: TokenFields) -> None:
    if token.fragment is not None:
        _write_integer(out, bits, token.fragment)


def _read_fragment(rest: Values, _: Found) -> int | None:
    component = next(rest, None)
    if component is None:
        return None
    kind, value = component
    fragment = int.from_bytes(value, "little", signed=True) if kind == rawbson.INT32 else -1
    if fragment < 0:
        raise CommandError(
            7182501, "the fragment number of a resume token must be a non-negative 32-bit integer"
        )
    return fragment


COMPONENTS: Final = (
    Component("cluster_time", _write_time, _read_time),
    Component("version", _write_version, _read_version),
    Component("kind", _write_kind, _read_kind, since=1, absent=EVENT),
    Component("txn_op_index", _write_index, _read_index),
    Component("from_invalidate", _write_from_invalidate, _read_from_invalidate, since=1, absent=False),
    Component("uuid", _write_uuid, _read_uuid),
    Component("identifier", _write_identifier, _read_identifier),
    Component("fragment", _write_fragment, _read_fragment, since=2),
)
"""The row, in order"""


def write_components(token: TokenFields, out: bytearray, bits: TypeBits) -> None:
    """Append all components of a token, and its end."""
    for component in COMPONENTS:
        if token.version >= component.since:
            component.write(out, bits, token)
    out.append(END)


def read_components(data: bytes, type_bits: bytes) -> dict[str, Any]:
    """The components of the token whose KeyString is ``data``, by name."""
    try:
        values = decode(data, type_bits)
    except KeyStringError as error:
        # The client gave a token and does not know about KeyStrings.
        reason = error.message.partition(": ")[2]
        raise CommandError(error.code, f"the resume token is damaged: {reason}") from None
    if not values:
        raise CommandError(40649, "the resume token is empty")
    rest = iter(values)
    found: dict[str, Any] = {}
    for component in COMPONENTS:
        is_there = found.get("version", 0) >= component.since
        found[component.name] = component.read(rest, found) if is_there else component.absent
    if next(rest, None) is not None:
        raise CommandError(40646, "the resume token continues after its last component")
    return found


# -- tokens of document changes, spliced instead of encoded --------------------------------------------------


def identifier_of(operation_type: str, key: bytes | None, description: bytes | None) -> bytes:
    """The identifier of an event in version 2: its type, and its document key or description."""
    parts = [rawbson.string(b"operationType", operation_type.encode())]
    if key is not None:
        parts.append(rawbson.element(rawbson.DOCUMENT, b"documentKey", key))
    elif description is not None:
        parts.append(rawbson.element(rawbson.DOCUMENT, b"operationDescription", description))
    return rawbson.document(*parts)


@dataclass(frozen=True, slots=True)
class _Sample:
    uuid: bytes | None
    identifier: bytes | None
    version: int = CURRENT_VERSION
    cluster_time: int = 0
    kind: int = EVENT
    txn_op_index: int = 0
    from_invalidate: bool = False
    fragment: int | None = None


def change_token(operation_type: str, uuid: bytes | None, version: int = CURRENT_VERSION) -> Template:
    """The hex text of the tokens of one type of document change.

    The holes are `TIME` (16 digits), `INDEX` (a KeyString integer) and `KEY` (the KeyString of the key's
    fields, without type bits).

    >>> change_token("drop", None).holes
    ('time', 'index', 'key')
    """
    before, after = _around_uuid(operation_type, version)
    sample = _Sample(uuid, None, version)
    out = bytearray()
    _write_uuid(out, TypeBits(), sample)
    return Template([*before, out.hex().upper().encode(), *after])


@lru_cache(maxsize=256)
def _around_uuid(operation_type: str, version: int) -> tuple[list[bytes | str], list[bytes | str]]:
    """The tokens of one type of document change before and after the UUID."""
    wraps_key = version >= WRAPPED_KEYS
    identifier = identifier_of(operation_type, rawbson.EMPTY, None) if wraps_key else rawbson.EMPTY
    sample = _Sample(None, identifier, version)
    pieces: list[bytes | str] = []
    before: list[bytes | str] = []
    for component in COMPONENTS:
        if version < component.since:
            continue
        if component.name == "uuid":
            before, pieces = pieces, []
            continue
        out = bytearray()
        component.write(out, TypeBits(), sample)
        text = out.hex().upper().encode()
        if component.name == "cluster_time":
            pieces += (text[:2], TIME)
        elif component.name == "txn_op_index":
            pieces.append(INDEX)
        elif component.name == "identifier":
            # A key is the last field of its identifier: both end where the key's fields end.
            ends = 4 if wraps_key else 2
            pieces += (text[:-ends], KEY, text[-ends:])
        else:
            pieces.append(text)
    pieces.append(b"%02X" % END)
    return before, pieces


# -- the token as a document, and as a field of an event -----------------------------------------------------

_pack_int32 = rawbson.INT32_LE.pack
_DATA: Final = b"\x02_data\0"
TEXT: Final = 4 + len(_DATA) + 4
"""Where the hex text begins in a token document"""


def document_lead(size: int) -> bytes:
    """What comes before a text of ``size`` digits in a token document that has nothing else."""
    return b"%b%b%b" % (_pack_int32(TEXT + size + len(DOCUMENT_END)), _DATA, _pack_int32(size + 1))


DOCUMENT_END: Final = b"\0\0"
"""What comes after the text: the ends of the text and of the document"""


def document_of_text(text: bytes, type_bits: bytes = b"") -> bytes:
    """``{_data, _typeBits?}`` of a hex text."""
    parts = [rawbson.string(b"_data", text)]
    if type_bits:
        content = _pack_int32(len(type_bits)) + b"\0" + type_bits
        parts.append(rawbson.element(rawbson.BINARY, b"_typeBits", content))
    return rawbson.document(*parts)


def documents_of_texts(texts: Sequence[bytes], type_bits: Sequence[bytes | None] | None) -> list[bytes]:
    """The documents of many tokens; None if no token has type bits."""
    if type_bits is not None:
        return [document_of_text(text, bits or b"") for text, bits in zip(texts, type_bits, strict=True)]
    leads: dict[int, bytes] = {size: document_lead(size) for size in set(map(len, texts))}
    return [b"%b%b%b" % (leads[len(text)], text, DOCUMENT_END) for text in texts]


def token_text(document: bytes) -> bytes:
    """The hex text of a token document that was written by us."""
    return document[TEXT : TEXT - 1 + rawbson.INT32_LE.unpack_from(document, TEXT - 4)[0]]


def token_type_bits(document: bytes) -> bytes | None:
    """The type bits of a token document that was written by us; None if it has none."""
    end = TEXT + rawbson.INT32_LE.unpack_from(document, TEXT - 4)[0] + 1
    if end == len(document):
        return None
    found = rawbson.field(document, b"_typeBits")
    return None if found is None else found[1][5:]
