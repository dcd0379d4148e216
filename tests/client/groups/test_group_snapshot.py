"""A group that begins with the documents, and goes on with the changes since."""

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId, encode
from pymongo.collection import Collection

from tailrace import ConsumerGroup, Delivery, Retries
from tailrace.errors import UsageError
from tailrace.testing.replica_set import ReplicaSet
from tests.client.groups.workers import joined

Event = dict[str, Any]
SEED = 20261118
_numbers = count()


@pytest.fixture
def orders(server: ReplicaSet) -> Collection[Event]:
    """A new collection, in a database of its own."""
    return server.client()[f"read{next(_numbers)}"].orders


class Replica:
    """What a handler knows of a collection; every change counts the versions of its document."""

    def __init__(self) -> None:
        self.documents: dict[bytes, Event] = {}
        self.reads = 0

    def handle(self, delivery: Delivery) -> None:
        event = delivery.event
        key = encode(event["documentKey"])
        kind = event["operationType"]
        if kind == "delete":
            del self.documents[key]
            return
        if kind == "update":
            version = event["updateDescription"]["updatedFields"]["version"]
            assert version == self.documents[key]["version"] + 1, event
            self.documents[key] = {**self.documents[key], "version": version}
            return
        assert key not in self.documents, event
        self.reads += kind == "read"
        self.documents[key] = dict(event["fullDocument"])


def change_some(orders: Collection[Event], rng: Random, ids: list[Any]) -> None:
    for _ in range(rng.randrange(8)):
        chosen = rng.choice(ids)
        if rng.random() < 0.7:
            orders.update_one({"_id": chosen}, {"$inc": {"version": 1}})
        elif rng.random() < 0.5:
            orders.delete_one({"_id": chosen})
        else:
            ids.append(f"new{len(ids)}")
            orders.insert_one({"_id": ids[-1], "version": 0})


def test_every_document_is_read_once_and_no_change_is_missing_or_shown_twice(
    server: ReplicaSet, shell: str, orders: Collection[Event]
) -> None:
    check_snapshot(server.uri, shell, orders, SEED)


def check_snapshot(
    uri: str, shell: str, orders: Collection[Event], seed: int, positions: str | None = None
) -> None:
    """Consume a collection while it is changed, with workers that come and go."""
    print(f"seed {seed}")
    rng = Random(seed)
    ids: list[Any] = [MinKey(), MaxKey(), *range(1100), *(f"s{n}" for n in range(900)), ObjectId(), 2.5, None]
    orders.insert_many([{"_id": each, "version": 0} for each in ids])
    replica = Replica()
    place = {"ns": orders.full_name, "slots": 4, "save_seconds": 0.0, "positions": positions}
    with joined(shell, uri, orders.full_name, snapshot=True, **place):
        pass
    with ConsumerGroup(uri, orders.full_name, positions=positions) as group:
        assert not group.status().lag.is_all
        while replica.reads < 1500:
            change_some(orders, rng, ids)
            with joined(shell, uri, orders.full_name, **place) as worker:
                for _ in range(rng.randrange(3)):
                    found = worker.fetch(rng.randrange(1, 300))
                    change_some(orders, rng, ids)
                    handled = found[: rng.randrange(len(found) + 1)]
                    for delivery in handled:
                        replica.handle(delivery)
                    if handled:
                        worker.ack(handled[-1])
                    if len(handled) < len(found):
                        break  # the next worker gets what is left
        with joined(shell, uri, orders.full_name, **place) as worker:
            change_some(orders, rng, ids)
            orders.insert_one({"_id": "last", "version": 0})
            while encode({"_id": "last"}) not in replica.documents:
                for delivery in worker.fetch():
                    replica.handle(delivery)
                worker.ack()
        assert group.status().lag.is_all
    stored = {encode({"_id": each["_id"]}): each for each in orders.find()}
    assert replica.documents == stored


def test_the_events_of_documents_look_like_those_of_changes(
    server: ReplicaSet, shell: str, orders: Collection[Event]
) -> None:
    orders.insert_many([{"_id": 1, "state": "new"}, {"_id": 2, "state": "old"}])
    match = [{"$match": {"fullDocument.state": "new"}}]
    with joined(shell, server.uri, orders.full_name, match, ns=orders.full_name, snapshot=True) as worker:
        (delivery,) = worker.fetch()
        event = delivery.event
        assert list(event) == ["_id", "operationType", "clusterTime", "fullDocument", "ns", "documentKey"]
        assert (event["operationType"], event["documentKey"]) == ("read", {"_id": 1})
        assert event["fullDocument"] == {"_id": 1, "state": "new"}
        assert event["ns"] == {"db": orders.database.name, "coll": "orders"}
        worker.ack()
        orders.insert_one({"_id": 3, "state": "new"})
        assert [each.event["operationType"] for each in worker.fetch()] == ["insert"]


def test_two_documents_that_fail_are_two_dead_letters(
    server: ReplicaSet, shell: str, orders: Collection[Event]
) -> None:
    orders.insert_many([{"_id": 1}, {"_id": 2}])

    def fail(_: Delivery) -> None:
        raise ValueError("no")

    name = orders.full_name
    with joined(shell, server.uri, name, ns=name, snapshot=True) as worker:
        worker.run(fail, max_events=2, retries=Retries(1))
    with ConsumerGroup(server.uri, name) as group:
        assert len(group.dead_letters()) == 2
        group.replay(lambda _: None)
        assert not group.dead_letters()


def test_a_collection_that_is_dropped_ends_its_snapshot_and_a_renamed_one_the_group(
    server: ReplicaSet, shell: str, orders: Collection[Event]
) -> None:
    database = orders.database
    for name in ("dropped", "renamed"):
        database[name].insert_many([{"_id": number} for number in range(1500)])
    with joined(shell, server.uri, database.name, ns=database.name, snapshot=True) as worker:
        assert worker.fetch(1)[0].event["ns"]["coll"] == "dropped"
        worker.ack()
        database.dropped.drop()
        found = worker.fetch(5000)
        while found[0].event["ns"]["coll"] == "dropped":
            worker.ack()
            found = worker.fetch(5000)
        worker.ack()
        database.renamed.rename("other")
        with pytest.raises(UsageError, match="renamed was renamed during its snapshot"):
            worker.run(lambda _: None)


def test_positions_between_documents_whose_keys_are_numbers_of_any_type(
    server: ReplicaSet, orders: Collection[Event], tmp_path: Path
) -> None:
    ids = [-2.5, 0.1, 1, 2.5, Decimal128("3.30"), Int64(2**40), 1e300, {"a": 1, "b": 0.5}]
    orders.insert_many({"_id": each} for each in ids)
    found: list[Any] = []
    for _ in ids:
        options = {"ns": orders.full_name, "snapshot": True, "positions": str(tmp_path / "positions")}
        with joined("sync", server.uri, "numbers", [], **options) as worker:
            found += [delivery.event["documentKey"]["_id"] for delivery in worker.fetch(1)]
            worker.ack()
    assert found == ids


def test_what_has_no_snapshot_is_refused(server: ReplicaSet, orders: Collection[Event]) -> None:
    database = orders.database
    database.create_collection("words", collation={"locale": "de", "strength": 1})
    database.create_collection("newest", capped=True, size=4096)
    start = server.client().admin.command("ping")["operationTime"]
    cases: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("only \\$match", [{"$project": {"ns": 1}}], {"ns": orders.full_name}),
        ("leave out one", [], {"ns": orders.full_name, "start_at_operation_time": start}),
        ("words has a collation", [], {"ns": f"{database.name}.words"}),
        ("newest is capped", [], {"ns": f"{database.name}.newest"}),
        ("newest is capped", [], {"ns": database.name}),
    ]
    for message, pipeline, options in cases:
        with (
            pytest.raises(UsageError, match=message),
            joined("sync", server.uri, "refused", pipeline, snapshot=True, **options),
        ):
            pass
