"""Decode the getMore that a connection repeats only once.

A client that follows a change stream sends the same getMore as long as the stream is open, and only its
`$clusterTime` changes. So it is checked and decoded once; a message that is equal except for its
`$clusterTime`, at the same offset, has the same fields.
"""

from functools import lru_cache
from typing import Any, Final

from tailrace.bson import raw
from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.mongod.wire.compression import Compressor
from tailrace.mongod.wire.header import Header
from tailrace.mongod.wire.payload_document import check_document
from tailrace.mongod.wire.request import Request

_BODY_START: Final = 5
"""Offset in a payload: after the flags and the kind of the first section"""
_NO_FLAGS: Final = bytes(_BODY_START)
_GET_MORE: Final = b"\x12getMore\0"
_NAME: Final = b"$clusterTime"
_CLUSTER_TIME: Final = b"\x03%b\0" % _NAME
_REFERENCE: Final = b"$ref\0"
"""The field name that makes PyMongo decode a document as a `DBRef`"""
_MAX_SIZE: Final = 1024
_read_size: Final = raw.INT32_LE.unpack_from


class RepeatedCommand:
    """The last message of a connection, if it was a getMore."""

    def __init__(self) -> None:
        self._around = b""
        self._place = 0
        self._size = -1
        self._fields: dict[str, Any] = {}
        self._database = ""

    def read(self, header: Header, payload: bytes, compressor: Compressor | None) -> Request | None:
        """The request in an OP_MSG that repeats the last one; None if it does not."""
        if len(payload) != self._size:
            return None
        place = payload.find(_CLUSTER_TIME)
        around, gossip = _cut(payload, place)
        if place != self._place or around != self._around:
            return None
        fields = self._fields.copy()
        if gossip:
            heard = _decoded(gossip)
            if heard is None:
                return None
            fields[_NAME.decode()] = heard
        return Request(
            header.request_id,
            header.op_code,
            self._database,
            payload[_BODY_START:],
            {},
            0,
            compressor,
            None,
            fields,
            is_exact=True,
        )

    def note(self, payload: bytes, request: Request) -> None:
        """Remember a fully decoded request, if it may be repeated."""
        if (
            len(payload) > _MAX_SIZE
            or not payload.startswith(_GET_MORE, _BODY_START + 4)
            or not payload.startswith(_NO_FLAGS)
            or request.decoded is None
            or request.sequences
            or _REFERENCE in payload
            or encode(request.decoded) != request.command
        ):
            return
        place = payload.find(_CLUSTER_TIME)
        found = raw.find(request.command, _NAME)
        if place != (-1 if found is None else _BODY_START + found[2] - len(_CLUSTER_TIME)):
            return
        self._around, _ = _cut(payload, place)
        self._place = place
        self._size = len(payload)
        self._fields = request.decoded
        self._database = request.database


def _cut(payload: bytes, place: int) -> tuple[bytes, bytes]:
    """The payload without the element at a place, and the value of that element."""
    if place < 0:
        return payload, b""
    start = place + len(_CLUSTER_TIME)
    end = start + (_read_size(payload, start)[0] if start + 4 <= len(payload) else 0)
    return payload[:place] + payload[end:], payload[start:end]


@lru_cache(maxsize=64)
def _decoded(gossip: bytes) -> dict[str, Any] | None:
    """The decoded value of a `$clusterTime`, cached because clients send the same ones; None if invalid."""
    try:
        found = check_document(gossip)
    except CommandError:
        return None
    is_exact = found is not None and _REFERENCE not in gossip and encode(found) == gossip
    return found if is_exact else None
