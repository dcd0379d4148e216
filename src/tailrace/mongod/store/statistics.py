"""Sizes of collections and indexes."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.reader import Reader

PAGE: Final = 4096
_SAMPLE: Final = 200
_ABOVE_ALL_KEYS: Final = b"\xff"


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """The sizes of one collection, in bytes."""

    count: int
    size: int
    storage_size: int
    index_sizes: dict[str, int]

    @property
    def average_size(self) -> int:
        """Average bytes of a document."""
        return self.size // self.count if self.count else 0

    @property
    def total_index_size(self) -> int:
        return sum(self.index_sizes.values())


def collection_statistics(reader: Reader, collection: Collection) -> CollectionStatistics:
    """The sizes of a collection as of a state."""
    count, size = reader.count(collection)
    sizes = {index.name: _index_size(reader, collection, index, count) for index in collection.indexes}
    return CollectionStatistics(count, size, in_pages(size), sizes)


def in_pages(size: int) -> int:
    """The bytes that ``size`` bytes take on disk; an empty collection has one page.

    >>> in_pages(0), in_pages(5000)
    (4096, 8192)
    """
    return max(1, -(-size // PAGE)) * PAGE


def _index_size(reader: Reader, collection: Collection, index: Index, count: int) -> int:
    """Estimated from the first keys: key sizes are not counted, and reading all keys takes too long."""
    sample = list(islice(reader.index_entries(collection, index, b"", _ABOVE_ALL_KEYS), _SAMPLE))
    if not sample:
        return PAGE
    average = sum(len(index.prefix) + len(key) + len(record) for key, record in sample) / len(sample)
    number = len(sample) if len(sample) < _SAMPLE else max(count, len(sample))
    return in_pages(int(average * number))
