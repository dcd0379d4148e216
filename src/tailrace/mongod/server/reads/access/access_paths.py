"""Access paths to the documents of a collection: a scan, look-ups by `_id`, ranges of an index.

An access path returns records from a state of the store and stores its position, so that it can continue in a
later state. It returns at least the documents that match; unless it is exact, the query filters them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from tailrace.bson.documents import decode
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.reads.access.intervals import Interval
from tailrace.mongod.server.writes.timeseries import unpack_bucket
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.reader import Reader, Record
from tailrace.mongod.store.tables import LONGEST_EXACT_KEY
from tailrace.pacing import tick, ticking
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.sorting import Ordering


class AccessPath(ABC):
    """A way to read documents, usable once."""

    is_exact = False
    """Whether every record that it returns matches the query's filter."""
    is_ordered = False
    """Whether the records are in the order of the query's sort."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.keys_examined = 0
        self.documents_examined = 0

    @abstractmethod
    def records(self, reader: Reader) -> Iterator[Record]:
        """The records after those of the last call; the generator may be abandoned at any time."""

    @abstractmethod
    def describe(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """The stages that explain shows; ``query`` is the filter."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The plan in a few words."""

    @property
    def index_used(self) -> Index | None:
        """The index that is read; None if there is none."""
        return None

    def check(self, reader: Reader) -> None:
        """Raise QueryPlanKilled if the collection or index does not exist in a later state."""
        found = reader.catalog.by_uuid(self.collection.uuid)
        if found is None:
            raise CommandError(ErrorCode.QueryPlanKilled, f"collection dropped: {self.collection.ns}")
        if found.ns != self.collection.ns:
            reason = f"collection renamed from '{self.collection.ns}' to '{found.ns}'"
            raise CommandError(ErrorCode.QueryPlanKilled, reason)


class NoAccess(AccessPath):
    """The path of a query that cannot match anything."""

    is_exact = is_ordered = True

    def records(self, reader: Reader) -> Iterator[Record]:  # noqa: ARG002
        return iter(())

    def describe(self, query: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return {"stage": "EOF"}

    @property
    def summary(self) -> str:
        return "EOF"


class CollectionScan(AccessPath):
    """All records in natural order, or those between two record keys."""

    def __init__(
        self,
        collection: Collection,
        *,
        reverse: bool = False,
        after: bytes | None = None,
        stop: bytes | None = None,
        bounds: Mapping[str, Any] | None = None,
    ) -> None:
        """Read records after ``after`` up to ``stop``; in reverse, records below ``after`` down to ``stop``.

        ``bounds`` are for explain.
        """
        super().__init__(collection)
        self.reverse = reverse
        self.after = after
        """The last record key that was read, or the start; None at the beginning of the collection."""
        self.stop = stop
        self._bounds = bounds

    @property
    def is_whole(self) -> bool:
        """Whether it returns the stored documents unchanged, in natural order."""
        return not self.reverse

    @property
    def is_bounded(self) -> bool:
        """Whether it reads only a part of the collection."""
        return self._bounds is not None

    def records(self, reader: Reader) -> Iterator[Record]:
        stop, reverse = self.stop, self.reverse
        for record in reader.records(self.collection, self.after, reverse=reverse):
            key = record[0]
            if stop is not None and (key < stop if reverse else key > stop):
                return
            self.after = key
            self.documents_examined += 1
            yield record

    def describe(self, query: Mapping[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {"stage": self._stage}
        if query:
            shown["filter"] = dict(query)
        shown["direction"] = "backward" if self.reverse else "forward"
        return {**shown, **(self._bounds or {})}

    @property
    def summary(self) -> str:
        return self._stage

    @property
    def _stage(self) -> str:
        return "CLUSTERED_IXSCAN" if self._bounds and self.collection.is_clustered else "COLLSCAN"


class CappedScan(CollectionScan):
    """A scan of a capped collection: continuing at a record that was removed is an error."""

    def check(self, reader: Reader) -> None:
        super().check(reader)
        if not self.documents_examined or self.after is None:
            return
        if reader.record(self.collection, self.after) is None:
            reason = (
                "CollectionScan died due to position in capped collection being deleted. "
                f"Last seen record id: RecordId({int.from_bytes(self.after, 'big')})"
            )
            raise CommandError(ErrorCode.CappedPositionLost, reason)


class BucketScan(CollectionScan):
    """The measurements of a time-series collection, unpacked from their buckets."""

    def __init__(self, collection: Collection, *, reverse: bool = False) -> None:
        super().__init__(collection, reverse=reverse)
        self._held: Iterator[Record] = iter(())

    @property
    def is_whole(self) -> bool:
        return False

    def records(self, reader: Reader) -> Iterator[Record]:
        """All measurements of a bucket have its record key."""
        yield from self._held
        options = self.collection.options["timeseries"]
        for key, bucket in super().records(reader):
            measurements = unpack_bucket(options, bucket)
            if self.reverse:
                measurements.reverse()
            self._held = zip(repeat(key), measurements, strict=False)
            yield from self._held

    def describe(self, query: Mapping[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {"stage": "UNPACK_TS_BUCKET"}
        if query:
            shown["filter"] = dict(query)
        return {**shown, "inputStage": super().describe({})}


class IdLookup(AccessPath):
    """The document with one `_id`."""

    is_ordered = True

    def __init__(self, collection: Collection, id_key: bytes, *, is_exact: bool) -> None:
        super().__init__(collection)
        self._id_key: bytes | None = id_key
        self.is_exact = is_exact

    @property
    def index_used(self) -> Index | None:
        return self.collection.id_index

    def records(self, reader: Reader) -> Iterator[Record]:
        id_key, self._id_key = self._id_key, None
        found = None if id_key is None else reader.find_id(self.collection, id_key)
        if found is not None:
            self.keys_examined += 1
            self.documents_examined += 1
            yield found

    def describe(self, query: Mapping[str, Any]) -> dict[str, Any]:
        if self.collection.is_clustered:
            return {"stage": "EXPRESS_CLUSTERED_IXSCAN", "keyPattern": "{ _id: 1 }"}
        shown: dict[str, Any] = {
            "stage": "EXPRESS_IXSCAN",
            "keyPattern": "{ _id: 1 }",
            "indexName": "_id_",
        }
        return shown if self.is_exact else {"stage": "FETCH", "filter": dict(query), "inputStage": shown}

    @property
    def summary(self) -> str:
        kind = "EXPRESS_CLUSTERED_IXSCAN" if self.collection.is_clustered else "EXPRESS_IXSCAN"
        return f"{kind} {{ _id: 1 }}"


class IndexScan(AccessPath):
    """Ranges of one index, one after another."""

    def __init__(
        self,
        collection: Collection,
        index: Index,
        ranges: Sequence[tuple[bytes, bytes]],
        *,
        reverse: bool = False,
        is_multikey: bool = True,
        bounds: Mapping[str, Sequence[Interval]] | None = None,
        ordering: Ordering | None = None,
        before: bytes | None = None,
    ) -> None:
        """``ranges`` ascend; ``ordering`` is the query's sort, if the index has to produce it.

        ``before`` is an index key that ends the scan and is excluded.
        """
        super().__init__(collection)
        self.index = index
        self.reverse = reverse
        self.is_ordered = ordering is not None
        self._ranges = list(reversed(ranges)) if reverse else list(ranges)
        self._is_multikey = is_multikey
        self._bounds = bounds or {}
        self._ordering = ordering
        self._before = before
        self._after: bytes | None = None
        self._seen: set[bytes] = set()
        self._run: list[Record] = []
        self._run_beginning = b""
        self._held: Iterator[Record] = iter(())
        self._has_arrays = _array_finder([path for path, _ in index.key])

    @property
    def is_bounded(self) -> bool:
        """Whether it reads only a part of the index."""
        return bool(self._bounds)

    @property
    def index_used(self) -> Index | None:
        return self.index

    def check(self, reader: Reader) -> None:
        super().check(reader)
        collection = reader.catalog.by_uuid(self.collection.uuid)
        if collection is None or all(index.ident != self.index.ident for index in collection.indexes):
            raise CommandError(ErrorCode.QueryPlanKilled, f"index '{self.index.name}' dropped")

    def records(self, reader: Reader) -> Iterator[Record]:
        return self._ordered(reader) if self._ordering is not None else self._unordered(reader)

    def _unordered(self, reader: Reader) -> Iterator[Record]:
        for _, record in self._entries(reader):
            yield record

    def _entries(self, reader: Reader) -> Iterator[tuple[bytes, Record]]:
        while self._ranges:
            tick()
            lower, upper = self._ranges[0]
            entries = reader.index_entries(
                self.collection, self.index, lower, upper, after=self._after, reverse=self.reverse
            )
            for position, key in entries:
                if self._before is not None and position >= self._before:
                    if self.reverse:
                        continue
                    break
                self._after = position
                self.keys_examined += 1
                document = reader.record(self.collection, key)
                if document is not None and not self._is_repeated(key, document):
                    self.documents_examined += 1
                    yield position, (key, document)
            del self._ranges[0]
            self._after = None

    def _is_repeated(self, key: bytes, document: bytes) -> bool:
        """Whether the document was returned before, which needs an array in an indexed path."""
        if not self._is_multikey or not self._has_arrays(document):
            return False
        if key in self._seen:
            return True
        self._seen.add(key)
        return False

    def _ordered(self, reader: Reader) -> Iterator[Record]:
        """The records, with runs of truncated keys sorted."""
        yield from self._held
        for position, record in self._entries(reader):
            # Truncated keys with the same beginning may be in any order.
            is_cut = len(position) > LONGEST_EXACT_KEY
            if self._run and not (is_cut and position.startswith(self._run_beginning)):
                self._held = chain(self._sorted(self._run), () if is_cut else (record,))
                self._run = [record] if is_cut else []
                self._run_beginning = position[:LONGEST_EXACT_KEY]
                yield from self._held
            elif is_cut:
                self._run.append(record)
                self._run_beginning = position[:LONGEST_EXACT_KEY]
            else:
                yield record
        self._held, self._run = self._sorted(self._run), []
        yield from self._held

    def _sorted(self, run: list[Record]) -> Iterator[Record]:
        assert self._ordering is not None
        key_of = self._ordering.natural_key
        keyed = ((key_of(decode(record[1])), record) for record in ticking(run))
        return iter(in_order(keyed, reverse=self._ordering.is_reversed))

    def describe(self, query: Mapping[str, Any]) -> dict[str, Any]:
        spec = self.index.spec
        fetch: dict[str, Any] = {"stage": "FETCH"}
        if query:
            fetch["filter"] = dict(query)
        fetch["inputStage"] = {
            "stage": "IXSCAN",
            "keyPattern": dict(spec["key"]),
            "indexName": self.index.name,
            "isMultiKey": self._is_multikey and not self.index.is_id,
            "isUnique": self.index.unique,
            "isSparse": bool(spec.get("sparse")),
            "isPartial": "partialFilterExpression" in spec,
            "indexVersion": spec.get("v", 2),
            "direction": "backward" if self.reverse else "forward",
            "indexBounds": {
                path: [interval.text for interval in self._bounds.get(path, ())] or ["[MinKey, MaxKey]"]
                for path, _ in self.index.key
            },
        }
        return fetch

    @property
    def summary(self) -> str:
        return f"IXSCAN {shell(dict(self.index.key))}"


def _array_finder(paths: Sequence[str]) -> Callable[[bytes], bool]:
    """A function: whether one of the paths meets an array in a document."""
    split = [path.split(".") for path in paths]

    def has_array(raw: bytes) -> bool:
        document = decode(raw)
        for components in split:
            value: Any = document
            for name in components:
                value = value.get(name) if isinstance(value, dict) else None
                if isinstance(value, list):
                    return True
        return False

    return has_array
