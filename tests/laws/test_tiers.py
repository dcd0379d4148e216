"""Engine and Resume across tiers: history and head show the events that the local engine and the oplog show.

Generated histories are built into a table in commits of random size; the oplog is then truncated at a random
time that the table covers. Over the wire, every stream is read once from the oplog, and resumed after its
events when they are no longer in the oplog.
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
from tailrace.log.head import HeadLog
from tailrace.log.history_log import HistoryLog
from tailrace.log.oplogs import StoreOplog
from tailrace.log.tiers import Tiers
from tailrace.mongod.store.store import Store
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED, over_seeds
from tests.laws.restored_stores import any_started_stream, observed, restore, restored_store, run
from tests.laws.wire_streams import WireStream, note
from tests.support.client_workload import ClientWorkload
from tests.support.history import History
from tests.support.seeds import check_histories


def compare(history: History) -> None:
    rng = random.Random(history.seed)
    with TemporaryDirectory() as folder, restored_store(folder) as store:
        _compare(history, store, Path(folder) / "history", rng)


def _compare(history: History, store: Store, path: Path, rng: random.Random) -> None:
    everything = history.lookups()
    restore(store, history.entries)
    builder = HistoryBuilder(store, path, everything)
    for through in sorted(rng.sample(history.timestamps, rng.randrange(3))):
        builder.build(through)
    is_whole = rng.random() < 0.7
    if is_whole:
        builder.build()
    head = HeadLog(store)
    log = HistoryLog(StoreOplog(store), path)
    try:
        log.open()
        store.write_now(store.truncate_oplog(rng.choice(history.timestamps)))
        tiers = Tiers(head, log)
        for _ in range(3):
            stream = any_started_stream(history, rng)
            expected = observed(stream.run())
            assert observed(run(stream, tiers, everything, rng)) == expected
            if is_whole:
                # Images are read from the rows: these lookups have none.
                of_rows = Lookups(history.entry, document=history.document)
                assert observed(run(stream, log, of_rows, rng)) == expected
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


class TieredRun:
    """Random operations of clients, and the events that streams showed while the oplog had all entries."""

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
        """Every stream, from its start and after some events, shows the same bytes as from the oplog."""
        for stream, expected in zip(self.streams, self.expected, strict=True):
            again = replace(stream, client=client)
            assert again.all_events(end) == expected
            for position in rng.sample(range(len(expected)), min(6, len(expected))):
                assert again.after(expected[position]).all_events(end) == expected[position + 1 :]


@pytest.mark.parametrize(
    "seed", [BASE_SEED, *(pytest.param(BASE_SEED + more, marks=pytest.mark.slow) for more in (1, 2))]
)
def test_resume_from_every_tier(seed: int, tmp_path: Path) -> None:
    """Resume after events of the history and of the oplog; also after a restart, and without a head."""
    rng = random.Random(seed)
    options: Any = {
        "data": tmp_path / "data",
        "history": tmp_path / "history",
        "parameters": {END_OF_TRANSACTION_FLAG: True},
    }
    with ReplicaSet(**options) as replica_set:
        client = replica_set.client()
        played = TieredRun(seed, client)
        builder = HistoryBuilder(replica_set.server.store, tmp_path / "history")
        played.workload.run(60)
        builder.build()
        played.workload.run(40)
        seam = builder.build()
        played.workload.run(40)
        end = note(client)
        played.note_expected(end)
        assert min(len(expected) for expected in played.expected) > 20
        replica_set.call(_refresh_history(replica_set))
        replica_set.truncate_oplog(to_timestamp(seam))
        replica_set.advance_clock(1)  # remove the images that the oplog no longer needs
        assert replica_set.server.store.oldest == seam
        played.check_resume(client, end, rng)
        replica_set.restart()
        played.check_resume(client, end, rng)
        # Now the history has the newest events too.
        HistoryBuilder(replica_set.server.store, tmp_path / "history").build()
        replica_set.call(_refresh_history(replica_set))
        replica_set.truncate_oplog()
        assert replica_set.server.store.oldest > seam
        played.check_resume(client, end, rng)
    with ReplicaSet(head=False, **options) as replica_set:
        played.check_resume(replica_set.client(), end, rng)


async def _refresh_history(replica_set: ReplicaSet) -> None:
    history = replica_set.server.history
    assert history is not None
    await history.look()
