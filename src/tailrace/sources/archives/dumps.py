"""Look up pre-images and current documents in the files that `mongodump` writes."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tailrace.errors import UsageError
from tailrace.events.stages.lookups import EntryLookup, Lookups, PreImageLookup
from tailrace.sources.archives.document_files import DocumentFiles
from tailrace.sources.archives.pre_image_files import PreImageFiles


class PreImageDump(NamedTuple):
    """A dump of `config.system.preimages`, and the shards whose pre-images it may contain."""

    path: str
    shards: Collection[str]


@dataclass(frozen=True)
class Dumps:
    """Dumps of pre-images and of collections."""

    pre_images: Sequence[PreImageDump]
    documents: Mapping[str, Sequence[str]]
    """by namespace"""

    @property
    def paths(self) -> list[str]:
        """The paths of all dumps."""
        return [dump.path for dump in self.pre_images] + [
            p for paths in self.documents.values() for p in paths
        ]

    def check(self) -> None:
        """Raise `UsageError` if one of them is not a readable file."""
        for path in self.paths:
            _check_is_file(path)

    def open(self, stack: ExitStack, entries: Mapping[str, EntryLookup]) -> dict[str, Lookups]:
        """The look-ups of every shard in ``entries``; ``stack`` closes the files."""
        self.check()
        current = stack.enter_context(DocumentFiles(self.documents))
        images: dict[str, list[PreImageFiles]] = {shard: [] for shard in entries}
        for dump in self.pre_images:
            opened = stack.enter_context(PreImageFiles([dump.path]))
            for shard in dump.shards:
                images[shard].append(opened)
        return {
            shard: Lookups(entry=find_entry, pre_image=_first_of(images[shard]), document=current.find)
            for shard, find_entry in entries.items()
        }


def _first_of(dumps: Sequence[PreImageFiles]) -> PreImageLookup:
    def find(uuid: bytes, ts: int, index: int) -> bytes | None:
        for dump in dumps:
            image = dump.find(uuid, ts, index)
            if image is not None:
                return image
        return None

    return find


def _check_is_file(path: str) -> None:
    try:
        if Path(path).is_file():
            with open(path, "rb"):
                return
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    raise UsageError(f"there is no regular file {path}, and a dump has to be one: it is searched")
