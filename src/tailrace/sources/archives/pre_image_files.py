"""Pre-images from dumps of `config.system.preimages`, found by the identifier an event asks with.

A dump is in the order of the collection, which is clustered on ``{nsUUID, ts, applyOpsIndex}``: that order
and the order of the keys made here are the same, so the dump itself can be searched.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.sources.archives.keyed_file import KeyedFile

_POSITION: Final = Struct(">QQ")
_NO_IMAGE: Final = (
    "not a pre-image: it lacks an `_id` of nsUUID, ts and applyOpsIndex, or the document `preImage`"
)


class PreImageFiles:
    """The pre-images of one or more dumps."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._files = [KeyedFile(path, pre_image_key_of) for path in paths]

    def __enter__(self) -> "PreImageFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def find(self, uuid: bytes, ts: int, apply_ops_index: int) -> bytes | None:
        """The document before the change made by this operation of the entry at ``ts``; None if not kept."""
        key = pre_image_key(uuid, ts, apply_ops_index)
        for file in self._files:
            for raw in file.find(key):
                return rawbson.subdocument(raw, b"preImage")
        return None


def pre_image_key(uuid: bytes, ts: int, apply_ops_index: int) -> bytes:
    """What a pre-image is found by; keys compare as the identifiers of the collection do."""
    return uuid + _POSITION.pack(ts, apply_ops_index)


def pre_image_key_of(raw: bytes) -> bytes:
    """The key of a stored pre-image; `ValueError` if it is none."""
    identifier = rawbson.subdocument(raw, b"_id")
    if identifier is None or rawbson.subdocument(raw, b"preImage") is None:
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
