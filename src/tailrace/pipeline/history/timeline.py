"""Notice a source that no longer is what its history was built from."""

from tailrace.errors import HistoryError
from tailrace.events.cluster_time import in_words
from tailrace.lake.table import HistoryTable
from tailrace.sources.source import OplogSource


def check_timeline(source: OplogSource, table: HistoryTable) -> None:
    """Raise `HistoryError` if the source does not go on after the newest entry that a history was built from.

    Times alone do not show that: a deployment that was restored from a backup writes at later times again.
    """
    for shard in source.shards():
        mark = table.newest_entry(shard)
        if mark is not None and source.has_diverged(shard, mark):
            where = f" of the shard {shard}" if shard else ""
            raise HistoryError(
                f"the oplog{where} no longer has the entry of {in_words(mark.time)}, term {mark.term}, up to "
                f"which the history {table.place} was built: the deployment was restored from a backup; "
                "restore the history of that time, or name another directory for a history that begins now"
            )
