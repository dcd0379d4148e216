"""One suite for every position store: files, and collections of each kind of server; blocking and asyncio."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from pymongo import AsyncMongoClient, MongoClient

from tailrace import DeadLetter, UsageError
from tailrace.client.flow import Flow, run, run_async
from tailrace.client.groups.collection_store import CollectionGroups
from tailrace.client.groups.file_store import FileGroups
from tailrace.client.groups.state import GroupMember, GroupState, Slot
from tailrace.client.groups.store import GroupStore, changing
from tailrace.testing.replica_set import ReplicaSet
from tests.oracle.real_server import missing_mongod, real_replica_set
from tests.support.fronted import Fronted

STATE = GroupState("billing", "shop.orders", "{}", (Slot({"_data": "8201"}), Slot({"_data": "8202"})))
LETTER = DeadLetter(
    "billing", "8203", 1, bson.encode({"_id": {"_data": "8203"}, "a.b": {"$c": 1}}), "ValueError: no", 3,
    datetime(2026, 11, 18, tzinfo=UTC).replace(tzinfo=None),
)  # fmt: skip

Opened = tuple[Callable[[], GroupStore], Callable[[Flow[Any]], Any]]


@pytest.fixture(
    scope="module", params=["file", "ours", "in front of one", pytest.param("real", marks=pytest.mark.slow)]
)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where positions are kept: a path, or the address of a server."""
    kind = request.param
    if kind == "file":
        yield str(tmp_path_factory.mktemp("groups") / "positions")
    elif kind == "real":
        if (reason := missing_mongod()) is not None:
            pytest.skip(reason)
        with real_replica_set(tmp_path_factory.mktemp("mongod")) as real:
            yield real.uri
    else:
        with ReplicaSet() as server:
            if kind == "ours":
                yield server.uri
            else:
                with Fronted(server.uri) as front:
                    yield front.uri


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest, place: str) -> Iterator[Opened]:
    """A function that opens the empty store, and one that runs its flows."""
    is_server = place.startswith("mongodb:")
    if request.param == "sync":
        if not is_server:
            Path(place).unlink(missing_ok=True)
            yield (lambda: FileGroups(place, lambda use: use())), run
            return
        with MongoClient[Any](place) as client:
            client.tailrace.groups.delete_many({})
            client.tailrace["groups.dead_letters"].delete_many({})
            yield (lambda: CollectionGroups(client.tailrace.groups)), run
        return
    with asyncio.Runner() as runner:

        def go(flow: Flow[Any]) -> Any:
            return runner.run(run_async(flow))

        if not is_server:
            Path(place).unlink(missing_ok=True)
            yield (lambda: FileGroups(place, asyncio.to_thread)), go
            return

        async def connect() -> Any:
            connected = AsyncMongoClient[Any](place)
            await connected.tailrace.groups.delete_many({})
            await connected.tailrace["groups.dead_letters"].delete_many({})
            return connected

        async_client = runner.run(connect())
        yield (lambda: CollectionGroups(async_client.tailrace.groups)), go
        runner.run(async_client.close())


def test_a_group_is_created_once(opened: Opened) -> None:
    store, go = opened[0](), opened[1]
    assert go(store.load("billing")) is None
    assert go(store.create(STATE)) is True
    assert go(store.create(replace(STATE, namespace="other"))) is False
    assert go(opened[0]().load("billing")) == STATE
    go(store.create(replace(STATE, name="audit")))
    assert go(store.groups()) == ["audit", "billing"]


def test_only_the_newest_state_is_replaced(opened: Opened) -> None:
    store, go = opened[0](), opened[1]
    go(store.create(STATE))
    first = replace(STATE, is_paused=True, version=1)
    assert go(store.replace(first)) is True
    assert go(store.replace(replace(STATE, namespace="lost", version=1))) is False
    assert go(store.replace(replace(STATE, name="unknown", version=1))) is False
    assert go(store.load("billing")) == first


def test_a_change_that_lost_the_race_is_computed_again(opened: Opened) -> None:
    store, go = opened[0](), opened[1]
    go(store.create(STATE))
    seen: list[int] = []

    def change(state: GroupState) -> GroupState:
        seen.append(state.version)
        return state.joined(GroupMember(f"m{len(seen)}", "m"), "{}")

    def racing() -> Flow[GroupState]:
        """Another change comes between the reading and the writing of the first one."""
        flow = changing(store, "billing", change)
        found = yield next(flow)
        yield from changing(store, "billing", lambda state: state.paused(True))
        call = flow.send(found)
        while True:
            answer = yield call
            try:
                call = flow.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    result = go(racing())
    assert seen == [0, 1]
    assert result.is_paused
    assert result.member_ids == ["m2"]
    assert go(store.load("billing")) == result


def test_dead_letters_are_kept_in_order_one_for_each_event(opened: Opened) -> None:
    store, go = opened[0](), opened[1]
    go(store.create(STATE))
    later = replace(LETTER, position="8204")
    for letter in (later, LETTER, replace(LETTER, tries=4), replace(LETTER, group="audit")):
        go(store.bury(letter))
    assert go(store.letters("billing", 10)) == [replace(LETTER, tries=4), later]
    assert go(store.letters("billing", 1)) == [replace(LETTER, tries=4)]
    assert go(store.letters("billing", 10, "8203")) == [later]
    assert go(store.count_letters("billing")) == 2
    go(store.discard(LETTER))
    go(store.discard(LETTER))
    assert go(store.letters("billing", 10)) == [later]
    assert go(store.count_letters("audit")) == 1


def test_a_group_is_deleted_with_its_letters(opened: Opened) -> None:
    store, go = opened[0](), opened[1]
    go(store.create(STATE))
    go(store.bury(LETTER))
    go(store.delete("billing"))
    assert go(store.load("billing")) is None
    assert go(store.count_letters("billing")) == 0
    with pytest.raises(UsageError, match="there is no group billing in "):
        go(changing(store, "billing", lambda state: state))


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("positions " * 1000)
    with pytest.raises(UsageError, match="cannot be used: file is not a database"):
        FileGroups(path, lambda use: use())
    with pytest.raises(UsageError, match="cannot be used: unable to open"):
        FileGroups(tmp_path / "missing" / "file", lambda use: use())
