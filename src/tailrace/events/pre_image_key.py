"""The identifier of a stored pre-image: ``{nsUUID, ts, applyOpsIndex}`` in `config.system.preimages`.

An event asks with it (`stages/add_pre_image.py`), and the store, dumps and deployments find images by it.
"""

from struct import Struct
from typing import Any, Final

from bson import Int64, MaxKey
from bson.binary import UUID_SUBTYPE, Binary

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import to_timestamp

_HAVE_PRE_IMAGES: Final = frozenset({"update", "replace", "delete"})
_POSITION: Final = Struct(">QQ")
_IMAGE: Final = b"preImage"
_NO_IMAGE: Final = (
    "not a pre-image: it lacks an `_id` of nsUUID, ts and applyOpsIndex, or the document `preImage`"
)


def has_pre_image(event: ChangeEvent) -> bool:
    """Return whether an event changes a document that existed before."""
    return event.kind.operation_type in _HAVE_PRE_IMAGES


def pre_image_of(event: ChangeEvent) -> tuple[bytes, int, int]:
    """Return what the pre-image of an event is asked by: UUID, cluster time, index in its applyOps."""
    extras = event.entry.extras
    ts = extras.apply_ops_ts if extras.in_apply_ops else event.entry.ts
    return event.kind.uuid or b"", ts, event.entry.index


def pre_image_key(uuid: bytes, ts: int, index: int) -> bytes:
    """Return bytes that sort as the identifiers do; ``index`` is the operation's in its applyOps."""
    return uuid + _POSITION.pack(ts, index)


def pre_image_identifier(uuid: bytes, ts: int, index: int | MaxKey) -> dict[str, Any]:
    """Return the `_id` of the image; with a MaxKey, the end of all images of an entry."""
    number = index if isinstance(index, MaxKey) else Int64(index)
    return {"nsUUID": Binary(uuid, UUID_SUBTYPE), "ts": to_timestamp(ts), "applyOpsIndex": number}


def image_in(stored: bytes) -> bytes | None:
    """Return the document of a stored image."""
    return rawbson.subdocument(stored, _IMAGE)


def image_field(image: bytes) -> bytes:
    """Return the element that holds the document of a stored image."""
    return rawbson.element(rawbson.DOCUMENT, _IMAGE, image)


def pre_image_key_of(stored: bytes) -> bytes:
    """Return the key of a stored image; raises `ValueError` if it is none."""
    identifier = rawbson.subdocument(stored, b"_id")
    if identifier is None or image_in(stored) is None:
        raise ValueError(_NO_IMAGE)
    uuid = ts = index = None
    for kind, name, start, end in rawbson.elements(identifier):
        if name == b"nsUUID" and kind == rawbson.BINARY and end - start == 21:
            uuid = identifier[start + 5 : end]
        elif name == b"ts" and kind == rawbson.TIMESTAMP:
            ts = int.from_bytes(identifier[start:end], "little")
        elif name == b"applyOpsIndex" and kind in (rawbson.INT64, rawbson.INT32):
            index = int.from_bytes(identifier[start:end], "little", signed=True)
    if uuid is None or ts is None or index is None or index < 0:
        raise ValueError(_NO_IMAGE)
    return pre_image_key(uuid, ts, index)
