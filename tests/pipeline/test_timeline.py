"""A history continues only if the source still has the newest entry that it was built from."""

from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.errors import HistoryError
from tailrace.events.interval import Interval
from tailrace.lake.commit import commit
from tailrace.lake.log_writer import CHECKPOINT_COMMITS, tidy_log
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.build import build
from tailrace.pipeline.history.checkpoint import open_table
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet


def extend(table: HistoryTable, source: DeploymentSource, *, marked: bool = True) -> None:
    interval = Interval(table.through, source.promised())
    built = build(source, interval, table.place)
    newest = built.newest if marked else None
    assert commit(table, built.files, after=interval.after, through=interval.through, newest=newest)


def test_the_newest_entry_of_a_history_is_checked(tmp_path: Path) -> None:
    settings = PipelineSettings(tmp_path / "history")
    with ReplicaSet() as rs, DeploymentSource(rs.uri) as source:
        orders = rs.client().shop.orders
        orders.insert_one({"_id": 1})
        table = open_table(source, settings)
        assert table.newest_entry("") is None
        extend(table, source, marked=False)  # as an older release does
        orders.insert_one({"_id": 2})
        table = open_table(source, settings)
        extend(table, source)
        mark = table.newest_entry("")
        assert mark is not None
        assert mark.time == table.through

        # The mark survives commits without entries, and checkpoints of the log.
        for _ in range(CHECKPOINT_COMMITS):
            assert commit(table, [], after=table.through, through=table.through + 1)
        assert tidy_log(table)
        assert HistoryTable.open(settings.history).newest_entry("") == mark
        assert open_table(source, settings).through == table.through

        for other in (
            replace(mark, digest=mark.digest ^ 1),
            replace(mark, term=mark.term + 1),
            replace(mark, time=mark.time - 1),
        ):
            assert commit(table, [], after=table.through, through=table.through + 1, newest={"": other})
            with pytest.raises(HistoryError, match="the deployment was restored from a backup; restore the"):
                open_table(source, settings)

        # An oplog that was truncated up to the end of the history still continues it.
        for number in range(3, 6):
            orders.insert_one({"_id": number})
        assert not source.has_diverged("", mark)
        rs.truncate_oplog()
        assert source.oldest() > mark.time
        assert not source.has_diverged("", mark)


def test_a_history_that_has_nothing_begins_with_what_the_source_has(tmp_path: Path) -> None:
    """The member that it was created from was killed, and the oplog of the next primary begins later."""
    settings = PipelineSettings(tmp_path / "history")
    with ReplicaSet() as rs, DeploymentSource(rs.uri) as source:
        assert open_table(source, settings).begins == 0
        rs.client().shop.orders.insert_one({"_id": 1})
        rs.truncate_oplog()
        rs.client().shop.orders.insert_one({"_id": 2})
        table = open_table(source, settings)
        assert table.begins == table.through == source.beginning() > 0
        extend(table, source)
        assert table.rows == 2
        rs.truncate_oplog()
        assert open_table(source, settings).begins == table.begins
