"""The statistics in a table's log, for many files at once; `AddedFile` has the same for one.

They are a JSON document for each file: the number of rows, and the least and greatest `token`, `cluster_time`
and `wall_time`.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tailrace.lake.files.file_columns import packed_tokens, times_of_tokens, token_text

_MOMENT: Final = pa.timestamp("ms", tz="UTC")
_VALUES: Final = pa.struct([("token", pa.string()), ("wall_time", _MOMENT)])
_STATISTICS: Final = pa.schema([
    ("numRecords", pa.int64()),
    ("minValues", _VALUES),
    ("maxValues", _VALUES),
    ("nullCount", pa.struct([("wall_time", pa.int64())])),
])  # fmt: skip
_LONGEST: Final = 1 << 28
"""More than the documents of one call have together: Arrow reads them in one piece"""


def parsed_statistics(texts: pa.StringArray) -> dict[str, pa.Array]:
    """The columns of `FILE_COLUMNS` that are in statistics; `ValueError` if they are not Tailrace's."""
    if texts.null_count:
        raise ValueError("a file has no statistics")
    lines = pc.binary_join_element_wise(texts, "", "\n")
    found = pj.read_json(
        pa.BufferReader(_values(lines)),
        read_options=pj.ReadOptions(use_threads=False, block_size=_LONGEST),
        parse_options=pj.ParseOptions(explicit_schema=_STATISTICS, unexpected_field_behavior="ignore"),
    ).combine_chunks()
    if found.num_rows != len(texts):
        raise ValueError("a file has no statistics")
    least, greatest = _only(found["minValues"]), _only(found["maxValues"])
    missing = _only(found["nullCount"]).field("wall_time")
    columns = {"rows": _only(found["numRecords"]), "walls_missing": pc.fill_null(missing, 0)}
    for name, values in (("first", least), ("last", greatest)):
        if values.field("token").null_count:
            raise ValueError("a file has no range of tokens")
        tokens = packed_tokens(values.field("token"))
        columns[f"{name}_token"] = tokens
        columns[f"{name}_time"] = pa.array(times_of_tokens(tokens))
        columns[f"{name}_wall"] = values.field("wall_time").cast(pa.int64())
    return columns


def statistics_texts(files: pa.RecordBatch) -> pa.StringArray:
    """The statistics of files, from their columns."""
    has_wall = pc.and_(pc.is_valid(files["first_wall"]), pc.is_valid(files["last_wall"]))
    return _text(
        '{"numRecords": ', files["rows"].cast(pa.string()),
        ', "minValues": ', *_range(files, "first", has_wall),
        ', "maxValues": ', *_range(files, "last", has_wall),
        ', "nullCount": {"token": 0, "cluster_time": 0, "wall_time": ',
        files["walls_missing"].cast(pa.string()), "}}",
    )  # fmt: skip


def _range(files: pa.RecordBatch, name: str, has_wall: pa.Array) -> Sequence[Any]:
    seconds = files[f"{name}_time"].to_numpy() >> np.uint64(32)
    wall = _text(', "wall_time": "', _moments(files[f"{name}_wall"]), '"')
    return (
        '{"token": "', token_text(files[f"{name}_token"]),
        '", "cluster_time": "', _moments(pa.array(seconds.astype(np.int64) * 1000)), '"',
        pc.if_else(has_wall, wall, ""), "}",
    )  # fmt: skip


def _moments(milliseconds: pa.Array) -> pa.Array:
    """Milliseconds since 1970 as dates in ISO 8601."""
    text = milliseconds.cast(pa.timestamp("ms")).cast(pa.string())
    return _text(pc.replace_substring(text, " ", "T"), "Z")


def _text(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _only(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _values(array: pa.StringArray) -> pa.Buffer:
    """The characters of all values of an array that begins where its buffer does."""
    return array.buffers()[2]
