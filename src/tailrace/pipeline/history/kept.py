"""Compare the namespaces that a history keeps with those it is asked to keep, and let it keep more."""

from typing import Final
from uuid import uuid4

from tailrace.errors import HistoryError, UsageError
from tailrace.events.interval import Interval
from tailrace.lake.commit import keep_more
from tailrace.lake.data_file import AddedFile
from tailrace.lake.table import HistoryTable
from tailrace.lake.writer import write_files
from tailrace.namespaces import NamespaceChoice
from tailrace.pipeline.history.build import shared_rows
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.source import OplogSource

_ATTEMPTS: Final = 5


def settle_kept(table: HistoryTable, source: OplogSource, settings: PipelineSettings) -> None:
    """Let a history keep what the settings name, if that is more than before.

    Raises `UsageError` if it is less or something else: the history would have gaps that nothing shows.
    """
    wanted, kept = settings.kept, table.kept.now
    if wanted is None or wanted == kept:
        if settings.backfill:
            raise UsageError("--backfill is for a history that keeps more than before; name it with --ns")
        return
    if not kept.is_within(wanted):
        raise UsageError(
            f"the history {table.place} keeps {kept}, and cannot keep {wanted}, which may be less; name all "
            "that it keeps and more, or another directory for a history that begins now"
        )
    for _ in range(_ATTEMPTS):
        table.refresh()
        if _widen(table, source, wanted, backfill=settings.backfill):
            return
    raise HistoryError(f"another pipeline writes to the history in {table.place}; stop one of them")


def _widen(table: HistoryTable, source: OplogSource, wanted: NamespaceChoice, *, backfill: bool) -> bool:
    if not backfill:
        return keep_more(table, wanted, since=table.through)
    since, replaced = _replaceable(table, source.beginning())
    added = _rebuilt(table, source, Interval(since, table.through), wanted)
    return keep_more(table, wanted, since=since, added=added, removed=replaced)


def _replaceable(table: HistoryTable, oldest: int) -> tuple[int, list[AddedFile]]:
    """The files whose rows the oplog still has, and the cluster time after which they begin."""
    since = max(oldest, table.begins)
    files: list[AddedFile] = []
    for file in table.files.between(since, table.through):
        if file.first_time <= since:
            since = file.last_time
        else:
            files.append(file)
    return since, files


def _rebuilt(
    table: HistoryTable, source: OplogSource, interval: Interval, kept: NamespaceChoice
) -> list[AddedFile]:
    if interval.through <= interval.after:
        return []
    rows = shared_rows(source, interval.after, interval.through, kept=kept)
    return write_files(table.store, rows, name=f"{interval.name}-{uuid4().hex}")
