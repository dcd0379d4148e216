"""Spark's checkpoint beside the history: what it must not say.

The table decides where a pipeline goes on; a checkpoint that is missing, older, or damaged by a crash costs
nothing. One that is ahead means that batches were finished which this table does not hold: the table was
put back to an older state, or the checkpoint belongs to another one. Going on would hide a gap.
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.events.cluster_time import in_words
from tailrace.pipeline.history.offset import from_offset, shards_of


def settle(checkpoint: Path, held: int) -> bool:
    """Make sure that a checkpoint fits a table that holds everything through ``held``.

    Raises `UsageError` if it is ahead. False if it could not be used and was removed.
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
            f"history ends with {in_words(held)}; put back the history that belongs to it, or remove the "
            "checkpoint to go on where the history ends"
        )
    return True


def shards_before(checkpoint: Path) -> Mapping[str, Any]:
    """The shards that the newest batch knew which Spark has noted; none if there is no such batch."""
    for number in sorted(_numbers(checkpoint / "offsets"), reverse=True):
        with suppress(OSError, ValueError):
            return shards_of(_offset_of(checkpoint / "offsets" / str(number)))
    return {}


def _finished_through(checkpoint: Path) -> int:
    """The end of the newest batch that Spark has noted as finished; 0 if there is none."""
    finished = _numbers(checkpoint / "commits")
    planned = _numbers(checkpoint / "offsets")
    # What a crash may have cut off is the newest file; Spark reads that one first.
    ends = {number: _end_of(checkpoint / "offsets" / str(number)) for number in sorted(planned)[-2:]}
    return max((end for number, end in ends.items() if number in finished), default=0)


def _end_of(planned: Path) -> int:
    return from_offset(_offset_of(planned))


def _offset_of(planned: Path) -> Mapping[str, Any]:
    # The version, a line of metadata, then one line for each source of the query: there is one.
    lines = planned.read_text().splitlines()
    if len(lines) != 3:
        raise ValueError(f"{planned} does not have three lines")
    offset: Mapping[str, Any] = json.loads(lines[2])
    return offset


def _numbers(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    return {int(path.name) for path in folder.iterdir() if path.name.isdecimal()}
