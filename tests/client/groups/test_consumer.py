"""Workers of a group on a server: what they get, what comes again, and what they share."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo.collection import Collection
from pymongo.errors import InvalidOperation, OperationFailure

from tailrace import (
    AsyncConsumerGroup,
    ConsumerGroup,
    Delivery,
    Retries,
    UsageError,
    aconsume,
    consume,
    watch,
)
from tailrace.client.groups.keys import slot_of_id
from tailrace.events.resume_token import ResumeToken
from tailrace.testing.replica_set import ReplicaSet
from tests.client.groups.workers import AWAIT_MS, Worker, joined

Event = dict[str, Any]
SECONDS = 60
_numbers = itertools.count()


class BrokenError(Exception):
    """Raised by a handler."""


@pytest.fixture
def orders(server: ReplicaSet) -> Collection[Event]:
    """A new collection, in a database of its own."""
    return server.client()[f"shop{next(_numbers)}"].orders


@pytest.fixture
def name() -> str:
    """The name of a new group."""
    return f"group{next(_numbers)}"


def fill(orders: Collection[Event], *numbers: int) -> None:
    orders.insert_many([{"_id": number} for number in numbers])


def key(delivery: Delivery) -> Any:
    return delivery.event["documentKey"]["_id"]


def take(worker: Worker, count: int) -> list[Any]:
    """Handle so many events; return their keys."""
    found: list[Any] = []
    worker.run(lambda delivery: found.append(key(delivery)), max_events=count)
    return found


def test_a_group_begins_when_it_is_created_and_continues_where_it_stopped(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    fill(orders, 0)
    ns = orders.full_name
    with joined(shell, server.uri, name, ns=ns) as worker:
        fill(orders, *range(1, 8))
        assert take(worker, 3) == [1, 2, 3]
    fill(orders, 8)
    with joined(shell, server.uri, name, ns=ns) as worker:
        assert take(worker, 5) == [4, 5, 6, 7, 8]


def test_a_new_group_begins_at_a_time_or_after_a_token(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    with watch(orders, max_await_time_ms=AWAIT_MS) as stream:
        for number in (1, 2, 3):  # each with a time of its own
            fill(orders, number)
        token = next(stream)["_id"]
        time = next(stream)["clusterTime"]
    ns = orders.full_name
    with joined(shell, server.uri, name, ns=ns, start_at_operation_time=time) as worker:
        assert take(worker, 1) == [2]
    with joined(shell, server.uri, f"{name}-token", ns=ns, resume_after=token) as worker:
        assert take(worker, 1) == [2]
    # It is the start of the group, and not of each worker.
    with joined(shell, server.uri, f"{name}-token", ns=ns, resume_after=token) as worker:
        assert take(worker, 1) == [3]


@pytest.mark.parametrize("place", ["file", "address"])
def test_positions_are_kept_where_the_user_says(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str, tmp_path: Path, place: str
) -> None:
    positions: Any = tmp_path / "positions"
    if place == "address":
        positions = server.uri.replace("/?", f"/{orders.database.name}.places?")
    options = {"ns": orders.full_name, "positions": positions}
    with joined(shell, server.uri, name, **options) as worker:
        fill(orders, 1, 2)
        assert take(worker, 1) == [1]
    with joined(shell, server.uri, name, **options) as worker:
        assert take(worker, 1) == [2]
    assert ConsumerGroup.names(server.uri, positions=positions) == [name]
    assert server.client().tailrace.groups.count_documents({"_id": name}) == 0


def test_what_is_not_acknowledged_comes_again(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    ns = orders.full_name
    with joined(shell, server.uri, name, ns=ns) as worker:
        fill(orders, *range(10))
        found = worker.fetch(5)
        assert [key(delivery) for delivery in found] == [0, 1, 2, 3, 4]
        with pytest.raises(InvalidOperation, match="acknowledge"):
            worker.fetch()
        worker.ack(found[2])
    with joined(shell, server.uri, name, ns=ns) as worker:
        assert [key(delivery) for delivery in worker.fetch(3)] == [3, 4, 5]
        worker.ack()
    with joined(shell, server.uri, name, ns=ns) as worker:
        assert [key(delivery) for delivery in worker.fetch(4)] == [6, 7, 8, 9]


def test_in_a_loop_the_next_event_acknowledges_the_one_before_it(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    ns = orders.full_name
    with joined(shell, server.uri, name, ns=ns) as worker:
        fill(orders, 1, 2, 3)
        for delivery in worker:
            if key(delivery) == 2:
                break
    with joined(shell, server.uri, name, ns=ns) as worker:
        assert key(next(iter(worker))) == 2


def test_a_handler_that_raises_gets_the_event_again_but_not_those_before_it(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    def handle(delivery: Delivery) -> None:
        if key(delivery) == 3:
            raise BrokenError

    ns = orders.full_name
    with joined(shell, server.uri, name, ns=ns) as worker:
        fill(orders, *range(1, 6))
        with pytest.raises(BrokenError):
            worker.run(handle)
    with joined(shell, server.uri, name, ns=ns) as worker:
        assert take(worker, 3) == [3, 4, 5]


def test_an_event_that_fails_too_often_becomes_a_dead_letter_and_is_replayed(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    tries: list[Any] = []

    def handle(delivery: Delivery) -> None:
        tries.append((key(delivery), delivery.is_replay))
        if key(delivery) == 2:
            raise BrokenError("not 2")

    retries = Retries(max_tries=3, first_pause=0.001)
    with joined(shell, server.uri, name, ns=orders.full_name) as worker:
        fill(orders, 1, 2, 3)
        assert worker.run(handle, max_events=3, retries=retries) == 3
        assert tries == [(1, False), (2, False), (2, False), (2, False), (3, False)]
        with ConsumerGroup(server.uri, name) as group:
            (letter,) = group.dead_letters()
            assert (letter.tries, letter.error) == (3, "BrokenError: not 2")
            assert group.status().dead_letters == 1
            # The replay fails as well: the letter stays.
            assert worker.replay(handle) == 0
            assert [letter.tries for letter in group.dead_letters()] == [4]
            replayed: list[Event] = []
            assert worker.replay(lambda delivery: replayed.append(dict(delivery.event))) == 1
            assert replayed[0]["fullDocument"] == {"_id": 2}
            assert group.dead_letters() == []


def test_the_events_of_a_document_have_one_slot_whatever_the_type_of_its_number(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    with joined(shell, server.uri, name, ns=orders.full_name) as worker:
        fill(orders, 7)
        orders.update_one({"_id": 7}, {"$set": {"x": 1}})
        orders.delete_one({"_id": 7})
        orders.insert_one({"_id": 7.0})
        found = worker.fetch(4)
        while len(found) < 4:
            worker.ack()
            found += worker.fetch(4)
        assert {delivery.slot for delivery in found} == {slot_of_id(7, 32)}
        worker.ack()


class Team:
    """Workers in threads, which note what they handle in one list."""

    def __init__(self, uri: str, name: str, **options: Any) -> None:
        self._uri = uri
        self._name = name
        self._options = options
        self._lock = threading.Condition()
        self.handled: list[tuple[int, Event]] = []
        self.workers: list[Worker] = []
        self._threads: list[threading.Thread] = []

    def add(self, shell: str) -> Worker:
        """Start a worker; return it when it has joined."""
        number = len(self._threads)
        is_there = threading.Event()

        def work() -> None:
            with joined(shell, self._uri, self._name, **self._options) as worker:
                self.workers.append(worker)
                is_there.set()
                worker.run(lambda delivery: self._note(number, delivery))

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()
        assert is_there.wait(SECONDS)
        return self.workers[-1]

    def _note(self, number: int, delivery: Delivery) -> None:
        with self._lock:
            self.handled.append((number, dict(delivery.event)))
            self._lock.notify_all()

    def wait_for(self, count: int) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: len(self.handled) >= count, SECONDS), self.handled

    def wait_for_shares(self, *counts: int) -> None:
        """Wait until the slots are divided in this way."""
        with ConsumerGroup(self._uri, self._name) as group, ThreadPoolExecutor(1) as pool:

            def shared() -> None:
                while sorted(group.status().slots.values()) != sorted(counts):
                    pass

            pool.submit(shared).result(SECONDS)

    def finish(self) -> None:
        for worker in self.workers:
            worker.stop()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()

    def keys(self) -> list[Any]:
        return [event["documentKey"]["_id"] for _, event in self.handled if "documentKey" in event]


@pytest.fixture
def team(server: ReplicaSet, orders: Collection[Event], name: str) -> Iterator[Team]:
    found = Team(server.uri, name, ns=orders.full_name, slots=8, save_seconds=0.05)
    yield found
    found.finish()


def test_workers_share_a_stream_and_a_document_has_one_worker(
    team: Team, orders: Collection[Event], shell: str
) -> None:
    team.add(shell)
    team.add(shell)
    team.wait_for_shares(4, 4)
    fill(orders, *range(40))
    for _ in range(3):
        orders.update_many({}, {"$inc": {"n": 1}})
    team.wait_for(160)
    team.finish()
    assert sorted(team.keys()) == sorted([*range(40)] * 4)
    by_key: dict[Any, set[int]] = {}
    for number, event in team.handled:
        by_key.setdefault(event["documentKey"]["_id"], set()).add(number)
    assert all(len(numbers) == 1 for numbers in by_key.values())
    assert {number for number, _ in team.handled} == {0, 1}


def test_nothing_is_handled_twice_when_workers_come_and_go(
    team: Team, orders: Collection[Event], shell: str
) -> None:
    first = team.add(shell)
    fill(orders, *range(100))
    team.wait_for(10)
    team.add(shell)
    team.add(shell)
    fill(orders, *range(100, 200))
    team.wait_for(110)
    team.wait_for_shares(3, 3, 2)
    first.stop()
    fill(orders, *range(200, 300))
    team.wait_for(300)
    team.wait_for_shares(4, 4)
    team.finish()
    assert sorted(team.keys()) == list(range(300))


def test_an_event_without_a_document_is_handled_once_between_all_others(
    team: Team, orders: Collection[Event], shell: str
) -> None:
    for _ in range(2):
        team.add(shell)
    team.wait_for_shares(4, 4)
    fill(orders, *range(30))
    orders.drop()
    fill(orders, *range(30, 60))
    team.wait_for(62)
    team.finish()
    kinds = [event["operationType"] for _, event in team.handled]
    assert kinds == ["insert"] * 30 + ["drop", "invalidate"] + ["insert"] * 30
    assert sorted(team.keys()[:30]) == list(range(30))


def test_a_paused_group_waits_and_goes_on(
    server: ReplicaSet, team: Team, orders: Collection[Event], shell: str, name: str
) -> None:
    team.add(shell)
    with ConsumerGroup(server.uri, name) as group:
        fill(orders, 1)
        team.wait_for(1)
        group.pause()
        assert group.status().is_paused
        time = server.cluster_time
        with consume(server.uri, f"{name}-other", ns=orders.full_name, max_await_time_ms=AWAIT_MS) as other:
            fill(orders, 2, 3)
            take(other, 2)
        assert time < server.cluster_time
        assert group.status().lag.events == 2
        assert team.keys() == [1]
        group.resume()
        team.wait_for(3)
    assert team.keys() == [1, 2, 3]


@pytest.mark.parametrize("by", ["token", "time"])
def test_a_group_goes_on_at_another_place_while_it_runs(
    server: ReplicaSet, team: Team, orders: Collection[Event], shell: str, name: str, by: str
) -> None:
    team.add(shell)
    for number in (1, 2, 3):  # each with a time of its own
        fill(orders, number)
    team.wait_for(3)
    event = team.handled[1][1]
    with ConsumerGroup(server.uri, name) as group:
        if by == "token":
            group.seek(token=event["_id"])
            team.wait_for(4)
            assert team.keys() == [1, 2, 3, 3]
        else:
            group.seek(time=event["clusterTime"])
            team.wait_for(5)
            assert team.keys() == [1, 2, 3, 2, 3]


def test_a_group_is_controlled_with_asyncio_too(
    server: ReplicaSet, orders: Collection[Event], name: str
) -> None:
    options: Any = {"ns": orders.full_name, "max_await_time_ms": AWAIT_MS}
    consume(server.uri, name, **options).close()
    fill(orders, 1, 2)
    start = server.cluster_time
    replayed: list[Any] = []

    async def fail(delivery: Delivery) -> None:
        raise BrokenError(key(delivery))

    async def handle(delivery: Delivery) -> None:
        replayed.append(key(delivery))

    async def scenario() -> None:
        async with AsyncConsumerGroup(server.uri, name) as group:
            assert name in await AsyncConsumerGroup.names(server.uri)
            await group.pause()
            status = await group.status()
            assert (status.is_paused, status.lag.events, status.lag.is_all) == (True, 2, True)
            await group.resume()
            async with aconsume(server.uri, name, **options) as consumer:
                await consumer.run(fail, max_events=2, retries=Retries(1))
            assert len(await group.dead_letters()) == 2
            assert await group.replay(handle, 1) == 1
            status = await group.status()
            assert (status.lag.events, status.dead_letters) == (0, 1)
            await group.seek(time=start)
            assert (await group.status()).lag.events > 0
            with pytest.raises(TypeError):
                await group.seek()
            await group.delete()
            with pytest.raises(UsageError, match=f"there is no group {name}"):
                await group.pause()

    asyncio.run(scenario())
    assert replayed == [1]


def test_a_seek_needs_one_place(server: ReplicaSet, orders: Collection[Event], name: str) -> None:
    consume(server.uri, name, ns=orders.full_name).close()
    with ConsumerGroup(server.uri, name) as group:
        with pytest.raises(TypeError):
            group.seek()
        with pytest.raises(TypeError):
            group.seek(token={"_data": "82"}, time=Timestamp(1, 1))
        group.delete()
        with pytest.raises(UsageError, match=f"there is no group {name}"):
            group.pause()


def test_the_lag_counts_the_events_that_are_not_handled(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    pipeline = [{"$match": {"operationType": "insert"}}]
    with joined(shell, server.uri, name, pipeline, ns=orders.full_name) as worker:
        fill(orders, *range(6))
        orders.update_many({}, {"$set": {"x": 1}})
        take(worker, 2)
        with ConsumerGroup(server.uri, name) as group:
            lag = group.status().lag
            assert (lag.events, lag.is_all) == (4, True)
            take(worker, 4)
            assert group.status().lag.seconds == group.status().lag.events == 0


def test_a_group_of_the_whole_deployment_does_not_consume_its_own_positions(shell: str) -> None:
    with ReplicaSet() as server, joined(shell, server.uri, "all", save_seconds=0) as worker:
        client = server.client()
        for number in range(5):
            client.shop.orders.insert_one({"_id": number})
            assert take(worker, 1) == [number]
            worker.commit()


def test_a_worker_that_does_not_fit_its_group_is_refused(
    server: ReplicaSet, orders: Collection[Event], name: str
) -> None:
    consume(server.uri, name, ns=orders.full_name, slots=4).close()
    with pytest.raises(UsageError, match=f"consumes {orders.full_name}, not the whole deployment"):
        consume(server.uri, name)
    with pytest.raises(UsageError, match="has 4 slots"):
        consume(server.uri, name, ns=orders.full_name, slots=5)
    with pytest.raises(UsageError, match="1 to 1024 slots"):
        consume(server.uri, f"{name}-none", ns=orders.full_name, slots=0)
    with pytest.raises(UsageError, match="ns belongs to a connection string"):
        consume(orders, name, ns="shop.orders")
    with pytest.raises(UsageError, match="names a collection"):
        consume(orders, name, positions="mongodb://127.0.0.1:1/shop")
    with pytest.raises(TypeError, match="no option"):
        consume(orders, name, nonsense=1)  # type: ignore[call-arg]


def test_a_pipeline_that_removes_the_key_is_refused(
    server: ReplicaSet, orders: Collection[Event], name: str
) -> None:
    hiding = [{"$project": {"fullDocument": 1}}]
    with consume(server.uri, name, hiding, ns=orders.full_name, max_await_time_ms=AWAIT_MS) as worker:
        fill(orders, 1)
        with pytest.raises(UsageError, match="removes documentKey"):
            worker.fetch()
    with consume(
        server.uri, f"{name}-one", hiding, ns=orders.full_name, slots=1, max_await_time_ms=AWAIT_MS
    ) as worker:
        fill(orders, 2)
        assert worker.fetch()[0].event["fullDocument"] == {"_id": 2}


def test_objects_of_pymongo_can_be_consumed(orders: Collection[Event], name: str) -> None:
    for number, target in enumerate((orders, orders.database, orders.database.client)):
        places = orders.database.client.places[name]
        with consume(target, f"{name}-{number}", positions=places, max_await_time_ms=AWAIT_MS) as worker:
            fill(orders, number)
            assert take(worker, 1) == [number]
    assert ConsumerGroup.names(orders, positions=places) == [f"{name}-{number}" for number in range(3)]


def test_a_commit_between_two_acknowledgements_keeps_what_is_delivered(
    server: ReplicaSet, shell: str, orders: Collection[Event], name: str
) -> None:
    ns = orders.full_name
    with joined(shell, server.uri, name, ns=ns) as worker:
        fill(orders, *range(4))
        found = worker.fetch(4)
        worker.ack(found[0])
        worker.commit()
        with ConsumerGroup(server.uri, name) as group:
            assert group.status().lag.events == 3
        worker.ack(found[2])
    with joined(shell, server.uri, name, ns=ns) as worker:
        assert take(worker, 1) == [3]


def test_a_group_that_cannot_go_on_has_a_status_that_says_why(
    server: ReplicaSet, orders: Collection[Event], name: str
) -> None:
    with consume(server.uri, name, ns=orders.full_name, max_await_time_ms=AWAIT_MS) as worker:
        fill(orders, 1)
        token = worker.fetch(1)[0].token
        other = ResumeToken.parse_data(str(token["_data"]))
        unknown = replace(other, txn_op_index=7).data
        fill(orders, 2)
    with ConsumerGroup(server.uri, name) as group:
        group.seek(token={"_data": unknown})
        assert "the resume token was not found" in (group.status().lag.failure or "")
    with (
        consume(server.uri, name, ns=orders.full_name, max_await_time_ms=AWAIT_MS) as worker,
        pytest.raises(OperationFailure, match="the resume token was not found"),
    ):
        worker.fetch()
