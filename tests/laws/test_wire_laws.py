"""The laws over the wire: random operations of clients, streams read from a socket, compared to the byte.

A run is played once for each seed and looked at by every law. `TAILRACE_SEED` shifts the seeds.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.bson import documents as bsondocs
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.query.match import compile_match
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_scope import touches, without_invalidations
from tests.laws.wire_streams import WireStream, note, oplog_of, time_of
from tests.support.client_workload import COLLECTIONS, ClientWorkload
from tests.support.folding import Fold
from tests.support.history import Documents, History
from tests.support.streams import Stream, cluster_time_of, operation_type, token_of

RUNS, SLOW_RUNS = 6, 150
STEPS, OPERATIONS = 4, 30

SPEC = {"showRawUpdateDescription": True, "showExpandedEvents": True}


@dataclass
class Run:
    """What was done with one seed, and what was true at some moments of it."""

    seed: int
    client: "MongoClient[Any]"
    workload: ClientWorkload
    start: Timestamp
    moments: list[tuple[Timestamp, Documents]] = field(default_factory=list)

    @property
    def end(self) -> Timestamp:
        return self.moments[-1][0]

    def stream(self, namespace: str = "", **spec: Any) -> WireStream:
        rng = random.Random(self.seed)
        sizes = rng.choice(((1,), (3, 0, 7), (101,), (2, 1, 50)))
        return WireStream(
            self.client, namespace, {**SPEC, "startAtOperationTime": self.start, **spec}, sizes=sizes
        )


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet() as started:
        yield started


@pytest.fixture(
    scope="module",
    params=[
        *range(BASE_SEED, BASE_SEED + RUNS),
        *(
            pytest.param(seed, marks=pytest.mark.slow)
            for seed in range(BASE_SEED + RUNS, BASE_SEED + RUNS + SLOW_RUNS)
        ),
    ],
)
def run(request: pytest.FixtureRequest, replica_set: ReplicaSet) -> Iterator[Run]:
    seed = request.param
    client = replica_set.client()
    workload = ClientWorkload(client, seed, f"law_{seed}")
    played = Run(seed, client, workload, note(client))
    for _ in range(STEPS):
        workload.run(OPERATIONS)
        played.moments.append((note(client), workload.content()))
    yield played
    for name in workload.databases:
        client.drop_database(name)
    client.close()


def test_most_operations_are_carried_out(run: Run) -> None:
    """The laws would hold on a server that refused everything."""
    assert run.workload.done.total() > STEPS * OPERATIONS * 0.5, run.workload.refused
    assert len(run.workload.done) >= 12


def test_replay(run: Run) -> None:
    """Folding the events over nothing gives the documents that `find` gave, at every moment."""
    fold = Fold({})
    events = iter(run.stream().all_events(run.end))
    event = next(events, None)
    for moment, content in run.moments:
        while event is not None and cluster_time_of(event) <= number_of(moment):
            fold.apply(event)
            event = next(events, None)
        assert fold.content() == content
    assert event is None


def number_of(time: Timestamp) -> int:
    return time.time << 32 | time.inc


def test_order(run: Run) -> None:
    """Tokens rise, cluster times do not fall, and a position lies between the events around it."""
    batches = run.stream().read(run.end)
    events = [event for batch, _ in batches for event in batch]
    tokens = [token_of(event)["_data"] for event in events]
    assert all(earlier < later for earlier, later in pairwise(tokens))
    times = [cluster_time_of(event) for event in events]
    assert times == sorted(times)
    passed = 0
    for batch, position in batches:
        passed += len(batch)
        assert passed == 0 or tokens[passed - 1] <= position["_data"]
        assert passed == len(tokens) or position["_data"] <= tokens[passed]


def test_scope(run: Run) -> None:
    """A collection's stream is the database's filtered, which is the cluster's filtered."""
    spec = random.Random(run.seed).choice(
        ({}, {"fullDocumentBeforeChange": "whenAvailable"}, {"fullDocument": "whenAvailable"})
    )
    of_cluster = run.stream(**spec).all_events(run.end)
    for database in run.workload.databases:
        stream = run.stream(database, **spec)
        of_database = without_invalidations(Scope.parse_ns(database), stream.all_events(run.end))
        assert of_database == [event for event in of_cluster if touches(event, db=database)]
        for name in COLLECTIONS:
            namespace = f"{database}.{name}"
            found = run.stream(namespace, **spec).all_events(run.end)
            of_collection = without_invalidations(Scope.parse_ns(namespace), found)
            assert of_collection == [event for event in of_database if touches(event, db=database, coll=name)]


def test_resume(run: Run) -> None:
    """After an event, and from the position behind a batch, comes exactly the rest."""
    rng = random.Random(run.seed)
    for namespace in (
        "",
        run.workload.databases[0],
        f"{run.workload.databases[0]}.{rng.choice(COLLECTIONS)}",
    ):
        stream = run.stream(namespace)
        batches = stream.read(run.end)
        events = [event for batch, _ in batches for event in batch]
        for place in rng.sample(range(len(events)), min(6, len(events))):
            if operation_type(events[place]) == "invalidate":
                continue
            option = rng.choice(("resumeAfter", "startAfter"))
            rest = stream.resumed(**{option: token_of(events[place])}).events(run.end)
            assert rest == events[place + 1 :], (option, place)
        passed = 0
        for batch, position in batches:
            passed += len(batch)
            if rng.random() < 3 / len(batches) and not is_invalidation(position):
                assert stream.resumed(resumeAfter=position).events(run.end) == events[passed:]


def is_invalidation(position: dict[str, Any]) -> bool:
    return ResumeToken.parse(bsondocs.encode(position)).from_invalidate


def test_resume_behind_an_invalidation(run: Run) -> None:
    """What comes then is what a stream shows that begins one tick later."""
    for name in COLLECTIONS:
        stream = run.stream(f"{run.workload.databases[1]}.{name}")
        events = stream.events(run.end)
        if events and operation_type(events[-1]) == "invalidate":
            time = time_of(token_of(events[-1]))
            later = stream.resumed(startAtOperationTime=Timestamp(time.time, time.inc + 1))
            assert stream.after(events[-1]).events(run.end) == later.events(run.end)


def test_the_oplog_tells_the_same(run: Run) -> None:
    """The local engine makes the same bytes of the oplog that a driver reads from the server."""
    entries = oplog_of(run.client, run.start)
    history = History(run.seed, entries, [], {}, {})
    spec = {**SPEC, "startAtOperationTime": run.start}
    expected = [
        event
        for event in Stream(history, Scope.cluster(), spec).events()
        if cluster_time_of(event) <= number_of(run.end)
    ]
    assert run.stream().events(run.end) == expected


def test_a_match_keeps_what_it_accepts(run: Run) -> None:
    rng = random.Random(run.seed)
    everything = run.stream().events(run.end)
    conditions: list[dict[str, Any]] = [
        {"operationType": {"$in": rng.sample(["insert", "update", "replace", "delete", "drop"], 2)}},
        {"ns.coll": rng.choice(COLLECTIONS), "operationType": {"$ne": "insert"}},
        {"fullDocument.many": {"$exists": True}},
        {"updateDescription.removedFields": {"$ne": []}},
    ]
    for condition in conditions:
        accepts = compile_match(condition)
        stream = WireStream(run.client, "", run.stream().spec, [{"$match": condition}], sizes=(5,))
        kept = stream.events(run.end)
        assert kept == [event for event in everything if accepts(bsondocs.decode(event))], condition
