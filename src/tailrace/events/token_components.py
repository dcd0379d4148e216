"""The components of a token, read one after the other.

The checks come in the order of the components, each with the server's code. Lenient where the server is: the
first component may be of any type, and a high water mark may carry a UUID, though it cannot be written again.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.bson.keystring import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, KeyStringError

EVENT: Final = 128
HIGH_WATER_MARK: Final = 0
CURRENT_VERSION: Final = 2

_UUID_HEAD: Final = b"\x10\0\0\0\x04"


class TokenComponents(NamedTuple):
    """The fields of a `ResumeToken`, in its order."""

    cluster_time: int
    version: int
    kind: int
    txn_op_index: int
    from_invalidate: bool
    uuid: bytes | None
    identifier: bytes | None
    fragment: int | None


def read_components(data: bytes, type_bits: bytes) -> TokenComponents:
    """The components of the token whose KeyString is ``data``."""
    try:
        values = decode(data, type_bits)
    except KeyStringError as error:
        # Whoever reads this gave a token and knows nothing of KeyStrings.
        reason = error.message.partition(": ")[2]
        raise CommandError(error.code, f"the resume token is damaged: {reason}") from None
    if not values:
        raise CommandError(40649, "the resume token is empty")
    rest = iter(values)
    cluster_time = _cluster_time(*next(rest))
    version = _integer(rest, "version", missing=50796, wrong_type=50854)
    if not 0 <= version <= CURRENT_VERSION:
        raise CommandError(50795, f"resume token version {version} is not supported")
    kind = EVENT if version == 0 else _integer(rest, "token type", missing=51055, wrong_type=51056)
    if kind not in (EVENT, HIGH_WATER_MARK):
        raise CommandError(51057, f"resume token type {kind} is not known")
    txn_op_index = _integer(rest, "transaction index", missing=50793, wrong_type=50855)
    if txn_op_index < 0:
        raise CommandError(50794, f"the transaction index of a resume token is negative: {txn_op_index}")
    from_invalidate = False if version == 0 else _boolean(rest)
    uuid = _uuid(rest, version)
    identifier = _identifier(rest, version, kind)
    fragment = _fragment(rest) if version >= 2 else None
    if next(rest, None) is not None:
        raise CommandError(40646, "the resume token goes on behind its last component")
    return TokenComponents(
        cluster_time, version, kind, txn_op_index, from_invalidate, uuid, identifier, fragment
    )


def _cluster_time(kind: int, value: bytes) -> int:
    return int.from_bytes(value, "little") if kind in (rawbson.TIMESTAMP, rawbson.DATE) else 0


def _integer(rest: Iterator[tuple[int, bytes]], what: str, *, missing: int, wrong_type: int) -> int:
    found = next(rest, None)
    if found is None:
        raise CommandError(missing, f"the resume token ends before its {what}")
    if found[0] != rawbson.INT32:
        raise CommandError(wrong_type, f"the {what} of a resume token must be a 32-bit integer")
    return int.from_bytes(found[1], "little", signed=True)


def _boolean(rest: Iterator[tuple[int, bytes]]) -> bool:
    found = next(rest, None)
    if found is None:
        raise CommandError(50872, "the resume token ends before its invalidate flag")
    if found[0] != rawbson.BOOL:
        raise CommandError(50870, "the invalidate flag of a resume token must be a boolean")
    return found[1] != b"\0"


def _uuid(rest: Iterator[tuple[int, bytes]], version: int) -> bytes | None:
    found = next(rest, None)
    if found is None:
        if version >= 2:
            raise CommandError(6189500, "the resume token ends before its UUID")
        return None
    kind, value = found
    if kind == rawbson.NULL:
        return None
    if kind != rawbson.BINARY or not value.startswith(_UUID_HEAD):
        raise CommandError(ErrorCode.InvalidUUID, "the UUID of a resume token must be a UUID or null")
    return value[5:]


def _identifier(rest: Iterator[tuple[int, bytes]], version: int, kind: int) -> bytes | None:
    found = next(rest, None)
    if found is None:
        if version >= 2 and kind == EVENT:
            raise CommandError(6189501, "the resume token ends before its event identifier")
        return None
    if kind == HIGH_WATER_MARK:
        raise CommandError(6189504, "a high water mark token must not have an event identifier")
    if found[0] != rawbson.DOCUMENT:
        raise CommandError(6189503, "the event identifier of a resume token must be an object")
    return found[1]


def _fragment(rest: Iterator[tuple[int, bytes]]) -> int | None:
    found = next(rest, None)
    if found is None:
        return None
    fragment = int.from_bytes(found[1], "little", signed=True) if found[0] == rawbson.INT32 else -1
    if fragment < 0:
        raise CommandError(
            7182501, "the fragment number of a resume token must be a non-negative 32-bit integer"
        )
    return fragment
