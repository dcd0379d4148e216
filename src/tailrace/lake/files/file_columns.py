"""Data files of a table as columns: about 300 bytes for a file, and no object for each.

Tokens are stored as the bytes that their hex digits stand for.
"""

import binascii
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson.keystring.layout import TIMESTAMP
from tailrace.events.resume_token import cluster_time_of
from tailrace.lake.data_file import AddedFile
from tailrace.lake.schema import Times

Numbers: TypeAlias = npt.NDArray[np.int64]

FILE_COLUMNS: Final = pa.schema([
    pa.field("path", pa.string(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("rows", pa.int64(), nullable=False),
    pa.field("first_token", pa.binary(), nullable=False),
    pa.field("last_token", pa.binary(), nullable=False),
    pa.field("first_time", pa.uint64(), nullable=False),
    pa.field("last_time", pa.uint64(), nullable=False),
    pa.field("first_wall", pa.int64()),
    pa.field("last_wall", pa.int64()),
    pa.field("walls_missing", pa.int64(), nullable=False),
    pa.field("modified", pa.int64(), nullable=False),
    pa.field("commands", pa.int64()),
])  # fmt: skip
"""What `AddedFile` has, and the cluster times of the tokens"""

_COPIED: Final = ("path", "size", "rows", "first_wall", "last_wall", "walls_missing", "modified", "commands")
_TIME_BYTES: Final = 9
"""The type and the eight bytes of the cluster time that a token begins with"""
_OBJECTS_AT_ONCE: Final = 256


def columns_of(files: Sequence[AddedFile]) -> pa.RecordBatch:
    """Some files as columns."""
    arrays: dict[str, list[Any]] = {name: [getattr(file, name) for file in files] for name in _COPIED}
    for name in ("first", "last"):
        tokens = [getattr(file, f"{name}_token") for file in files]
        arrays[f"{name}_token"] = [bytes.fromhex(token) for token in tokens]
        arrays[f"{name}_time"] = [cluster_time_of(token) for token in tokens]
    return pa.RecordBatch.from_pydict(arrays, FILE_COLUMNS)


def files_of(batch: pa.RecordBatch) -> Iterator[AddedFile]:
    """The files of some columns, as objects."""
    for start in range(0, batch.num_rows, _OBJECTS_AT_ONCE):
        piece = batch.slice(start, _OBJECTS_AT_ONCE)
        columns = [piece.column(name).to_pylist() for name in _COPIED]
        tokens = [piece.column(name).to_pylist() for name in ("first_token", "last_token")]
        for *copied, first, last in zip(*columns, *tokens, strict=True):
            path, size, rows, first_wall, last_wall, walls_missing, modified, commands = copied
            yield AddedFile(
                path=path,
                size=size,
                rows=rows,
                first_token=first.hex().upper(),
                last_token=last.hex().upper(),
                first_wall=first_wall,
                last_wall=last_wall,
                walls_missing=walls_missing,
                modified=modified,
                commands=commands,
            )


def numbers(batch: pa.RecordBatch, name: str) -> Any:
    """A column of numbers without nulls, not copied."""
    return batch.column(name).to_numpy(zero_copy_only=True)


def packed_tokens(tokens: pa.StringArray) -> pa.BinaryArray:
    """The bytes of tokens; `ValueError` if one is not made of hex digits."""
    offsets, text = _content(tokens)
    if (offsets & 1).any():
        raise ValueError("a token has an odd number of digits")
    return _array(pa.binary(), offsets // 2, binascii.unhexlify(text))


def token_text(tokens: pa.BinaryArray) -> pa.StringArray:
    """Tokens as they are shown, from their bytes."""
    offsets, content = _content(tokens)
    return _array(pa.string(), offsets * 2, binascii.hexlify(content).upper())


def times_of_tokens(tokens: pa.BinaryArray) -> Times:
    """The cluster times that tokens begin with; `ValueError` if one begins with something else."""
    offsets, content = _content(tokens)
    if (np.diff(offsets) < _TIME_BYTES).any():
        raise ValueError("a token ends within its cluster time")
    heads = np.frombuffer(content, np.uint8)[offsets[:-1, np.newaxis] + np.arange(_TIME_BYTES)]
    if (heads[:, 0] != TIMESTAMP).any():
        raise ValueError("a token does not begin with a cluster time")
    times: Times = np.ascontiguousarray(heads[:, 1:]).view(">u8")[:, 0].astype(np.uint64)
    return times


def _content(array: pa.Array) -> tuple[npt.NDArray[np.int32], memoryview]:
    """Where the values begin and end, and their bytes, without what the array's buffers have besides."""
    _, places, content = array.buffers()
    offsets = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1]
    if not len(array) or content is None:
        return np.zeros(len(array) + 1, np.int32), memoryview(b"")
    return offsets - offsets[0], memoryview(content)[offsets[0] : offsets[-1]]


def _array(kind: pa.DataType, offsets: npt.NDArray[np.int32], content: bytes) -> Any:
    places = np.ascontiguousarray(offsets, np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, len(places) - 1, buffers)


def joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Columns one after another, copied."""
    return pa.concat_batches(list(batches))
