"""A generated history: the oplog, the documents at every time, and the lookups of an engine.

The documents are stored with the oplog and not computed from it. So a history can decide whether the events
that the pipeline computes are right.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from bson import Timestamp

from tailrace.bson import keystring
from tailrace.bson import raw as rawbson
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_bytes import uuid_element
from tailrace.events.stages.lookups import Lookups

Documents = dict[str, dict[bytes, bytes]]
"""Namespace to key (see `identity`) to document."""
PreImageKey = tuple[bytes, int, int]
"""(collection UUID, timestamp of the containing entry, position in its applyOps array)"""


class Change(NamedTuple):
    """The change of one document from ``before`` to ``after``; None means no document."""

    timestamp: int
    """When it becomes visible: changes of a transaction have the time of its commit."""
    position: int
    """Position within its transaction or batch, 0 otherwise."""
    namespace: str
    key: bytes
    before: bytes | None
    after: bytes | None
    migrated: bool = False
    """Logged with `fromMigrate`: the document belongs to another shard."""
    is_write: bool = True
    """False if a drop, rename or other command removed or moved the document."""
    has_image: bool = False
    """Its collection records pre-images."""


def identity(raw: bytes) -> bytes:
    """The `_id` of a document or document key, equal for `_id`s that MongoDB considers equal.

    >>> from bson import Int64, encode
    >>> identity(encode({"_id": 1})) == identity(encode({"x": 2, "_id": Int64(1)}))
    True
    """
    found = rawbson.find(raw, b"_id")
    if found is None:
        raise ValueError("a document without _id")
    kind, _, start, end = found
    return keystring.encode(rawbson.document(rawbson.element(kind, b"", raw[start:end]))).data


@dataclass(frozen=True)
class History:
    """The result of `tests.support.workload.generate`."""

    seed: int
    entries: list[bytes]
    """The oplog in order of `ts`."""
    changes: list[Change]
    pre_images: dict[PreImageKey, bytes]
    """The content of `config.system.preimages`, by the parts of its `_id`."""
    image_times: dict[int, int] = field(repr=False)
    """Wall clock in milliseconds of the entries that have images."""

    @cached_property
    def timestamps(self) -> list[int]:
        return [timestamp_of(entry) for entry in self.entries]

    @cached_property
    def _by_timestamp(self) -> dict[int, bytes]:
        return dict(zip(self.timestamps, self.entries, strict=True))

    @property
    def start(self) -> Timestamp:
        """The time of the first entry."""
        return to_timestamp(self.timestamps[0])

    def documents_at(self, timestamp: int, *, migrated: bool = False) -> Documents:
        """Every collection as a reader sees it at ``timestamp``.

        ``migrated`` adds the documents of chunk migrations: a stream shows them only with
        `showMigrationEvents`. Empty collections are left out.
        """
        state: Documents = {}
        for change in self.changes:
            if change.timestamp > timestamp:
                break
            if change.migrated and not migrated:
                continue
            collection = state.setdefault(change.namespace, {})
            if change.after is None:
                collection.pop(change.key, None)
            else:
                collection[change.key] = change.after
        return {namespace: collection for namespace, collection in state.items() if collection}

    @cached_property
    def final_documents(self) -> Documents:
        """Every collection at the end."""
        return self.documents_at(self.timestamps[-1])

    @cached_property
    def namespaces(self) -> list[str]:
        """Every namespace that ever had a document, in order of appearance."""
        return list(dict.fromkeys(change.namespace for change in self.changes))

    # -- lookups of an engine ------------------------------------------------------------------------

    def entry(self, timestamp: int, term: int) -> bytes | None:
        """The entry with exactly this time and term."""
        found = self._by_timestamp.get(timestamp)
        return found if found is not None and _term_of(found) == term else None

    def entry_at(self, time: Timestamp) -> bytes:
        """The entry with this time."""
        return self._by_timestamp[(time.time << 32) + time.inc]

    def pre_image(self, uuid: bytes, timestamp: int, index: int) -> bytes | None:
        """The recorded document before a change."""
        return self.pre_images.get((uuid, timestamp, index))

    def document(self, namespace: str, document_key: bytes, uuid: bytes | None = None) -> bytes | None:
        """The document at the end of the history that has this document key (`_id` decides)."""
        del uuid  # a history's namespaces are looked up by name, as on a server without a UUID check
        return self.final_documents.get(namespace, {}).get(identity(document_key))

    def lookups(self) -> Lookups:
        """All lookups together."""
        return Lookups(self.entry, self.pre_image, self.document)

    def pre_image_documents(self) -> list[bytes]:
        """The content of `config.system.preimages`, as in a dump of that collection."""
        return [
            _pre_image_document(key, self.image_times[key[1]], image)
            for key, image in sorted(self.pre_images.items())
        ]

    # -- other shapes of the same history -----------------------------------------------------------

    def split(self, shards: int, seed: int = 0) -> list[list[bytes]]:
        """Distribute the oplog over several shards; each gets the first entry.

        A transaction's entries stay together: its chain is read from one oplog.
        """
        rng = random.Random(seed)
        logs: list[list[bytes]] = [[self.entries[0]] for _ in range(shards)]
        shard_of: dict[int, int] = {}
        for timestamp, entry in zip(self.timestamps[1:], self.entries[1:], strict=True):
            previous = _previous_of(entry)
            shard = shard_of.get(previous, -1) if previous else -1
            if shard < 0:
                shard = rng.randrange(shards)
            shard_of[timestamp] = shard
            logs[shard].append(entry)
        return logs


def timestamp_of(entry: bytes) -> int:
    """An entry's `ts`."""
    found = rawbson.find(entry, b"ts")
    if found is None:
        raise ValueError("an entry without ts")
    return int(rawbson.UINT64_LE.unpack_from(entry, found[2])[0])


def _term_of(entry: bytes) -> int:
    found = rawbson.find(entry, b"t")
    return int(rawbson.INT64_LE.unpack_from(entry, found[2])[0]) if found else -1


def _previous_of(entry: bytes) -> int:
    previous = rawbson.subdocument(entry, b"prevOpTime")
    return timestamp_of(previous) if previous else 0


def _pre_image_document(key: PreImageKey, wall: int, image: bytes) -> bytes:
    uuid, timestamp, index = key
    identifier = rawbson.document(
        uuid_element(b"nsUUID", uuid),
        rawbson.element(rawbson.TIMESTAMP, b"ts", rawbson.UINT64_LE.pack(timestamp)),
        rawbson.element(rawbson.INT64, b"applyOpsIndex", rawbson.INT64_LE.pack(index)),
    )
    return rawbson.document(
        rawbson.element(rawbson.DOCUMENT, b"_id", identifier),
        rawbson.element(rawbson.DATE, b"operationTime", rawbson.INT64_LE.pack(wall)),
        rawbson.element(rawbson.DOCUMENT, b"preImage", image),
    )


def dump(entries: Iterable[bytes]) -> bytes:
    """The entries as a `mongodump` file contains them: one after another."""
    return b"".join(entries)
