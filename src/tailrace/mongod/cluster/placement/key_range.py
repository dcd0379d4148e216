"""A range of shard keys, and the documents in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.shard_key_index import supports_key
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.reader import Reader, Record


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range from ``lower`` (inclusive) to ``upper`` (exclusive); None means no end."""

    key: ShardKey
    lower: bytes
    upper: bytes | None

    @classmethod
    def between(cls, key: ShardKey, low: Mapping[str, Any], high: Mapping[str, Any]) -> "KeyRange":
        """The range of a chunk with these ends."""
        upper = key.bound(high)
        return cls(key, key.bound(low), None if upper == key.bound(key.greatest) else upper)

    def contains(self, document: bytes) -> bool:
        place = self.key.key_of(document)
        return self.lower <= place and (self.upper is None or place < self.upper)

    def overlaps(self, other: "KeyRange") -> bool:
        """Whether the ranges overlap."""
        return (other.upper is None or self.lower < other.upper) and (
            self.upper is None or other.lower < self.upper
        )

    def records(self, reader: Reader, collection: Collection) -> Iterator[Record]:
        """The documents of the range on one shard, each once, in the order of their keys."""
        index = self._index(collection)
        if index is None or reader.is_multikey(index):
            found = [
                (self.key.key_of(document), key)
                for key, document in reader.records(collection)
                if self.contains(document)
            ]
            for _, key in sorted(found):
                document = reader.record(collection, key)
                if document is not None:
                    yield key, document
            return
        end = self.key.bound(self.key.greatest) if self.upper is None else self.upper
        for record in reader.index_records(collection, index, self.lower, end):
            if self.contains(record[1]):
                yield record

    def _index(self, collection: Collection) -> Index | None:
        return next((index for index in collection.indexes if supports_key(self.key, index)), None)
