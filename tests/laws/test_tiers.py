"""Engine and Resume across tiers: history, seam and head show what the local engine and the oplog show.

Histories are generated and built into a table in commits of any size; the oplog is then cut at any place
that the table covers. Over the wire, every stream is read once from the oplog, and resumed behind its events
when the oplog is gone.
"""

import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.events.cluster_time import to_timestamp
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import END_OF_TRANSACTION_FLAG
from tailrace.log.head import Head
from tailrace.log.history_log import HistoryLog
from tailrace.log.oplogs import StoreOplog
from tailrace.log.tiers import Tiers
from tailrace.mongod.store.store import Store
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED, over_seeds
from tests.laws.restored_stores import any_started_stream, restore, restored_store, run, seen
from tests.laws.wire_streams import WireStream, note
from tests.support.client_workload import ClientWorkload
from tests.support.history import History
from tests.support.seeds import check_histories


def compare(history: History) -> None:
    rng = random.Random(history.seed)
    with TemporaryDirectory() as folder, restored_store(folder) as store:
        _compare(history, store, Path(folder) / "history", rng)


def _compare(history: History, store: Store, path: Path, rng: random.Random) -> None:
    everything = Lookups(history.entry, history.pre_image, history.document)
    restore(store, history.entries)
    builder = HistoryBuilder(store, path, everything)
    for through in sorted(rng.sample(history.timestamps, rng.randrange(3))):
        builder.build(through)
    is_whole = rng.random() < 0.7
    if is_whole:
        builder.build()
    head = Head(store)
    log = HistoryLog(StoreOplog(store), path)
    try:
        log.open()
        store.write_now(store.truncate_oplog(rng.choice(history.timestamps)))
        tiers = Tiers(head, log)
        for _ in range(3):
            stream = any_started_stream(history, rng)
            expected = seen(stream.run())
            assert seen(run(stream, tiers, everything, rng)) == expected
            if is_whole:
                # Images come from the rows; there is nothing else to look them up in.
                of_rows = Lookups(history.entry, document=history.document)
                assert seen(run(stream, log, of_rows, rng)) == expected
    finally:
        log.release()


@over_seeds
def test_tiers_show_what_the_local_engine_shows(seeds: range) -> None:
    check_histories(seeds[14:16], compare)


SHOWN: Any = {
    "showExpandedEvents": True,
    "fullDocumentBeforeChange": "whenAvailable",
    "fullDocument": "whenAvailable",
}
PIPELINE = ({"$match": {"operationType": {"$ne": "delete"}}},)


class Play:
    """Random operations of clients, and what streams showed of them while the oplog had everything."""

    def __init__(self, seed: int, client: "MongoClient[Any]") -> None:
        self.seed = seed
        self.workload = ClientWorkload(client, seed, f"tiers_{seed}")
        start = {"startAtOperationTime": note(client)}
        name = self.workload.databases[0]
        self.streams = [
            WireStream(client, "", {**SHOWN, **start}, sizes=(50,)),
            WireStream(client, name, {"fullDocumentBeforeChange": "off", **start}, sizes=(101, 3)),
            WireStream(client, "", {"showSystemEvents": True, **SHOWN, **start}, PIPELINE, sizes=(1000,)),
        ]
        self.expected: list[list[bytes]] = []

    def note_expected(self, end: Timestamp) -> None:
        self.expected = [stream.all_events(end) for stream in self.streams]

    def check_resume(self, client: "MongoClient[Any]", end: Timestamp, rng: random.Random) -> None:
        """Every stream from its start, and behind some of its events: the same bytes as from the oplog."""
        for stream, expected in zip(self.streams, self.expected, strict=True):
            again = replace(stream, client=client)
            assert again.all_events(end) == expected
            for position in rng.sample(range(len(expected)), min(6, len(expected))):
                assert again.after(expected[position]).all_events(end) == expected[position + 1 :]


@pytest.mark.parametrize("seed", range(BASE_SEED, BASE_SEED + 3))
def test_resume_from_every_tier(seed: int, tmp_path: Path) -> None:
    """Behind events older than the oplog, at the seam and in the head; after a restart; without a head."""
    rng = random.Random(seed)
    options: Any = {
        "data": tmp_path / "data",
        "history": tmp_path / "history",
        "parameters": {END_OF_TRANSACTION_FLAG: True},
    }
    with ReplicaSet(**options) as replica_set:
        client = replica_set.client()
        play = Play(seed, client)
        builder = HistoryBuilder(replica_set.server.store, tmp_path / "history")
        play.workload.run(60)
        builder.build()
        play.workload.run(40)
        seam = builder.build()
        play.workload.run(40)
        end = note(client)
        play.note_expected(end)
        assert min(len(expected) for expected in play.expected) > 20
        replica_set.call(_look(replica_set))
        replica_set.truncate_oplog(to_timestamp(seam))
        replica_set.advance_clock(1)  # what images the oplog no longer needs are removed
        assert replica_set.server.store.oldest == seam
        play.check_resume(client, end, rng)
        replica_set.restart()
        play.check_resume(client, end, rng)
        # The newest events too, now that the history has them.
        HistoryBuilder(replica_set.server.store, tmp_path / "history").build()
        replica_set.call(_look(replica_set))
        replica_set.truncate_oplog()
        assert replica_set.server.store.oldest > seam
        play.check_resume(client, end, rng)
    with ReplicaSet(head=False, **options) as replica_set:
        play.check_resume(replica_set.client(), end, rng)


async def _look(replica_set: ReplicaSet) -> None:
    history = replica_set.server.history
    assert history is not None
    await history.look()
