"""Plan a query that no job of ours supervises: on Spark Connect, in declarative pipelines, on platforms.

Its planner, a process that lives as long as the query, does what `HistoryJob` does elsewhere.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tailrace.pipeline.history.batches import BatchPlan, BatchPlanner, Piece
from tailrace.pipeline.history.checkpoint import open_table
from tailrace.pipeline.history.timeline import check_timeline
from tailrace.pipeline.history.upkeep import Upkeep


class UnattendedPlanner(BatchPlanner):
    """Opens the table, checks the source before each batch, and tidies the table."""

    def __init__(self, plan: BatchPlan, options: Mapping[str, str]) -> None:
        """``options`` are those of the table's object store."""
        self._table = open_table(plan.source, plan.settings, options)
        super().__init__(replace(plan, held=self._table.through, kept=self._table.kept.now))
        # At once: a query that takes what is there may end before the first pause does.
        self._upkeep = Upkeep(plan.settings, options=options, first_pause=0)
        self._upkeep.start()

    def pieces(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Piece]:
        self._table.refresh()
        check_timeline(self._plan.source, self._table)
        return super().pieces(start, end)

    def close(self) -> None:
        self._upkeep.stop()
        self._plan.source.close()
