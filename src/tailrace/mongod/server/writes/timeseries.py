"""Time-series collections: measurements, stored in buckets.

A bucket is a document of MongoDB's uncompressed form: columns of values by position. Each bucket written here
has a single measurement. `unpack_bucket` returns the measurements of a bucket with any number of them.

>>> from bson import DatetimeMS
>>> from tailrace.bson.documents import decode, encode
>>> options = {"timeField": "t", "metaField": "m", "bucketMaxSpanSeconds": 3600}
>>> measurement = encode({"_id": 1, "t": DatetimeMS(90_000), "m": "x", "v": 7})
>>> bucket = decode(bucket_of(options, measurement))
>>> bucket["control"]["min"]["t"], bucket["meta"], bucket["data"]["v"]
(DatetimeMS(60000), 'x', {'0': 7})
>>> [decode(found) for found in unpack_bucket(options, encode(bucket))]
[{'t': DatetimeMS(90000), 'm': 'x', '_id': 1, 'v': 7}]
"""

import itertools
import time
from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.indexes.index_values import INDEXED_ARRAY, IndexPaths

_ROUNDING_SECONDS: Final = {"seconds": 60, "minutes": 3600, "hours": 86_400}
_VERSION: Final = 1
_META: Final = b"meta"
_LIMIT: Final = "control.min."
_NOT_MEASURED: Final = ("meta", "control.", "data.")
_COMBINING: Final = ("$and", "$or", "$nor")
_numbers: Final = itertools.count(time.time_ns())
"""Ends of buckets' ids. Buckets are clustered by id, so that measurements of a time span stay in order."""


def bucket_of(options: Mapping[str, Any], measurement: bytes) -> bytes:
    """The bucket with one measurement; ``options`` are the collection's option `timeseries`."""
    time_field = options["timeField"].encode()
    meta_field = _meta_field(options)
    time = rawbson.field(measurement, time_field)
    if time is None or time[0] != rawbson.DATE:
        reason = f"'{options['timeField']}' must be present and contain a valid BSON UTC datetime value"
        raise CommandError(ErrorCode.BadValue, reason)
    rounded = _rounded(options, rawbson.INT64_LE.unpack(time[1])[0])
    least: list[bytes] = []
    greatest: list[bytes] = []
    columns: list[bytes] = []
    meta = b""
    for kind, name, start, end in rawbson.elements(measurement):
        value = measurement[start:end]
        if name == meta_field:
            meta = rawbson.element(kind, _META, value)
            continue
        same = rawbson.element(kind, name, value)
        is_time = name == time_field
        least.append(rawbson.element(kind, name, rawbson.INT64_LE.pack(rounded)) if is_time else same)
        greatest.append(same)
        column = rawbson.document(rawbson.element(kind, b"0", value))
        columns.append(rawbson.element(rawbson.DOCUMENT, name, column))
    seconds = (rounded // 1000) & 0xFFFFFFFF
    identity = seconds.to_bytes(4, "big") + next(_numbers).to_bytes(8, "big")
    control = rawbson.document(
        rawbson.element(rawbson.INT32, b"version", rawbson.INT32_LE.pack(_VERSION)),
        rawbson.element(rawbson.DOCUMENT, b"min", rawbson.document(*least)),
        rawbson.element(rawbson.DOCUMENT, b"max", rawbson.document(*greatest)),
    )
    return rawbson.document(
        rawbson.element(rawbson.OBJECT_ID, b"_id", identity),
        rawbson.element(rawbson.DOCUMENT, b"control", control),
        meta,
        rawbson.element(rawbson.DOCUMENT, b"data", rawbson.document(*columns)),
    )


def check_indexed(collection: Collection, measurement: bytes) -> None:
    """Refuse an array in a field that an index has, other than the metadata."""
    limits = [path.removeprefix(_LIMIT) for index in collection.indexes for path, _ in index.key]
    if not limits:
        return
    found = decode(measurement)
    paths = IndexPaths(list(dict.fromkeys(path for path in limits if not path.startswith(_NOT_MEASURED))))
    if paths.meet_array(found):
        raise CommandError(INDEXED_ARRAY, "Indexed measurement field contains an array value")


def unpack_bucket(options: Mapping[str, Any], bucket: bytes) -> list[bytes]:
    """The measurements of a bucket: time first, then the metadata, then everything else."""
    time_field = options["timeField"].encode()
    meta_field = _meta_field(options)
    data = rawbson.subdocument(bucket, b"data") or rawbson.EMPTY
    rows: dict[bytes, list[bytes]] = {}
    times: dict[bytes, bytes] = {}
    for _, name, column, _ in rawbson.elements(data):
        for kind, row, start, end in rawbson.elements(data, column):
            item = rawbson.element(kind, name, data[start:end])
            if name == time_field:
                times[row] = item
            else:
                rows.setdefault(row, []).append(item)
    meta = rawbson.field(bucket, _META)
    shared = b"" if meta is None or meta_field is None else rawbson.element(meta[0], meta_field, meta[1])
    return [rawbson.document(time, shared, *rows.get(row, ())) for row, time in times.items()]


def only_measurement(options: Mapping[str, Any], bucket: bytes) -> bytes:
    """The measurement of a bucket that was written here; empty if it is no bucket."""
    return next(iter(unpack_bucket(options, bucket)), rawbson.EMPTY)


def check_update(options: Mapping[str, Any], spec: UpdateSpec) -> None:
    """Refuse updates of anything but the metadata of whole series, as MongoDB does."""
    meta_field = options.get("metaField")
    problem = None
    if spec.upsert:
        problem = "Cannot perform an upsert on a time-series collection"
    elif not spec.multi:
        problem = "Cannot perform a non-multi update on a time-series collection"
    elif not isinstance(spec.update, Mapping):
        problem = "Cannot perform an update on a time-series collection using a pipeline update"
    elif not all(operator.startswith("$") for operator in spec.update):
        problem = "Cannot perform an update on a time-series collection using a replacement document"
    elif meta_field is None:
        problem = "Cannot perform an update on a time-series collection that does not have a metaField"
    elif any(_root(path) != meta_field for path in _updated_paths(spec.update)):
        problem = (
            "Cannot perform an update on a time-series collection which updates a field that is not the "
            f"metaField '{meta_field}'"
        )
    if problem is not None:
        raise CommandError(ErrorCode.InvalidOptions, problem)
    _check_query(options, spec.query)


def check_delete(options: Mapping[str, Any], spec: DeleteSpec) -> None:
    """Refuse deletes of anything but whole series, as MongoDB did before 7.0."""
    if not spec.multi:
        raise CommandError(
            ErrorCode.IllegalOperation, "Cannot perform a non-multi delete on a time-series collection"
        )
    _check_query(options, spec.query)


def _check_query(options: Mapping[str, Any], query: Mapping[str, Any]) -> None:
    """Refuse a filter on anything but the metadata."""
    meta_field = options.get("metaField")
    for path, value in query.items():
        if path == "$expr":
            raise CommandError(
                ErrorCode.InvalidOptions,
                "Cannot use $expr when performing an update or delete on a time-series collection",
            )
        if path in _COMBINING and isinstance(value, list):
            for part in value:
                _check_query(options, part)
        elif not path.startswith("$") and _root(path) != meta_field:
            raise CommandError(
                ErrorCode.InvalidOptions,
                "Cannot perform an update or delete on a time-series collection when querying on a field "
                f"that is not the metaField '{meta_field}'",
            )


def with_meta(options: Mapping[str, Any], bucket: bytes, measurement: Mapping[str, Any]) -> bytes:
    """The bucket with the present metadata of its measurement."""
    encoded = encode({"meta": measurement.get(options["metaField"])})
    meta = rawbson.body(encoded) if options["metaField"] in measurement else b""
    parts: list[bytes] = []
    for kind, name, start, end in rawbson.elements(bucket):
        if name == b"data":
            parts.append(meta)
        if name != _META:
            parts.append(rawbson.element(kind, name, bucket[start:end]))
    return rawbson.document(*parts)


def _meta_field(options: Mapping[str, Any]) -> bytes | None:
    name = options.get("metaField")
    return None if name is None else name.encode()


def _rounded(options: Mapping[str, Any], milliseconds: int) -> int:
    """The start of a measurement's bucket."""
    seconds = options.get("bucketRoundingSeconds") or _ROUNDING_SECONDS[options.get("granularity", "seconds")]
    return milliseconds - milliseconds % (int(seconds) * 1000)


def _updated_paths(update: Mapping[str, Any]) -> list[str]:
    return [
        path
        for operator, paths in update.items()
        for path in (paths if operator.startswith("$") and isinstance(paths, Mapping) else (operator,))
    ]


def _root(path: str) -> str:
    return path.partition(".")[0]
