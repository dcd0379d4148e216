"""Encode replies: the fields of the command, then `ok` and the times.

The times are the same in every reply until the next write, so they are encoded once.
"""

from collections.abc import Mapping
from typing import Any, Final

from bson import Binary, Int64

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.bson.in_pieces import LARGE
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.pacing import tick

_OK: Final = rawbson.body(encode({"ok": 1.0}))
_SIGNATURE: Final = {"hash": Binary(bytes(20)), "keyId": Int64(0)}
"""The signature of a server without keys; drivers send it back unchanged."""


class ReplyTail:
    """`$clusterTime` and `operationTime`, which end every reply of a replica set."""

    def __init__(self) -> None:
        self._times = (-1, -1)
        self._encoded = b""

    def encoded(self, cluster_time: int, operation_time: int) -> bytes:
        if self._times != (cluster_time, operation_time):
            fields = {
                "$clusterTime": {"clusterTime": to_timestamp(cluster_time), "signature": _SIGNATURE},
                "operationTime": to_timestamp(operation_time),
            }
            self._encoded = rawbson.body(encode(fields))
            self._times = (cluster_time, operation_time)
        return self._encoded


def success(reply: Mapping[str, Any] | bytes, tail: bytes) -> bytes:
    """The reply to a command that ran; a few commands say themselves that they failed, by `ok`."""
    if not isinstance(reply, bytes) and "ok" in reply:
        return rawbson.document(rawbson.body(encode(reply)), tail)
    raw = reply if isinstance(reply, bytes) else encode(reply)
    if len(raw) > LARGE:
        tick()
    # Not `rawbson.document`, which would copy a batch of 16 MB four times instead of once.
    size = rawbson.INT32_LE.pack(len(raw) + len(_OK) + len(tail))
    return b"".join((size, memoryview(raw)[4:-1], _OK, tail, b"\0"))


def failure(error: CommandError, labels: list[str], before_ok: Mapping[str, Any], tail: bytes) -> bytes:
    """The reply to a command that failed; ``before_ok`` are further fields."""
    reply: dict[str, Any] = {"errorLabels": labels} if labels else {}
    reply |= before_ok
    reply |= {"ok": 0.0, "errmsg": error.message}
    if error.code:
        reply |= {"code": error.code, "codeName": error.code_name}
    reply |= error.details
    return rawbson.document(rawbson.body(encode(reply)), tail)
