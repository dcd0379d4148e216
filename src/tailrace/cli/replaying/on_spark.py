"""Choose the engine of `tailrace replay`, and write the pieces that Spark computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.cli.output import EventFolder, EventLines
from tailrace.cli.replaying.arguments import STANDARD_INPUT, Definition
from tailrace.cli.replaying.progress import ShowProgress
from tailrace.cli.spark_needs import missing_for_spark, require_spark
from tailrace.errors import CommandError, DamagedInputError, UsageError
from tailrace.events.stages.plan import Plan
from tailrace.sources.archives.archive import ArchivedOplog
from tailrace.sources.archives.dumps import Dumps

LARGE: Final = 64 << 20
"""Bytes of plain BSON above which Spark is faster, its start included; measured on two cores."""


def chooses_spark(engine: str | None, oplogs: Mapping[str, ArchivedOplog], master: str | None = None) -> bool:
    """Whether Spark computes the events: because the user chose it, or because the input is large.

    Without the user's choice, this process reads what Spark cannot read at several places at once, and
    everything on a machine without Spark.
    """
    files = [file for oplog in oplogs.values() for file in oplog.files]
    once = next((file for file in files if str(file) == STANDARD_INPUT or not file.is_file()), None)
    if engine == "spark":
        require_spark(master)
        if once is not None:
            raise UsageError(
                f"{once} can only be read once, but Spark reads at several places; use --engine local"
            )
        return True
    if engine == "local" or once is not None:
        return False
    divisible = [file for file in files if file.name.lower().endswith(".bson")]
    return sum(file.stat().st_size for file in divisible) >= LARGE and missing_for_spark(master) is None


@dataclass(frozen=True)
class Remainder:
    """The part of a stream that this process computes after Spark has stopped early."""

    plan: Plan
    from_oldest: bool
    """Whether no event was written yet, so that the stream's start has to be checked as well."""


def replay_on_spark(
    master: str | None,
    definition: Definition,
    plan: Plan,
    shards: Mapping[str, Sequence[str]],
    dumps: Dumps,
    lines: EventLines | EventFolder,
    show_progress: ShowProgress,
) -> Remainder | None:
    """Write the events' lines; return what the engine in this process has to compute, None for nothing.

    That is the case after an error in the input or the stream: the other engine reports it in detail.
    """
    from tailrace.pipeline.replay import ReplayJob
    from tailrace.pipeline.streams.stream_spec import StreamSpec
    from tailrace.sources.archives.files import FilesSource
    from tailrace.spark.command_sessions import quiet_session
    from tailrace.spark.replay import replay_pieces

    everything = Remainder(plan, from_oldest=True)
    try:
        spec = StreamSpec.of(definition.scope, definition.spec, definition.pipeline, **definition.others)
        job = ReplayJob(FilesSource(shards, *_dumps_of(dumps)), spec, plan.variables)
        intervals = job.intervals()
    except (CommandError, DamagedInputError, UsageError):
        return everything
    if intervals is None:
        return everything
    entries = 0
    with quiet_session(master) as spark:
        for number, piece in enumerate(replay_pieces(spark, job, intervals), 1):
            if piece.has_failed:
                first = number == 1
                return Remainder(plan if first else job.plan(piece.interval), from_oldest=first)
            lines.write_lines(piece.lines)
            entries += piece.entries
            show_progress(job.source.size * number // len(intervals), entries)
            if piece.is_over:
                break
    return None


def _dumps_of(dumps: Dumps) -> tuple[dict[str | None, list[str]], dict[str, list[str]]]:
    """Pre-images by shard and documents by namespace."""
    images: dict[str | None, list[str]] = {}
    for dump in dumps.pre_images:
        for shard in dump.shards:
            images.setdefault(shard, []).append(dump.path)
    return images, {namespace: list(paths) for namespace, paths in dumps.documents.items()}
