"""Scans that never read a document: for counts, and for distinct values."""

from typing import Any

from bson import MaxKey, MinKey

from tailrace.mongod.server.reads.access.access_paths import AccessPath, IndexScan
from tailrace.mongod.server.reads.explained.bounds import IndexBounds, multikey_paths
from tailrace.mongod.server.reads.explained.plans import Access, Stage, index_fields
from tailrace.mongod.server.reads.requests.find_request import FindRequest
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.index_keys import is_descending
from tailrace.mongod.store.reader import Reader


def counting_scan(found: Access) -> Stage | None:
    """A scan between two keys of an index that finds exactly what is counted; None if there is none."""
    bounds, index = found.bounds, found.index
    if bounds is None or index is None or found.fetch_filter or bounds.excluded:
        return None
    ends = _ends(bounds, index)
    if ends is None:
        return None
    fields = {name: value for name, value in found.scan.fields.items() if name != "direction"}
    return Stage("COUNT_SCAN", fields | {"indexBounds": ends})


def _ends(bounds: IndexBounds, index: Index) -> dict[str, Any] | None:
    start: dict[str, Any] = {}
    end: dict[str, Any] = {}
    includes_start = includes_end = True
    is_open = False
    low: Any
    high: Any
    for path, direction in index.key:
        field = bounds.fields.get(path)
        if field is None:
            low, high = MinKey(), MaxKey()
            with_low = with_high = True
            is_open = True
        elif is_open or len(field.intervals) != 1:
            return None
        else:
            (interval,) = field.intervals
            low, high = interval.least, interval.greatest
            with_low, with_high = interval.has_lower, interval.has_upper
            if isinstance(low, str) or isinstance(high, str):
                return None  # the end of a type's values
            is_open = not interval.is_point
        if is_descending(direction):
            low, high, with_low, with_high = high, low, with_high, with_low
        start[path], end[path] = low, high
        includes_start, includes_end = includes_start and with_low, includes_end and with_high
    return {
        "startKey": start,
        "startKeyInclusive": includes_start,
        "endKey": end,
        "endKeyInclusive": includes_end,
    }


def distinct_scan(
    reader: Reader,
    collection: Collection,
    path: AccessPath | None,
    found: Access,
    request: FindRequest,
    key: str,
) -> Stage | None:
    """A scan for each value of an index once; None if documents have to be read."""
    if request.collation is not None or any(part.isdigit() for part in key.split(".")):
        return None
    if isinstance(path, IndexScan):
        is_first = next(iter(path.index.key))[0] == key
        return Stage("DISTINCT_SCAN", found.scan.fields) if is_first and not found.fetch_filter else None
    if request.query:
        return None
    for index in collection.indexes:
        is_whole = not any(index.spec.get(name) for name in ("sparse", "partialFilterExpression", "hidden"))
        is_plain = all(not isinstance(direction, str) for _, direction in index.key)
        if next(iter(index.key))[0] == key and is_whole and is_plain:
            arrays = multikey_paths(reader, collection, index)
            is_multikey = not index.is_id and (reader.is_multikey(index) or any(arrays.values()))
            fields = index_fields(index, is_multikey=is_multikey, arrays=arrays) | {"direction": "forward"}
            scan = IndexScan(collection, index, (), is_multikey=is_multikey)
            bounds = IndexBounds.of(index, {}, None, is_multikey=is_multikey)
            fields["indexBounds"] = bounds.shown(scan, undefined_is_null=False)
            return Stage("DISTINCT_SCAN", fields)
    return None
