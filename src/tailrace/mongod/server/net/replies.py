"""Replies as bytes: what a command returned, then `ok` and the times.

The tail is the same for every reply until the next write, so it is encoded once.
"""

from collections.abc import Mapping
from typing import Any, Final

from bson import Binary, Int64

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp

_OK: Final = rawbson.body(encode({"ok": 1.0}))
_SIGNATURE: Final = {"hash": Binary(bytes(20)), "keyId": Int64(0)}
"""What a server without keys sends; drivers hand it back as it is."""


class ReplyTail:
    """`$clusterTime` and `operationTime` as every reply of a replica set ends in."""

    def __init__(self) -> None:
        self._times = (-1, -1)
        self._encoded = b""

    def encoded(self, cluster_time: int, operation_time: int) -> bytes:
        """The two elements."""
        if self._times != (cluster_time, operation_time):
            fields = {
                "$clusterTime": {"clusterTime": to_timestamp(cluster_time), "signature": _SIGNATURE},
                "operationTime": to_timestamp(operation_time),
            }
            self._encoded = rawbson.body(encode(fields))
            self._times = (cluster_time, operation_time)
        return self._encoded


def success(reply: Mapping[str, Any] | bytes, tail: bytes) -> bytes:
    """The reply to a command that ran."""
    raw = reply if isinstance(reply, bytes) else encode(reply)
    # `rawbson.document` spelled out: a batch of 16 MB is copied once instead of four times.
    size = rawbson.INT32_LE.pack(len(raw) + len(_OK) + len(tail))
    return b"".join((size, memoryview(raw)[4:-1], _OK, tail, b"\0"))


def failure(error: CommandError, labels: list[str], extra: Mapping[str, Any], tail: bytes) -> bytes:
    """The reply to a command that failed; ``extra`` are fields besides those of the error."""
    reply: dict[str, Any] = {"errorLabels": labels} if labels else {}
    reply |= {"ok": 0.0, "errmsg": error.message, "code": error.code, "codeName": error.code_name}
    reply |= error.details
    reply |= extra
    return rawbson.document(rawbson.body(encode(reply)), tail)
