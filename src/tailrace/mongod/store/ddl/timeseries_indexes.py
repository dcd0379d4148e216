"""Indexes of time-series collections: specified on measurements, stored on the buckets.

The catalog and the oplog have the specification on buckets, with the client's in `originalSpec`; clients see
only the latter.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.ddl.key_pattern import index_kind
from tailrace.mongod.store.indexes.index_keys import is_descending

_ORIGINAL: Final = "originalSpec"
_NOT_SUPPORTED: Final = ("unique", "prepareUnique", "sparse", "expireAfterSeconds")
_KINDS: Final = (None, "2dsphere", "hashed")


def bucket_spec(collection: Collection, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification on buckets for an index on measurements.

    >>> series = Collection("db", "c", b"", 20, {"timeseries": {"timeField": "t", "metaField": "m"}}, ())
    >>> bucket_spec(series, {"v": 2, "key": {"m.x": 1, "t": -1}, "name": "i"})["key"]
    {'meta.x': 1, 'control.max.t': -1, 'control.min.t': -1}
    """
    for option in _NOT_SUPPORTED:
        if option in spec:
            raise _unsupported(f"the option '{option}'")
    kind = index_kind(spec["key"])
    if kind not in _KINDS:
        raise _unsupported(f"indexes of the kind '{kind}'")
    key: dict[str, Any] = {}
    for path, direction in spec["key"].items():
        key |= _bucket_fields(collection.options["timeseries"], path, direction)
    return {**spec, "key": key, _ORIGINAL: dict(spec)}


def shown_spec(index: Index) -> dict[str, Any]:
    """An index's specification as its client gave it."""
    return dict(index.spec.get(_ORIGINAL, index.spec))


def _bucket_fields(options: Mapping[str, Any], path: str, direction: Any) -> dict[str, Any]:
    meta = options.get("metaField")
    if meta is not None and (path == meta or path.startswith(f"{meta}.")):
        return {"meta" + path.removeprefix(meta): direction}
    if isinstance(direction, str):
        if direction == "2dsphere":
            return {f"data.{path}": "2dsphere_bucket"}
        raise _unsupported(f"a hashed index on the field '{path}', which is not the metaField,")
    names = ("max", "min") if is_descending(direction) else ("min", "max")
    return {f"control.{name}.{path}": direction for name in names}


def _unsupported(what: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, f"{what} is not supported on a time-series collection")
