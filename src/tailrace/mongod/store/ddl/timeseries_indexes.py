"""Indexes of time series: specified on measurements, stored on the buckets.

The catalog and the oplog have the specification on buckets. The client's specification is stored with it, in
`originalSpec`, unless it can be computed from the other: that is so for keys on the time and on metadata.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.collection_options import is_true
from tailrace.mongod.store.ddl.key_pattern import cannot_create, index_kind
from tailrace.mongod.store.ddl.partial_filter import parse_partial_filter
from tailrace.mongod.store.indexes.index_keys import is_descending

_ORIGINAL: Final = "originalSpec"
_META: Final = "meta"
_LIMIT: Final = ("control.min.", "control.max.")
_PARTIAL: Final = "partialFilterExpression"


def bucket_spec(collection: Collection, given: Mapping[str, Any]) -> dict[str, Any]:
    """The specification on buckets for an index that a client wants on measurements.

    >>> series = Collection("db", "c", b"", 20, {"timeseries": {"timeField": "t", "metaField": "m"}}, ())
    >>> bucket_spec(series, {"key": {"m.x": 1, "t": -1}, "name": "i"})["key"]
    {'meta.x': 1, 'control.max.t': -1, 'control.min.t': -1}
    """
    options = collection.options["timeseries"]
    is_measured = any(path != options["timeField"] and not _is_meta(options, path) for path in given["key"])
    spec = dict(given)
    for field, value in given.items():
        if field == "unique" and is_true(value):
            raise _unsupported("Unique indexes are not supported on time-series collections")
        if field == "expireAfterSeconds":
            raise _unsupported("TTL indexes are not supported on time-series collections")
        if field == "sparse" and is_measured:
            raise _unsupported("Sparse indexes are not supported on time-series measurements")
        if field == "key":
            spec["key"] = _bucket_key(options, value)
        elif field == _PARTIAL:
            spec[_PARTIAL] = _bucket_filter(options, given)
    return {**spec, _ORIGINAL: dict(given)} if is_measured or _PARTIAL in given else spec


def shown_spec(collection: Collection, index: Index) -> dict[str, Any]:
    """An index's specification as its client gave it, or of the buckets if they are asked for."""
    if not collection.is_timeseries:
        return dict(index.spec)
    if _ORIGINAL in index.spec:
        return dict(index.spec[_ORIGINAL])  # what collMod has changed since does not show in it
    options = collection.options["timeseries"]
    key: dict[str, Any] = {}
    for path, direction in index.spec["key"].items():
        if path == _META or path.startswith(f"{_META}."):
            key[str(options.get("metaField")) + path.removeprefix(_META)] = direction
        else:
            key[path.removeprefix(_LIMIT[0]).removeprefix(_LIMIT[1])] = direction
    return {**index.spec, "key": key}


def _is_meta(options: Mapping[str, Any], path: str) -> bool:
    meta = options.get("metaField")
    return meta is not None and (path == meta or path.startswith(f"{meta}."))


def _bucket_fields(options: Mapping[str, Any], path: str, direction: Any) -> dict[str, Any]:
    if _is_meta(options, path):
        return {_META + path.removeprefix(options["metaField"]): direction}
    if is_string(direction):
        if direction == "2dsphere" and path != options["timeField"]:
            return {f"data.{path}": "2dsphere_bucket"}
        raise cannot_create(
            "Invalid index spec for time-series collection: indexes on times and on measurements must be "
            f"ascending or descending (numbers only): {path}: {direction}"
        )
    names = reversed(_LIMIT) if is_descending(direction) else _LIMIT
    return {f"{limit}{path}": direction for limit in names}


def _bucket_key(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        raise cannot_create("Empty object is not a valid index spec")
    if index_kind(given) == "text":
        raise _unsupported("Text indexes are not supported on time-series collections")
    key: dict[str, Any] = {}
    for path, direction in given.items():
        key |= _bucket_fields(options, path, direction)
    return key


def _bucket_filter(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A filter on metadata, in terms of buckets."""
    partial = given[_PARTIAL]
    if not isinstance(partial, Mapping):
        raise CommandError(10065, f"invalid parameter: expected an object ({_PARTIAL})")
    if "collation" in given:
        raise CommandError(
            ErrorCode.IndexOptionsConflict,
            "On a time-series collection, partialFilterExpression and collation arguments are incompatible",
        )
    parse_partial_filter(partial)
    found: dict[str, Any] = {}
    for path, value in partial.items():
        if not _is_meta(options, path):
            raise _unsupported("a partial index of a time series can only have a filter on the metaField")
        renamed = _META + path.removeprefix(options["metaField"])
        is_operators = isinstance(value, Mapping) and any(name.startswith("$") for name in value)
        found[renamed] = value if is_operators else {"$eq": value}
    return found


def _unsupported(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)
