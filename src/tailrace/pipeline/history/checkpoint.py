"""Find where a pipeline continues: open its table, and compare Spark's checkpoint with it.

The table decides. A checkpoint that is missing, older, or damaged by a crash costs nothing. One that is ahead
means that batches were finished which this table does not hold: the table was restored to an older state, or
the checkpoint belongs to another one. Continuing would hide a gap.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.events.cluster_time import in_words
from tailrace.events.stream_release import CURRENT_RELEASE
from tailrace.lake.commit import begin_later
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import EVERYTHING_KEPT
from tailrace.pipeline.history.kept import settle_kept
from tailrace.pipeline.history.offset import from_offset, shards_of
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.pipeline.history.timeline import check_timeline
from tailrace.places import is_object_store
from tailrace.sources.source import OplogSource


def open_table(
    source: OplogSource, settings: PipelineSettings, options: Mapping[str, str] | None = None
) -> HistoryTable:
    """Open the history of a source, or create it; `UsageError` if it cannot be continued from this source.

    ``options`` are those of the object store that it is in, by default what this process has.
    """
    path = settings.history
    table = HistoryTable.open(path, options) if HistoryTable.exists(path, options) else None
    # Older releases stored the shards in the checkpoint only.
    source.remember((table and table.shards) or _newest_shards(settings.checkpoint))
    identity, oldest = source.identity(), source.oldest()
    if table is None:
        if is_object_store(path):
            shutil.rmtree(settings.checkpoint, ignore_errors=True)  # of a history that was deleted there
        release = settings.release or source.release() or CURRENT_RELEASE
        return HistoryTable.create(
            path,
            identity=identity,
            begins=source.beginning(),
            release=release,
            kept=settings.kept or EVERYTHING_KEPT,
            options=options,
        )
    if settings.release is not None and settings.release.number != table.release.number:
        raise UsageError(
            f"the history {path} was created as one of release {table.release.version}, not of "
            f"{settings.release.version}; name the version where the history is read instead"
        )
    table.check_identity(identity)
    if oldest - 1 > table.through and begin_later(table, source.beginning()):
        # It was created and got nothing, and another member was elected, whose oplog begins later.
        shutil.rmtree(settings.checkpoint, ignore_errors=True)
    if oldest - 1 > table.through:
        raise UsageError(
            f"the history {path} ends with {in_words(table.through)} and the oplog of the source begins with "
            f"{in_words(oldest)}: the entries between are lost; name another directory for a history that "
            "begins now"
        )
    check_timeline(source, table)
    settle_kept(table, source, settings)
    return table


def settle(checkpoint: Path, held: int) -> bool:
    """Check that a checkpoint fits a table that holds everything through ``held``.

    Raises `UsageError` if it is ahead. Removes one that cannot be read and returns False.
    """
    if not checkpoint.exists():
        return True
    try:
        done = _finished_through(checkpoint)
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(checkpoint)
        return False
    if done > held:
        raise UsageError(
            f"the checkpoint and the history disagree: {checkpoint} has finished {in_words(done)}, the "
            f"history ends with {in_words(held)}; restore the history that belongs to it, or remove the "
            "checkpoint to continue where the history ends"
        )
    return True


def _newest_shards(checkpoint: Path) -> Mapping[str, Any]:
    """The shards in the newest offset that can be read."""
    for number in sorted(_numbers(checkpoint / "offsets"), reverse=True):
        with suppress(OSError, ValueError):
            return shards_of(_offset_of(checkpoint / "offsets" / str(number)))
    return {}


def _finished_through(checkpoint: Path) -> int:
    """The end of the newest finished batch; 0 if there is none."""
    finished = _numbers(checkpoint / "commits")
    planned = _numbers(checkpoint / "offsets")
    # A crash may have truncated the newest file; Spark reads that one first.
    ends = {number: _end_of(checkpoint / "offsets" / str(number)) for number in sorted(planned)[-2:]}
    return max((end for number, end in ends.items() if number in finished), default=0)


def _end_of(planned: Path) -> int:
    return from_offset(_offset_of(planned))


def _offset_of(planned: Path) -> Mapping[str, Any]:
    # The version, a line of metadata, then one line for each source of the query, which has one.
    lines = planned.read_text().splitlines()
    if len(lines) != 3:
        raise ValueError(f"{planned} does not have three lines")
    offset: Mapping[str, Any] = json.loads(lines[2])
    return offset


def _numbers(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    return {int(path.name) for path in folder.iterdir() if path.name.isdecimal()}
