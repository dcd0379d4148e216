"""The getMore that a connection sends again and again.

A client that follows a change stream sends the same getMore for as long as the stream is open, and nothing in
it changes but the time it has heard of, `$clusterTime`. So it is checked and decoded once; a message that is
equal to it around its `$clusterTime`, which stands in the same place, has the same fields.
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
"""In a payload: behind the flags and the kind of the first section"""
_NO_FLAGS: Final = bytes(_BODY_START)
_GET_MORE: Final = b"\x12getMore\0"
_NAME: Final = b"$clusterTime"
_CLUSTER_TIME: Final = b"\x03%b\0" % _NAME
_REFERENCE: Final = b"$ref\0"
"""The name that makes PyMongo build an object of its own"""
_MAX_SIZE: Final = 1024
_read_size: Final = raw.INT32_LE.unpack_from


class RepeatedCommand:
    """What one connection sent last, if it was a getMore."""

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
        """Remember a request that was read in the ordinary way, if it is of the kind that is repeated."""
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
    """What is around the element at a place, and its value."""
    if place < 0:
        return payload, b""
    start = place + len(_CLUSTER_TIME)
    end = start + (_read_size(payload, start)[0] if start + 4 <= len(payload) else 0)
    return payload[:place] + payload[end:], payload[start:end]


@lru_cache(maxsize=64)
def _decoded(gossip: bytes) -> dict[str, Any] | None:
    """The value of a `$clusterTime`, which all clients send at about the same time; None if it is no good."""
    try:
        found = check_document(gossip)
    except CommandError:
        return None
    is_exact = found is not None and _REFERENCE not in gossip and encode(found) == gossip
    return found if is_exact else None
