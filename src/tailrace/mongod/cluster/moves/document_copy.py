"""Copy documents to other shards while they are being written to.

First everything is copied from snapshots. Then the documents that were changed since, according to the
sources' oplogs, are copied again, until few are left. The last pass runs while nobody can write. A document
that is copied again is first removed from all targets, so that neither its old copy nor a unique index can
conflict with the new one.

The copies are logged as part of a migration, so streams do not show them.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.changed_documents import changed_documents
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import Reader, Snapshot
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit

_DOCUMENTS_AT_ONCE: Final = 200
"""Few enough that other writers of the shard do not wait long"""
_BYTES_AT_ONCE: Final = 2 << 20
_FEW_DOCUMENTS: Final = 100
"""Documents that can be copied again while writers wait"""
_MOST_PASSES: Final = 20
"""After this many passes the writers are faster than the copy, and have to wait for it"""


@dataclass(frozen=True, slots=True)
class Source:
    """A store that documents are copied from."""

    store: Store
    uuid: bytes
    """UUID of the collection"""
    records: Callable[[Reader, Collection], Iterator[tuple[bytes, bytes]]]
    """The documents to be copied"""
    includes: Callable[[bytes], bool]
    """Whether a document is to be copied"""


@dataclass(slots=True)
class DocumentCopy:
    """A copy from several stores to several others."""

    sources: Sequence[Source]
    targets: Mapping[str, Store]
    """By the names of shards"""
    uuid: bytes
    """UUID of the collection on the targets, which exists already"""
    target_of: Callable[[bytes], str]
    """The target shard of a document"""
    is_copy: Callable[[bytes], bool] = lambda _document: True
    """Whether a document on a target can be one of the copies"""
    documents: int = 0
    """Number of documents copied"""
    _read_through: dict[int, int] = field(default_factory=dict)
    _left_out: set[bytes] = field(default_factory=set)

    async def begin(self) -> None:
        """Copy everything, then what has changed meanwhile, until few documents are left."""
        with ExitStack() as snapshots:
            opened = [snapshots.enter_context(source.store.snapshot()) for source in self.sources]
            for number, snapshot in enumerate(opened):
                self._read_through[number] = snapshot.newest_time()
            for source, snapshot in zip(self.sources, opened, strict=True):
                await self._put(self._found(source, snapshot), is_strict=False)
        for _ in range(_MOST_PASSES):
            if await self.catch_up() <= _FEW_DOCUMENTS:
                return

    def _found(self, source: Source, snapshot: Snapshot) -> Iterator[bytes]:
        collection = snapshot.catalog.by_uuid(source.uuid)
        if collection is not None:
            for _, document in source.records(snapshot, collection):
                yield document

    async def catch_up(self) -> int:
        """Copy again what has changed; returns the number of documents."""
        for number, source in enumerate(self.sources):
            self._check_complete(number, source)
        changed, current, newest = await asyncio.to_thread(self._read_changes)
        ids = iter(changed)
        while some := list(islice(ids, _DOCUMENTS_AT_ONCE)):
            for store in self.targets.values():
                await store.write(partial(self._remove, some))
        await self._put(current, is_strict=True)
        self._left_out.clear()
        self._read_through = newest
        return len(changed)

    def _read_changes(self) -> tuple[set[bytes], list[bytes], dict[int, int]]:
        """The changed `_id`s, the current documents, and the time of each snapshot; runs in a thread."""
        with ExitStack() as snapshots:
            opened = [snapshots.enter_context(source.store.snapshot()) for source in self.sources]
            changed = set(self._left_out)
            for number, (source, snapshot) in enumerate(zip(self.sources, opened, strict=True)):
                changed |= changed_documents(snapshot, source.uuid, self._read_through[number])
            newest = {number: snapshot.newest_time() for number, snapshot in enumerate(opened)}
            return changed, list(self._current(changed, opened)), newest

    def _check_complete(self, number: int, source: Source) -> None:
        if source.store.truncated_through > self._read_through[number]:
            raise CommandError(
                ErrorCode.OperationFailed,
                "the oplog lost entries that were still to be copied; try again, or use a larger oplog",
            )

    def _current(self, changed: Iterable[bytes], opened: Sequence[Snapshot]) -> Iterator[bytes]:
        """The current documents with these `_id`s."""
        found = [
            (source, snapshot, collection)
            for source, snapshot in zip(self.sources, opened, strict=True)
            if (collection := snapshot.catalog.by_uuid(source.uuid)) is not None
        ]
        for key in changed:
            for source, snapshot, collection in found:
                record = snapshot.find_id(collection, key)
                if record is not None and source.includes(record[1]):
                    yield record[1]

    async def _put(self, documents: Iterable[bytes], *, is_strict: bool) -> None:
        waiting: dict[str, list[bytes]] = {name: [] for name in self.targets}
        sizes = dict.fromkeys(self.targets, 0)
        for document in documents:
            name = self.target_of(document)
            waiting[name].append(document)
            sizes[name] += len(document)
            if len(waiting[name]) == _DOCUMENTS_AT_ONCE or sizes[name] > _BYTES_AT_ONCE:
                await self._flush(name, waiting[name], is_strict=is_strict)
                waiting[name], sizes[name] = [], 0
        for name, some in waiting.items():
            if some:
                await self._flush(name, some, is_strict=is_strict)

    async def _flush(self, name: str, documents: list[bytes], *, is_strict: bool) -> None:
        insert = partial(self._insert, documents, is_strict=is_strict)
        self._left_out |= await self.targets[name].write(insert)
        self.documents += len(documents)

    # -- jobs on a target -----------------------------------------------------------------------------------

    def _insert(self, documents: Sequence[bytes], unit: WriteUnit, *, is_strict: bool) -> set[bytes]:
        """Insert documents; returns the `_id`s of conflicting ones, which ``is_strict`` does not allow.

        The first copies may be from different moments: a document that moved in between appears twice, and a
        unique key may have passed from one document to another. All of these have changed since, and are
        copied again.
        """
        unit.moves_data = True
        collection = self._collection(unit)
        left_out: set[bytes] = set()
        for document in documents:
            try:
                unit.insert(collection, document)
            except CommandError as error:
                key = collection.id_key(document)
                if is_strict or error.code != ErrorCode.DuplicateKey or key is None:
                    raise
                left_out.add(key)
        return left_out

    def _remove(self, ids: Sequence[bytes], unit: WriteUnit) -> None:
        unit.moves_data = True
        collection = self._collection(unit)
        for key in ids:
            record = unit.find_id(collection, key)
            if record is not None and self.is_copy(record[1]):
                unit.delete(collection, *record, grouped=True)

    def _collection(self, unit: WriteUnit) -> Collection:
        found = unit.catalog.by_uuid(self.uuid)
        if found is None:
            raise CommandError(
                ErrorCode.ConflictingOperationInProgress,
                "the collection was dropped while its documents were moved",
            )
        return found
