"""The data files of one version of a table, in order, as blocks of columns.

A list never changes. The list of the next version shares its blocks with it, so what a commit costs does not
depend on how many files there are: new files are a new block, and neighbours of about the same size are
joined, so that there are few small ones.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.lake.data_file import AddedFile
from tailrace.lake.files.file_columns import FILE_COLUMNS, columns_of, files_of, joined, numbers

_BLOCK_FILES: Final = 16_384


class FileOrderError(ValueError):
    """Files whose cluster times overlap."""


class _Block:
    """Files that are neighbours; at least one."""

    def __init__(self, columns: pa.RecordBatch) -> None:
        self.columns = columns
        self.first_times = numbers(columns, "first_time")
        self.last_times = numbers(columns, "last_time")
        self.begins = int(self.first_times[0])
        self.ends = int(self.last_times[-1])

    def __len__(self) -> int:
        return len(self.first_times)

    def check_order(self) -> None:
        if (self.last_times[:-1] >= self.first_times[1:]).any():
            raise FileOrderError

    def between(self, start: int, stop: int) -> "_Block":
        return _Block(self.columns.slice(start, stop - start))


class FileList(Sequence[AddedFile]):
    """Files in the order of their rows."""

    def __init__(self, blocks: Iterable[_Block] = ()) -> None:
        self._blocks = tuple(blocks)
        self._starts = [0, *accumulate(map(len, self._blocks))]
        self._begins = [block.begins for block in self._blocks]
        self._ends = [block.ends for block in self._blocks]

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> "FileList":
        """Files in any order, as columns; raise `FileOrderError` if they overlap."""
        found = [batch for batch in batches if batch.num_rows]
        try:
            return cls(_checked([_Block(batch) for batch in found]))
        except FileOrderError:  # those of a checkpoint of `deltalake` have no order
            table = pa.Table.from_batches(found).sort_by("first_time").combine_chunks()
            return cls(_checked([_Block(batch) for batch in table.to_batches(max_chunksize=_BLOCK_FILES)]))

    def changed(self, removed: Collection[str], added: Sequence[AddedFile]) -> "FileList":
        """Without the files of some paths, and with others; raise `FileOrderError` if files overlap.

        Paths that are not in the list are ignored.
        """
        blocks = list(self._blocks)
        if removed:
            blocks = _without(blocks, set(removed))
        ordered = sorted(added, key=lambda file: file.first_token)
        if ordered and (not blocks or ordered[0].first_time > blocks[-1].ends):
            blocks.append(_Block(columns_of(ordered)))
            blocks[-1].check_order()
        else:
            for file in ordered:
                _insert(blocks, _Block(columns_of([file])))
        return FileList(_with_few_small(_seams_checked(blocks)))

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[AddedFile]:
        for block in self._blocks:
            yield from files_of(block.columns)

    @overload
    def __getitem__(self, index: int) -> AddedFile: ...

    @overload
    def __getitem__(self, index: slice) -> "FileList": ...

    def __getitem__(self, index: int | slice) -> "AddedFile | FileList":
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError("files are taken in their order")
            return self._slice(start, stop)
        place = range(len(self))[index]
        number = bisect_right(self._starts, place) - 1
        return next(files_of(self._blocks[number].columns.slice(place - self._starts[number], 1)))

    def _slice(self, start: int, stop: int) -> "FileList":
        parts = []
        for block, begin in zip(self._blocks, self._starts, strict=False):
            first, last = max(start - begin, 0), min(stop - begin, len(block))
            if first < last:
                parts.append(block if last - first == len(block) else block.between(first, last))
        return FileList(parts)

    def position_after(self, time: int) -> int:
        """The position of the first file with rows after a cluster time."""
        number = bisect_right(self._ends, time)
        if number == len(self._blocks):
            return len(self)
        return self._starts[number] + int(
            np.searchsorted(self._blocks[number].last_times, np.uint64(max(time, 0)), "right")
        )

    def between(self, after: int, through: int) -> "FileList":
        """The files with rows after a cluster time and up to another one."""
        return self._slice(self.position_after(after), self._count_through(through))

    def _count_through(self, time: int) -> int:
        """How many files begin at a cluster time or before it."""
        number = bisect_right(self._begins, time) - 1
        if number < 0:
            return 0
        first_times = self._blocks[number].first_times
        return self._starts[number] + int(np.searchsorted(first_times, np.uint64(time), "right"))

    def where(self, is_wanted: Callable[[pa.RecordBatch], Any]) -> "FileList":
        """The files that a condition on columns accepts."""
        found = (block.columns.filter(is_wanted(block.columns)) for block in self._blocks)
        return FileList(_Block(batch) for batch in found if batch.num_rows)

    def __reduce__(self) -> Any:
        """Pickle the columns without what else is in the memory of their blocks."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, FILE_COLUMNS) as writer:
            for block in self._blocks:
                writer.write_batch(block.columns)
        return _unpickled, (stream.getvalue().to_pybytes(),)

    def batches(self) -> list[pa.RecordBatch]:
        """The columns of all files (`FILE_COLUMNS`), in pieces."""
        return [block.columns for block in self._blocks]

    def column(self, name: str) -> Any:
        """One column of numbers without nulls."""
        if not self._blocks:
            return np.zeros(0, np.int64)
        return np.concatenate([numbers(block.columns, name) for block in self._blocks])

    @cached_property
    def size(self) -> int:
        """Bytes of all files together."""
        return self._sum("size")

    @cached_property
    def rows(self) -> int:
        """Rows of all files together."""
        return self._sum("rows")

    def _sum(self, name: str) -> int:
        return sum(int(numbers(block.columns, name).sum()) for block in self._blocks)

    def holds(self, paths: Collection[str]) -> bool:
        """Whether all these files are in the list."""
        left = set(paths)
        for block in reversed(self._blocks):
            if not left:
                return True
            found = _found(block, left)
            left.difference_update(block.columns.column("path").filter(found).to_pylist())
        return not left

    def others(self, paths: Sequence[str]) -> set[str]:
        """The paths that are not in the list."""
        held = pa.chunked_array([block.columns.column("path") for block in self._blocks], pa.string())
        names = pa.array(paths, pa.string())
        return set(names.filter(pc.invert(pc.is_in(names, value_set=held))).to_pylist())


def _unpickled(content: bytes) -> FileList:
    return FileList.of(pa.ipc.open_stream(content))


def _checked(blocks: list[_Block]) -> list[_Block]:
    for block in blocks:
        block.check_order()
    return _seams_checked(blocks)


def _seams_checked(blocks: list[_Block]) -> list[_Block]:
    if any(one.ends >= other.begins for one, other in pairwise(blocks)):
        raise FileOrderError
    return blocks


def _without(blocks: list[_Block], removed: set[str]) -> list[_Block]:
    """The blocks without some files; what is removed is mostly new, or the oldest."""
    left: list[_Block] = []
    missing = len(removed)
    for block in reversed(blocks):
        if missing:
            found = _found(block, removed)
            if count := found.true_count:
                missing -= count
                if count < len(block):
                    left.append(_Block(block.columns.filter(pc.invert(found))))
                continue
        left.append(block)
    return left[::-1]


def _found(block: _Block, paths: set[str]) -> Any:
    return pc.is_in(block.columns.column("path"), value_set=pa.array(list(paths), pa.string()))


def _insert(blocks: list[_Block], file: _Block) -> None:
    """Put one file in its place, which may be inside of a block."""
    number = bisect_right(blocks, file.begins, key=lambda block: block.ends)
    if number == len(blocks):
        blocks.append(file)
        return
    block = blocks[number]
    place = int(np.searchsorted(block.first_times, np.uint64(file.begins), "right"))
    parts = [block.between(0, place)] if place else []
    parts.append(file)
    if place < len(block):
        parts.append(block.between(place, len(block)))
    blocks[number : number + 1] = parts


def _with_few_small(blocks: list[_Block]) -> list[_Block]:
    """Join a block with the one before it unless that is much larger: each file is copied a few times."""
    kept: list[_Block] = []
    for block in blocks:
        kept.append(block)
        while (
            len(kept) > 1
            and len(kept[-2]) <= 2 * len(kept[-1])
            and len(kept[-2]) + len(kept[-1]) <= _BLOCK_FILES
        ):
            last = kept.pop()
            kept[-1] = _Block(joined((kept[-1].columns, last.columns)))
    return kept
