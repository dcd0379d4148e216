"""Raw batches of documents, without an object for each of them.

PyMongo's raw batches cost about as much as decoding them: to find the batch in a reply, it makes an object of
each document. Here the batch is cut out of the reply, and PyMongo decodes the rest. A reply that does
not begin as the replies of servers do is left to PyMongo.
"""

from collections.abc import Mapping
from typing import Any, Final

import bson
from pymongo.cursor import RawBatchCursor

from tailrace.bson import raw as rawbson

_CURSOR: Final = b"\x03cursor\0"
_BATCHES: Final = {b"\x04firstBatch\0": "firstBatch", b"\x04nextBatch\0": "nextBatch"}
_PLACE: Final = 4 + len(_CURSOR)
"""Where the document of the cursor begins"""
_joined = getattr(bson, "_array_of_documents_to_buffer", None)


class ReplyCursor(RawBatchCursor[dict[str, Any]]):
    """A cursor of raw batches."""

    def _unpack_response(self, response: Any, *others: Any, **named: Any) -> Any:
        payload = getattr(response, "payload_document", None)
        reply = None if payload is None else reply_of(payload)
        return super()._unpack_response(response, *others, **named) if reply is None else [reply]


def reply_of(payload: bytes | memoryview) -> dict[str, Any] | None:
    r"""Decode the reply of a `find` or `getMore`; its batch becomes one string. None if it is unusual.

    >>> reply_of(bson.encode({"cursor": {"firstBatch": [{}, {}], "id": 7}, "ok": 1}))
    {'cursor': {'firstBatch': [b'\x05\x00\x00\x00\x00\x05\x00\x00\x00\x00'], 'id': 7}, 'ok': 1}
    >>> reply_of(bson.encode({"ok": 0, "code": 43}))
    """
    start = bytes(payload[4 : _PLACE + 4 + max(map(len, _BATCHES))])
    lead = next((lead for lead in _BATCHES if start.startswith(lead, len(_CURSOR) + 4)), None)
    if _joined is None or lead is None or not start.startswith(_CURSOR):
        return None
    begins = _PLACE + 4 + len(lead)
    size = int.from_bytes(payload[begins : begins + 4], "little")
    batch = payload[begins : begins + size]
    head = bytearray(payload[:begins])
    for place in (0, _PLACE):
        shorter = int.from_bytes(head[place : place + 4], "little") - size + len(rawbson.EMPTY)
        head[place : place + 4] = rawbson.INT32_LE.pack(shorter)
    reply: dict[str, Any] = bson.decode(bytes(head) + rawbson.EMPTY + bytes(payload[begins + size :]))
    documents = _joined(batch)
    cursor: Mapping[str, Any] = reply["cursor"]
    reply["cursor"] = {**cursor, _BATCHES[lead]: [documents] if documents else []}
    return reply
