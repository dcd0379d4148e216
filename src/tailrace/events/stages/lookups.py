"""What stages look up; the engine that runs them passes it in."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tailrace.events.change_event import ChangeEvent

EntryLookup: TypeAlias = Callable[[int, int], bytes | None]
"""(cluster time, term) of an oplog entry: its bytes, or None if the oplog no longer has it."""
PreImageLookup: TypeAlias = Callable[[bytes, int, int], bytes | None]
"""(collection UUID, cluster time of the entry, index in its applyOps): the document before the change."""
DocumentLookup: TypeAlias = Callable[[str, bytes, bytes | None], bytes | None]
"""(namespace, document key, collection UUID it must have or None): the current document."""
Rebuild: TypeAlias = Callable[[Sequence[ChangeEvent]], Sequence[bytes | None]]
"""(some changes of documents): the document before each of them, None where it is not known."""
PreImageQuestion: TypeAlias = tuple[bytes, int, int]
DocumentQuestion: TypeAlias = tuple[str, bytes, bytes | None]


def _no_entry(_ts: int, _term: int) -> bytes | None:
    return None


def _no_pre_image(_uuid: bytes, _ts: int, _index: int) -> bytes | None:
    return None


def _no_document(_ns: str, _key: bytes, _uuid: bytes | None) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class Lookups:
    """The look-ups of one shard; the defaults find nothing."""

    entry: EntryLookup = _no_entry
    pre_image: PreImageLookup = _no_pre_image
    document: DocumentLookup = _no_document
    pre_images: Callable[[Collection[PreImageQuestion]], PreImageLookup] | None = None
    """Where each answer comes from another server: asks for many at once; returns the look-up of these."""
    documents: Callable[[Collection[DocumentQuestion]], DocumentLookup] | None = None
    """The same for documents."""
    rebuild: Rebuild | None = None
    """Finds pre-images that the deployment may not have stored; the others are asked for."""

    def expecting_pre_images(self, questions: Collection[PreImageQuestion]) -> PreImageLookup:
        """Return the look-up of some pre-images, which are all needed."""
        return self.pre_image if self.pre_images is None else self.pre_images(questions)

    def rebuilt(self, events: Sequence[ChangeEvent]) -> Sequence[bytes | None]:
        """Return the pre-images of some events that can be rebuilt, None for the others."""
        return [None] * len(events) if self.rebuild is None else self.rebuild(events)

    def expecting_documents(self, questions: Collection[DocumentQuestion]) -> DocumentLookup:
        """Return the look-up of some documents, which are all needed."""
        return self.document if self.documents is None else self.documents(questions)
