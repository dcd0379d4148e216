"""Make what the tasks of a batch have built part of the table."""

from collections.abc import Sequence

from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.batches import BuiltPiece, in_order


def commit_pieces(table: HistoryTable, built: Sequence[BuiltPiece]) -> int | None:
    """Commit a batch; return its rows, or None if the table held it already.

    It may be called again with the same pieces, by any process: the interval is in the table once.
    """
    if not built:  # the planner has found the batch in the table
        return None
    ordered = in_order(built)
    files = [file for done in ordered for file in done.files]
    newest = {shard: mark for done in ordered for shard, mark in done.newest.items()}
    piece = built[0].piece
    after, through = piece.batch.after, piece.batch.through
    if not commit(table, files, after=after, through=through, newest=newest, shards=piece.membership):
        return None
    return sum(file.rows for file in files)
