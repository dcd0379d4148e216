"""What stages look up; the engine that runs them passes it in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

EntryLookup: TypeAlias = Callable[[int, int], bytes | None]
"""(cluster time, term) of an oplog entry: its bytes, or None if the oplog no longer has it."""
PreImageLookup: TypeAlias = Callable[[bytes, int, int], bytes | None]
"""(collection UUID, cluster time of the entry, index in its applyOps): the document before the change."""
DocumentLookup: TypeAlias = Callable[[str, bytes, bytes | None], bytes | None]
"""(namespace, document key, collection UUID it must have or None): the current document."""


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
