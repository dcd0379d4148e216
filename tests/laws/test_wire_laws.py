"""The laws over the wire: random operations of clients, streams read from a socket, bytes compared.

The operations run once for each seed, and every law is checked on them. `TAILRACE_SEED` shifts the seeds.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.bson import documents as bsondocs
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.query.match import compile_match
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.law_seeds import BASE_SEED
from tests.laws.test_scope import touches, without_invalidations
from tests.laws.wire_streams import WireStream, check_order, check_replay, note, oplog_of, time_of
from tests.support.client_workload import COLLECTIONS, ClientWorkload
from tests.support.history import Documents, History
from tests.support.streams import Stream, cluster_time_of, operation_type, token_of

RUNS, SLOW_RUNS = 6, 150
STEPS, OPERATIONS = 4, 30

SPEC = {"showRawUpdateDescription": True, "showExpandedEvents": True}


@dataclass
class Run:
    """The operations of one seed, and the documents at some moments between them."""

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
    done = Run(seed, client, workload, note(client))
    for _ in range(STEPS):
        workload.run(OPERATIONS)
        done.moments.append((note(client), workload.content()))
    yield done
    for name in workload.databases:
        client.drop_database(name)
    client.close()


def test_most_operations_are_carried_out(run: Run) -> None:
    """Otherwise the laws could hold because the server refused every operation."""
    assert run.workload.done.total() > STEPS * OPERATIONS * 0.5, run.workload.refused
    assert len(run.workload.done) >= 12


def test_replay(run: Run) -> None:
    """Folding the events over nothing gives the documents that `find` gave, at every moment."""
    check_replay(run.stream().all_events(run.end), run.moments)


def test_order(run: Run) -> None:
    """Tokens increase, cluster times never decrease, and a position is between the events around it."""
    batches = run.stream().read(run.end)
    check_order(batches)
    times = [cluster_time_of(event) for batch, _ in batches for event in batch]
    assert times == sorted(times)


def test_scope(run: Run) -> None:
    """A collection's stream is its database's stream filtered, which is the cluster's stream filtered."""
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
    """A stream resumed after an event, or from the position after a batch, shows exactly the later events."""
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


def test_resume_after_an_invalidation(run: Run) -> None:
    """The stream then shows the same events as one that starts one tick later."""
    for name in COLLECTIONS:
        stream = run.stream(f"{run.workload.databases[1]}.{name}")
        events = stream.events(run.end)
        if events and operation_type(events[-1]) == "invalidate":
            time = time_of(token_of(events[-1]))
            later = stream.resumed(startAtOperationTime=Timestamp(time.time, time.inc + 1))
            assert stream.after(events[-1]).events(run.end) == later.events(run.end)


def test_the_local_engine_makes_the_same_events_of_the_oplog(run: Run) -> None:
    entries = oplog_of(run.client, run.start)
    history = History(run.seed, entries, [], {}, {})
    spec = {**SPEC, "startAtOperationTime": run.start}
    expected = [
        event
        for event in Stream(history, Scope.cluster(), spec).events()
        if cluster_time_of(event) <= from_timestamp(run.end)
    ]
    assert run.stream().events(run.end) == expected


def test_a_match_shows_exactly_the_events_it_accepts(run: Run) -> None:
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
        shown = stream.events(run.end)
        assert shown == [event for event in everything if accepts(bsondocs.decode(event))], condition
