"""The placement: its answers, the documents that it writes, and its state after a restart."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, DatetimeMS, MaxKey, MinKey, ObjectId, Timestamp

from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement import config_catalog
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.config_documents import document_of, documents_of
from tailrace.mongod.cluster.placement.locks import PlacementLocks
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.store.store import Store

Document = dict[str, Any]

KEY = ShardKey({"a": 1})
UUID = b"0123456789abcdef"


def on_placement(folder: Path, work: Callable[[Placement], Awaitable[None]]) -> dict[str, list[Document]]:
    """Run a function on a placement with two shards; returns the config server's documents afterwards."""

    async def main() -> dict[str, list[Document]]:
        store = Store.open(folder)
        store.attach(asyncio.get_running_loop())
        try:
            placement = Placement(store, "localhost:27017")
            await placement.load()
            for name in ("shard0", "shard1"):
                await placement.add_shard(name, f"{name}/localhost:2")
            await work(placement)
            with store.snapshot() as snapshot:
                return {
                    collection.name: list(documents_of(snapshot, collection.name))
                    for collection in snapshot.catalog.collections("config")
                    if not collection.is_internal
                }
        finally:
            store.close()

    return asyncio.run(main())


async def shard(placement: Placement, ns: str = "shop.orders") -> None:
    await placement.create_database(ns.partition(".")[0])
    await placement.set_sharded(ns, UUID, KEY, ChunkMap.whole(KEY, "shard0", at=1), unique=True)


def test_documents_as_clients_read_them(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        await shard(placement)
        await placement.split("shop.orders", [{"a": 5}])
        await placement.move("shop.orders", {"a": 5}, {"a": MaxKey()}, "shard1")

    found = on_placement(tmp_path, work)
    assert [list(document) for document in found["shards"]] == [
        ["_id", "host", "state", "topologyTime", "replSetConfigVersion"]
    ] * 2
    assert [(document["_id"], document["host"], document["state"]) for document in found["shards"]] == [
        ("shard0", "shard0/localhost:2", 1),
        ("shard1", "shard1/localhost:2", 1),
    ]
    (database,) = found["databases"]
    assert (database["_id"], database["primary"], database["version"]["lastMod"]) == ("shop", "shard0", 1)
    assert isinstance(database["version"]["timestamp"], Timestamp)
    (collection,) = found["collections"]
    assert collection["_id"] == "shop.orders"
    assert collection["uuid"] == Binary(UUID, 4)
    assert (collection["key"], collection["unique"], collection["noBalance"]) == ({"a": 1}, True, False)
    assert isinstance(collection["lastmodEpoch"], ObjectId)
    assert isinstance(collection["lastMod"], DatetimeMS)
    low, high = sorted(found["chunks"], key=lambda chunk: str(chunk["shard"]))
    assert (low["min"], low["max"], low["shard"]) == ({"a": MinKey()}, {"a": 5}, "shard0")
    assert (high["min"], high["max"], high["shard"]) == ({"a": 5}, {"a": MaxKey()}, "shard1")
    assert (low["lastmod"], high["lastmod"]) == (Timestamp(2, 1), Timestamp(2, 0))
    assert [stay["shard"] for stay in high["history"]] == ["shard1", "shard0"]
    assert high["onCurrentShardSince"] == high["history"][0]["validAfter"]
    assert [entry["what"] for entry in found["changelog"]] == [
        "addShard",
        "addShard",
        "split",
        "moveChunk.commit",
    ]
    (version,) = found["version"]
    assert isinstance(version["clusterId"], ObjectId)
    assert found["tags"] == []


def test_it_is_the_same_after_a_restart(tmp_path: Path) -> None:
    kept: list[Placement] = []

    async def first(placement: Placement) -> None:
        await shard(placement)
        await placement.split("shop.orders", [{"a": number} for number in range(10)])
        await placement.move("shop.orders", {"a": 3}, {"a": 7}, "shard1")
        await placement.create_database("other")
        await placement.place("other.moved", b"f" * 16, "shard0")
        await placement.mark_orphans("shop.orders", may_have=True)
        kept.append(placement)

    async def second(placement: Placement) -> None:
        before, after = kept[0].state, placement.state
        assert (after.shards, after.databases) == (before.shards, before.databases)
        assert list(after.collections) == list(before.collections)
        for ns, collection in after.collections.items():
            known = before.collections[ns]
            assert list(collection.chunks) == list(known.chunks)
            assert (collection.key, collection.epoch) == (known.key, known.epoch)
            assert collection.is_unsplittable == known.is_unsplittable
        assert placement.may_have_orphans("shop.orders")
        assert placement.sharded("other.moved") is None
        assert placement.shards_of("other.moved") == ("shard0",)
        assert placement.shards_of("other.rest") == ("shard1",)

    first_documents = on_placement(tmp_path, first)
    second_documents = on_placement(tmp_path, second)
    assert second_documents == first_documents


def test_databases_go_to_the_shard_with_the_fewest(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        assert [await placement.create_database(name) for name in "abc"] == ["shard0", "shard1", "shard0"]
        assert await placement.create_database("b") == "shard1"
        assert await placement.create_database("d", "shard0") == "shard0"
        assert placement.primary_of("config") == placement.primary_of("admin") == "config"
        assert placement.primary_of("nowhere") is None
        assert placement.shards_of("nowhere.at.all") == ()
        with pytest.raises(CommandError) as caught:
            await placement.create_database("A")
        assert caught.value.code_name == "DatabaseDifferCase"
        with pytest.raises(CommandError) as caught:
            await placement.create_database("e", "shard7")
        assert caught.value.code_name == "ShardNotFound"
        await placement.set_draining("shard1")
        assert await placement.create_database("f") == "shard0"

    found = on_placement(tmp_path, work)
    assert [document.get("draining") for document in found["shards"]] == [None, True]


def test_concurrent_requests_create_one_database(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        primaries = await asyncio.gather(*(placement.create_database("shop") for _ in range(20)))
        assert len(set(primaries)) == 1

    assert len(on_placement(tmp_path, work)["databases"]) == 1


def test_drops_and_renames_include_the_chunks(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        await shard(placement, "shop.orders")
        await placement.rename("shop.orders", "shop.sold")
        assert placement.sharded("shop.orders") is None
        assert placement.require("shop.sold").uuid == UUID
        assert len(placement.require("shop.sold").chunks) == 1
        with pytest.raises(CommandError) as caught:
            placement.require("shop.orders")
        assert caught.value.code_name == "NamespaceNotSharded"

    found = on_placement(tmp_path / "rename", work)
    assert ([c["_id"] for c in found["collections"]], len(found["chunks"])) == (["shop.sold"], 1)

    async def drop(placement: Placement) -> None:
        await shard(placement)
        await placement.drop_collection("shop.orders")
        assert placement.shards_of("shop.orders") == ("shard0",)

    found = on_placement(tmp_path / "drop", drop)
    assert (found["collections"], found["chunks"]) == ([], [])

    async def drop_database(placement: Placement) -> None:
        await shard(placement)
        await placement.drop_database("shop")
        assert placement.shards_of("shop.orders") == ()

    found = on_placement(tmp_path / "database", drop_database)
    assert (found["databases"], found["collections"], found["chunks"]) == ([], [], [])


def test_the_removal_of_a_shard_is_stored(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        await placement.remove_shard("shard1")
        assert list(placement.shards) == ["shard0"]
        assert placement.removed_shards["shard1"] > placement.shards["shard0"].topology_time

    found = on_placement(tmp_path, work)
    assert [document["_id"] for document in found["removedShards"]] == ["shard1"]
    assert found["changelog"][-1]["what"] == "removeShard"


def test_a_refined_key_is_a_new_epoch(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        await shard(placement)
        before = placement.require("shop.orders")
        after = await placement.refine("shop.orders", ShardKey({"a": 1, "b": 1}))
        assert after.epoch != before.epoch
        assert after.timestamp > before.timestamp

    found = on_placement(tmp_path, work)
    assert found["collections"][0]["key"] == {"a": 1, "b": 1}
    assert found["chunks"][0]["min"] == {"a": MinKey(), "b": MinKey()}


def test_fields_that_clients_add_to_a_document_are_preserved(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        await shard(placement)
        assert placement.takes_part_in_balancing("shop.orders")

        def forbid(unit: Any) -> None:
            changed = document_of(unit, "collections", "shop.orders")
            assert changed is not None
            config_catalog._put(unit, "collections", {**changed, "noBalance": True})

        await placement._store.write(forbid)
        await placement.refine("shop.orders", ShardKey({"a": 1, "b": 1}))
        assert not placement.takes_part_in_balancing("shop.orders")

    assert on_placement(tmp_path, work)["collections"][0]["noBalance"] is True


def test_settings(tmp_path: Path) -> None:
    async def work(placement: Placement) -> None:
        assert placement.setting("chunksize") == {}
        assert placement.setting("balancer") == {"_id": "balancer", "mode": "off", "stopped": True}
        await placement.put_setting("balancer", {"stopped": False})
        assert placement.setting("balancer") == {"_id": "balancer", "mode": "off", "stopped": False}

    on_placement(tmp_path, work)


# -- locks --------------------------------------------------------------------------------------------------


def test_a_change_waits_for_users_and_new_users_wait_for_it() -> None:
    async def main() -> list[str]:
        locks, seen = PlacementLocks(), []

        async def use(name: str, note: str) -> None:
            async with locks.using(name):
                seen.append(note)

        async def change(name: str, note: str) -> None:
            async with locks.changing(name):
                seen.append(note)

        async with locks.using("a.x"):
            tasks = [asyncio.ensure_future(change("a.x", "change x"))]
            await asyncio.sleep(0)
            tasks.append(asyncio.ensure_future(use("a.x", "use x")))
            tasks.append(asyncio.ensure_future(change("a", "change a")))
            await use("b.x", "use b")
            await asyncio.sleep(0)
            seen.append("let go")
        await asyncio.gather(*tasks)
        return seen

    assert asyncio.run(main()) == ["use b", "let go", "change x", "use x", "change a"]


@pytest.mark.parametrize("seed", range(10))
def test_locks_stay_correct_when_waiters_are_cancelled(seed: int) -> None:
    rng = random.Random(seed)
    names = ["a", "a.x", "a.y", "b", "b.x"]
    users = dict.fromkeys(names, 0)
    owners = dict.fromkeys(names, 0)

    async def main() -> None:
        locks = PlacementLocks()

        async def run(wanted: list[str], steps: int, *, alone: bool) -> None:
            counts = owners if alone else users
            async with locks.changing(*wanted) if alone else locks.using(*wanted):
                for name in wanted:
                    counts[name] += 1
                try:
                    for _ in range(steps):
                        for name in wanted:
                            assert owners[name] <= 1, seed
                            assert not (owners[name] and users[name]), seed
                            assert not (owners[name.partition(".")[0]] and "." in name), seed
                        await asyncio.sleep(0)
                finally:
                    for name in wanted:
                        counts[name] -= 1

        tasks = []
        for _ in range(200):
            wanted = rng.sample(names, rng.randrange(1, 3))
            databases = {name for name in wanted if "." not in name}
            wanted = [name for name in wanted if name in databases or name.partition(".")[0] not in databases]
            alone = rng.random() < 0.4
            tasks.append(asyncio.ensure_future(run(wanted, rng.randrange(4), alone=alone)))
            if rng.random() < 0.3:
                await asyncio.sleep(0)
            if rng.random() < 0.2:
                rng.choice(tasks).cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        for task in tasks:
            if not task.cancelled():
                assert task.exception() is None
        assert not any(users.values())
        assert not any(owners.values())
        async with locks.changing(*names):
            pass

    asyncio.run(main())
