"""Pre-images from dumps of `config.system.preimages`, found by the identifier an event asks with.

A dump is in the order of the collection, which is clustered on ``{nsUUID, ts, applyOpsIndex}``: that order
and the order of the keys made here are the same, so the dump itself can be searched.
"""

from collections.abc import Sequence

from tailrace.events.pre_image_key import image_in, pre_image_key, pre_image_key_of
from tailrace.sources.archives.keyed_file import KeyedFile


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
                return image_in(raw)
        return None
