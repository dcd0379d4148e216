"""Look up pre-images in dumps of `config.system.preimages`.

A dump has the order of the collection, which is clustered on ``{nsUUID, ts, applyOpsIndex}``. The keys made
here have the same order, so the dump itself can be searched.
"""

from collections.abc import Sequence

from tailrace.events.pre_image_key import image_in, pre_image_key, pre_image_key_of
from tailrace.sources.archives.keyed_file import KeyedFile


class PreImageFiles:
    def __init__(self, paths: Sequence[str]) -> None:
        self._files = [KeyedFile(path, pre_image_key_of) for path in paths]

    def __enter__(self) -> "PreImageFiles":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def find(self, uuid: bytes, ts: int, apply_ops_index: int) -> bytes | None:
        """Return the document before an operation of the entry at ``ts``; None if it is not stored."""
        key = pre_image_key(uuid, ts, apply_ops_index)
        for file in self._files:
            for raw in file.find(key):
                return image_in(raw)
        return None
