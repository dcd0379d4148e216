"""A server with a history: which entries it retains, its statistics, and refusals."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.lake.commit import change_files, commit
from tailrace.lake.table import HistoryTable
from tailrace.testing.history_builder import HistoryBuilder
from tests.mongod.server.change_streams.stream_commands import drain, get_more, open_stream
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for


class Kept:
    """A server, a client, and the builder of the history."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "history"
        self.server = RunningServer(data=folder / "data", history=self.path, **options)
        self.client: MongoClient[Document] = self.server.client()
        self.database = self.client.shop
        self.builder = HistoryBuilder(self.server.server.store, self.path)

    def build(self) -> None:
        """Put everything into the history, and make the server read it."""
        self.builder.build()
        self.look()

    def look(self) -> None:
        history = self.server.server.history
        assert history is not None
        self.server.call(history.look())

    def times(self) -> list[Timestamp]:
        return [entry["ts"] for entry in self.server.oplog()]

    def status(self) -> Document:
        found: Document = self.client.admin.command("serverStatus")["history"]
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    started = Kept(tmp_path)
    yield started
    started.server.close()


def start_with(folder: Path, **options: Any) -> str:
    """The message with which a server refuses to start."""
    with pytest.raises(UsageError) as caught:
        RunningServer(data=folder / "data", history=folder / "history", **options)
    return str(caught.value)


class TestTruncation:
    def test_entries_are_retained_until_they_are_in_the_history(self, kept: Kept) -> None:
        kept.database.c.insert_many([{"_id": 1}, {"_id": 2}])
        before = kept.times()
        kept.server.truncate_oplog()
        assert kept.times() == before
        kept.build()
        kept.database.c.insert_one({"_id": 3})
        kept.server.truncate_oplog()
        assert kept.times()[0] == kept.status()["through"]
        assert len(kept.times()) == 2

    def test_a_full_oplog_grows_while_the_history_lags(self, tmp_path: Path) -> None:
        kept = Kept(tmp_path, oplog_bytes=1 << 16)
        try:
            for number in range(30):
                kept.database.c.insert_one({"_id": number, "x": "y" * 5000})
            size = sum(len(entry["o"]["x"]) for entry in kept.server.oplog() if entry["op"] == "i")
            assert size == 30 * 5000
            before = kept.times()
            kept.server.restart()
            assert kept.times()[: len(before)] == before
            kept.builder = HistoryBuilder(kept.server.server.store, kept.path)
            kept.server.advance_clock(1)
            kept.server.advance_clock(1)
            assert sum("the history lags" in message for message in kept.server.messages()) == 1
            kept.build()
            kept.database.c.insert_one({"_id": "later"})
            assert len(kept.times()) < 20
            stream = open_stream(kept.database, "c", {"startAtOperationTime": Timestamp(1, 1)})
            assert len(drain(kept.database, stream)) == 31
        finally:
            kept.server.close()

    def test_the_entries_of_a_transaction_are_truncated_together(self, kept: Kept) -> None:
        """If the history ends within a transaction's entries, they stay and are read again with the rest."""
        documents = [{"_id": number, "x": "y" * (6 << 20)} for number in range(4)]
        kept.database.create_collection("c")
        with kept.client.start_session() as session, session.start_transaction():
            for document in documents:
                kept.database.c.insert_one(document, session=session)
        parts = [entry["ts"] for entry in kept.server.oplog() if "applyOps" in entry["o"]]
        assert len(parts) > 1
        kept.builder.build(from_timestamp(parts[0]))
        kept.look()
        kept.server.truncate_oplog()
        assert kept.times()[0] == parts[0]
        kept.build()
        kept.database.c.delete_one({"_id": 0})
        kept.build()
        kept.server.truncate_oplog()
        assert kept.times()[0] > parts[-1]
        stream = open_stream(kept.database, "c", {"startAtOperationTime": Timestamp(1, 1)})
        shown = [event["operationType"] for event in drain(kept.database, stream)]
        assert shown == ["insert"] * 4 + ["delete"]


class TestLostHistory:
    def test_a_start_is_lost_only_if_the_history_was_truncated_too(self, kept: Kept) -> None:
        waiting = open_stream(kept.database, "c", batch_size=0)
        kept.database.c.insert_one({"_id": 1})
        first = kept.times()[-1]
        kept.database.c.insert_one({"_id": 2})
        kept.build()
        kept.database.c.insert_one({"_id": 3})
        kept.server.truncate_oplog()
        spec = {"startAtOperationTime": first}
        opened = open_stream(kept.database, "c", spec, batch_size=1)
        assert len(drain(kept.database, open_stream(kept.database, "c", spec))) == 3
        change_files(HistoryTable.open(kept.path), (), removed=(), begins=from_timestamp(first) + 1)
        kept.look()
        with pytest.raises(OperationFailure) as caught:
            open_stream(kept.database, "c", spec)
        assert caught.value.code == 286
        # An open stream continues after what it has read; if it has read nothing, its position is lost.
        assert get_more(kept.database, opened)["nextBatch"]
        with pytest.raises(OperationFailure) as caught:
            get_more(kept.database, waiting)
        assert caught.value.code == 136

    def test_streams_show_the_newest_events_while_the_history_lags(self, kept: Kept) -> None:
        stream = open_stream(kept.database, "c")
        kept.build()
        kept.database.c.insert_one({"_id": 1})
        assert len(get_more(kept.database, stream)["nextBatch"]) == 1
        assert kept.status()["through"] < kept.times()[-1]


class TestStart:
    def test_a_history_of_another_deployment_is_refused(self, tmp_path: Path) -> None:
        kept = Kept(tmp_path / "one")
        kept.build()
        kept.server.close()
        other = Kept(tmp_path / "two")
        other.server.close()
        (tmp_path / "one" / "data").rename(tmp_path / "one" / "before")
        (tmp_path / "two" / "data").rename(tmp_path / "one" / "data")
        assert "belongs to" in start_with(tmp_path / "one")

    def test_a_gap_between_history_and_oplog_is_refused(self, tmp_path: Path) -> None:
        kept = Kept(tmp_path)
        kept.build()
        kept.server.close()
        with running(data=tmp_path / "data") as server, connected(server) as client:
            client.shop.c.insert_many([{}, {}])
            client.shop.c.insert_one({})
            server.truncate_oplog()
        assert "what is between is lost" in start_with(tmp_path)
        assert "what is between is lost" in start_with(tmp_path, head=False)

    def test_a_history_that_is_ahead_of_the_data_is_refused(self, tmp_path: Path) -> None:
        kept = Kept(tmp_path)
        kept.build()
        table = HistoryTable.open(kept.path)
        commit(table, [], after=table.through, through=table.through + (1 << 40))
        kept.server.close()
        assert "is ahead of the data" in start_with(tmp_path)

    def test_no_head_and_no_history_is_refused(self) -> None:
        with pytest.raises(UsageError, match="need a history"):
            RunningServer(head=False)


class TestImages:
    def _images(self, kept: Kept) -> list[Any]:
        spec = {"fullDocumentBeforeChange": "whenAvailable", "startAtOperationTime": Timestamp(1, 1)}
        events = drain(kept.database, open_stream(kept.database, "c", spec))
        return [event["fullDocumentBeforeChange"] for event in events if event["operationType"] == "update"]

    def test_images_are_kept_longer_than_the_oplog_but_expire(self, kept: Kept) -> None:
        kept.database.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
        kept.database.c.insert_one({"_id": 1, "n": 0})
        kept.database.c.update_one({}, {"$inc": {"n": 1}})
        kept.database.c.insert_one({"_id": 2})
        kept.build()
        kept.server.truncate_oplog()
        kept.server.advance_clock(1)
        assert kept.client.config["system.preimages"].count_documents({}) == 0
        assert self._images(kept) == [{"_id": 1, "n": 0}]
        parameter = {"preAndPostImages": {"expireAfterSeconds": 60}}
        kept.client.admin.command("setClusterParameter", {"changeStreamOptions": parameter})
        kept.server.advance_clock(50)
        assert self._images(kept) == [{"_id": 1, "n": 0}]
        kept.server.advance_clock(50)
        assert self._images(kept) == [None]
        # Expired images do not reappear: neither with a longer expiry nor after a restart.
        off = {"preAndPostImages": {"expireAfterSeconds": "off"}}
        kept.client.admin.command("setClusterParameter", {"changeStreamOptions": off})
        assert self._images(kept) == [None]
        kept.server.restart()
        assert self._images(kept) == [None]


class TestWithoutHead:
    def test_streams_follow_the_history(self, tmp_path: Path) -> None:
        """Nothing is shown before it is in the history; the position is that of the history."""
        kept = Kept(tmp_path, head=False)
        try:
            kept.database.c.insert_one({"_id": "before"})
            stream = open_stream(kept.database, "c")
            kept.database.c.insert_one({"_id": 1})
            assert get_more(kept.database, stream)["nextBatch"] == []
            kept.build()
            shown = get_more(kept.database, stream)["nextBatch"]
            assert [event["documentKey"]["_id"] for event in shown] == [1]
            kept.database.other.insert_one({"_id": 2})
            before = get_more(kept.database, stream)["postBatchResumeToken"]["_data"]
            kept.build()
            after = get_more(kept.database, stream)["postBatchResumeToken"]["_data"]
            assert before < after
        finally:
            kept.server.close()

    def test_a_waiting_stream_is_woken_by_a_commit_for_it(self, tmp_path: Path) -> None:
        with (
            running(
                data=tmp_path / "data", history=tmp_path / "history", head=False, builds_history=True
            ) as server,
            connected(server) as client,
            client.shop.c.watch(max_await_time_ms=20_000) as stream,
        ):
            for number in range(5):
                client.shop.other.insert_one({})
                client.shop.c.insert_one({"_id": number})
                assert next(stream)["documentKey"] == {"_id": number}

    def test_a_history_that_does_not_exist_yet_is_waited_for(self, tmp_path: Path) -> None:
        kept = Kept(tmp_path, head=False)
        try:
            assert kept.status() == {"path": str(kept.path), "exists": False}
            stream = open_stream(kept.database, "c", {"startAtOperationTime": Timestamp(1, 1)})
            kept.database.c.insert_one({"_id": 1})
            kept.builder.build()
            shown: list[Document] = []
            while not shown:  # the table exists before it has rows
                shown += drain(kept.database, stream)
            assert [event["documentKey"] for event in shown] == [{"_id": 1}]
        finally:
            kept.server.close()

    def test_a_stream_that_waits_before_there_is_a_history_misses_nothing(self, tmp_path: Path) -> None:
        """The first commit that the stream sees contains the events that it waits for."""
        kept = Kept(tmp_path, head=False)
        try:
            stream = open_stream(kept.database, "c")
            kept.database.c.insert_one({"_id": 1})
            with ThreadPoolExecutor(1) as other:
                waiting = other.submit(get_more, kept.database, stream, maxTimeMS=5000)
                wait_for(lambda: any(entry.user for entry in kept.server.server.first.cursors))
                HistoryBuilder(kept.server.server.store, tmp_path / "built").build()
                (tmp_path / "built").rename(kept.path)  # the server never sees it empty
                shown = [event["documentKey"] for event in waiting.result()["nextBatch"]]
            assert shown == [{"_id": 1}]
        finally:
            kept.server.close()


def test_a_table_that_cannot_be_read_is_logged(kept: Kept) -> None:
    kept.database.c.insert_one({"_id": 1})
    kept.build()
    before = kept.status()
    broken = kept.path / "_delta_log" / f"{before['version'] + 1:020d}.json"
    broken.write_text("no commit")
    wait_for(lambda: "The history could not be read" in [line["msg"] for line in kept.server.log()])
    assert kept.status() == before


def test_server_status(kept: Kept) -> None:
    kept.build()
    kept.database.c.insert_many([{}, {}, {}])
    kept.build()
    status = kept.status()
    assert status["exists"] is True
    assert status["events"] >= 3
    assert status["files"] >= 1
    assert status["lagSeconds"] == 0
    assert status["begins"] == Timestamp(0, 0)
    assert status["through"] == to_timestamp(kept.builder.build(0))
    assert "history" not in kept.client.admin.command("serverStatus", history=0)
