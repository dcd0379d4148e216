"""Which slot an event belongs to."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import bson
from bson.raw_bson import RawBSONDocument

from tailrace.bson.documents import encode
from tailrace.bson.keystring import encode as key_string
from tailrace.client.options import Document
from tailrace.errors import UsageError

KEYLESS_SLOT: Final = 0
"""The slot whose worker gets the events that belong to no document."""
_OF_DOCUMENTS: Final = frozenset({"insert", "update", "replace", "delete"})
_HASH_BYTES: Final = 8


def slot_of(event: Document, count: int) -> int | None:
    """The slot of a document's event, by the document's `_id`; None if the event belongs to no document.

    The fields of a shard key are not hashed: they can change, and the order of a document's events must not.
    Numbers that are equal have the same slot, whatever their types.

    >>> slot_of({"documentKey": {"_id": 7}}, 32) == slot_of({"documentKey": {"_id": 7.0, "zip": 1}}, 32)
    True
    >>> slot_of({"operationType": "drop"}, 32)
    """
    key = event.get("documentKey")
    if isinstance(key, Mapping) and "_id" in key:
        return slot_of_id(key["_id"], count)
    kind = event.get("operationType")
    if count > 1 and (kind is None or kind in _OF_DOCUMENTS):
        raise UsageError(
            "the pipeline removes documentKey or operationType from an event, so the workers of a group "
            "cannot share it; leave both fields in, or create the group with one slot"
        )
    return None


def slot_of_id(value: Any, count: int) -> int:
    """The slot of a document with this `_id`."""
    if isinstance(value, RawBSONDocument):
        value = bson.decode(value.raw)
    digest = blake2b(key_string(encode({"": value})).data, digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") % count
