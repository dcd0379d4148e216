"""What a replay looks up: the dumps named on the command line, and who may ask them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tailrace.cli.json_arguments import named_argument
from tailrace.errors import UsageError
from tailrace.stages.lookups import EntryLookup, Lookups, PreImageLookup
from tailrace.store.document_files import DocumentFiles
from tailrace.store.pre_image_files import PreImageFiles


def open_lookups(
    stack: ExitStack, entries: Mapping[str, EntryLookup], pre_images: Sequence[str], documents: Sequence[str]
) -> dict[str, Lookups]:
    """The look-ups of every shard in ``entries``; the files stay open for as long as ``stack`` lasts."""
    collections: dict[str, list[str]] = {}
    for text in documents:
        namespace, path = named_argument("--documents", text, "NS=PATH")
        collections.setdefault(namespace, []).append(_file("--documents", path))
    current = stack.enter_context(DocumentFiles(collections))

    images: dict[str, list[PreImageFiles]] = {shard: [] for shard in entries}
    for text in pre_images:
        # Shards may have entries with equal times, so a pre-image belongs to its shard if that is named.
        shard, equals, path = text.partition("=")
        is_of_one = bool(shard and equals and shard in images)
        file = _file("--pre-images", path if is_of_one else text)
        opened = stack.enter_context(PreImageFiles([file]))
        for owner in [shard] if is_of_one else images:
            images[owner].append(opened)
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


def _file(option: str, path: str) -> str:
    if not Path(path).is_file():
        raise UsageError(f"{option}: there is no file {path}")
    return path
