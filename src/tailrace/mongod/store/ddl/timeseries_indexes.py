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
from tailrace.mongod.store.ddl.index_spec import index_collation
from tailrace.mongod.store.ddl.key_pattern import cannot_create, index_kind
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
    kind = index_kind(given["key"])
    measured = [path for path in given["key"] if path != options["timeField"] and not _is_meta(options, path)]
    if given.get("unique"):
        raise _unsupported("Unique indexes are not supported on time-series collections")
    if "expireAfterSeconds" in given:
        raise _unsupported("TTL indexes are not supported on time-series collections")
    if kind == "text":
        raise _unsupported("Text indexes are not supported on time-series collections")
    key: dict[str, Any] = {}
    for path, direction in given["key"].items():
        key |= _bucket_fields(options, path, direction)
    if "sparse" in given and measured:
        raise _unsupported("Sparse indexes are not supported on time-series measurements")
    spec = {**given, "key": key}
    if _PARTIAL in given:
        if "collation" in given:
            raise CommandError(
                ErrorCode.IndexOptionsConflict,
                "On a time-series collection, partialFilterExpression and collation arguments are "
                "incompatible",
            )
        spec[_PARTIAL] = _bucket_filter(options, given[_PARTIAL])
    return {**spec, _ORIGINAL: _original(collection, given)} if measured or _PARTIAL in given else spec


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


def _original(collection: Collection, given: Mapping[str, Any]) -> dict[str, Any]:
    """The specification on measurements, with its version and its collation."""
    found = {name: value for name, value in given.items() if name != "collation"}
    found.setdefault("v", 2)
    collation = index_collation(collection, given)
    return found if collation is None else {**found, "collation": collation.to_document()}


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


def _bucket_filter(options: Mapping[str, Any], partial: Mapping[str, Any]) -> dict[str, Any]:
    """A filter on metadata, in terms of buckets."""
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
