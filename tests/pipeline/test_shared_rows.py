"""Rows made slice by slice are those that the row builder makes of the merged events."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.events.stages.lookups import Lookups
from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import ENCODED
from tailrace.pipeline.history.build import SLICE_ENTRIES, shared_rows
from tailrace.sources.archives.files import FilesSource
from tests.support.history import History, dump
from tests.support.seeds import check_histories
from tests.support.shared_events import shared_events


class WithImages(FilesSource):
    """Archived files, with the pre-images that a history knows."""

    history: History

    def lookups(self, shard: str, after: int, through: int) -> Lookups:
        return replace(super().lookups(shard, after, through), pre_image=self.history.pre_image)


def files_of(history: History, folder: Path, shards: int) -> FilesSource:
    logs = [history.entries] if shards == 1 else history.split(shards, history.seed)
    names = [""] if shards == 1 else [f"shard{number}" for number in range(shards)]
    paths = {}
    for name, log in zip(names, logs, strict=True):
        path = folder / f"{history.seed}-{shards}-{name}.bson"
        path.write_bytes(dump(log))
        paths[name] = [str(path)]
    source = WithImages(paths)
    source.history = history
    return source


@pytest.mark.parametrize("slice_entries", [1, 7, SLICE_ENTRIES])
def test_rows_of_slices(slice_entries: int, tmp_path: Path) -> None:
    def law(history: History) -> None:
        for shards in (1, 3):
            source = files_of(history, tmp_path, shards)
            cuts = [0, history.timestamps[len(history.timestamps) // 3], source.promised()]
            for after, through in pairwise(cuts):
                events = [
                    event for some in shared_events(source, after, through, marks_end=True) for event in some
                ]
                expected = RowBuilder().batch(events)
                batches = shared_rows(source, after, through, slice_entries)
                found = pa.Table.from_batches(batches, ENCODED)
                assert found.to_pylist() == expected.to_pylist()

    check_histories(range(20_262_000, 20_262_015), law)
