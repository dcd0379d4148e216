"""A mirror without Spark: what readers see, what happens to collections, and what is refused."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import polars
import pytest
from bson import MaxKey, MinKey, encode
from deltalake import DeltaTable
from pymongo import MongoClient

from tailrace.errors import HistoryError, UsageError
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.mirror_state import STATE_FILE
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet
from tests.support.object_store import ObjectStoreServer

Client = MongoClient[dict[str, Any]]


def mirrored(
    server: ReplicaSet, root: Path | str, *names: str, recopy: frozenset[str] = frozenset(), **settings: Any
) -> MirrorEngine:
    """Mirror until the tables show one moment."""
    namespaces = mirrored_namespaces(names or ["shop"])
    chosen = MirrorSettings(root=str(root), chosen=namespaces, **settings)
    with DeploymentSource(server.uri) as source:
        job = MirrorJob(lambda progress: MirrorEngine(source, chosen, progress=progress, recopy=recopy), None)
        engine = job.run()
    assert engine is not None
    assert engine.is_consistent
    return engine


def documents(root: Path, collection: str) -> list[bytes]:
    return MirrorTable.open(root / "shop" / collection).documents()


def stored(client: Client, collection: str) -> list[bytes]:
    return [encode(document) for document in client.shop[collection].find().sort("_id")]


def test_readers_see_fields_that_came_later(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    orders = client.shop.orders
    orders.insert_many([{"_id": n, "total": n * 10, "buyer": {"name": f"b{n}"}} for n in range(100)])
    mirrored(server, tmp_path, range_documents=20, file_bytes=2000)
    orders.update_one({"_id": 7}, {"$set": {"buyer.city": "Ulm", "total": "seventy"}})
    orders.delete_one({"_id": 8})
    engine = mirrored(server, tmp_path, range_documents=20, file_bytes=2000)
    table = engine.tables["shop.orders"]
    assert len(table.files) > 2
    rows = {row["_id"]: row for row in DeltaTable(table.place).to_pyarrow_table().to_pylist()}
    assert rows[7]["buyer"] == {"name": "b7", "city": "Ulm"}
    assert rows[9]["buyer"] == {"name": "b9", "city": None}
    assert (rows[9]["total"], rows[7]["total"], rows[7]["total__string"]) == (90, None, "seventy")
    cities = polars.scan_delta(table.place).select(polars.col("buyer").struct.field("city")).collect()
    assert cities["city"].drop_nulls().to_list() == ["Ulm"]
    files = DeltaTable(table.place).file_uris()
    query = "SELECT count(*), sum(total) FROM read_parquet(?, union_by_name = true)"
    assert duckdb.execute(query, [files]).fetchone() == (99, sum(n * 10 for n in range(100)) - 70 - 80)


def test_ids_of_every_type_are_copied_in_ranges(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    ids = [MinKey(), 1, 2.5, 1e300, 2**62, "a", "b", {"x": 1}, {"x": "y"}, b"bytes", True, None, MaxKey()]
    client.shop.things.insert_many([{"_id": each} for each in ids])
    mirrored(server, tmp_path, range_documents=2)
    assert documents(tmp_path, "things") == stored(client, "things")


def test_drops_renames_and_out_are_followed(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    shop = client.shop
    shop.a.insert_many([{"_id": n} for n in range(10)])
    shop.b.insert_one({"_id": "b"})
    shop.c.insert_one({"_id": "c"})
    mirrored(server, tmp_path)
    shop.a.rename("d")
    shop.b.drop()
    shop.d.aggregate([{"$match": {"_id": {"$lt": 3}}}, {"$out": "c"}])
    shop.b.insert_one({"_id": "again"})
    mirrored(server, tmp_path)
    for name in "abcd":
        assert documents(tmp_path, name) == stored(client, name), name


def test_what_cannot_be_followed_is_refused(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.command("create", "newest", viewOn="orders", pipeline=[])
    client.shop.create_collection("log", capped=True, size=4096)
    client.shop.orders.insert_one({"_id": 1})
    assert set(mirrored(server, tmp_path).tables) == {"shop.orders"}
    with pytest.raises(UsageError, match=r"shop\.newest cannot be mirrored: it is a view"):
        mirrored(server, tmp_path / "view", "shop.newest")
    with pytest.raises(UsageError, match=r"shop\.log cannot be mirrored: it is capped"):
        mirrored(server, tmp_path / "capped", "shop.log")
    with pytest.raises(UsageError, match="is a collection of the system"):
        mirrored_namespaces(["shop.system.views"])
    with pytest.raises(UsageError, match="config is a database of the system"):
        mirrored_namespaces(["config"])


def test_patterns_choose_collections(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    for name in ("orders", "orders_old", "items", "audit"):
        client.shop[name].insert_one({"_id": 1})
    client.shop.command("create", "orders_newest", viewOn="orders", pipeline=[])
    chosen = mirrored_namespaces(["sho?.order*", "/^shop[.]it/", "shop.audit"], ["*.*_old"])
    settings = MirrorSettings(root=str(tmp_path), chosen=chosen)
    with DeploymentSource(server.uri) as source:
        engine = MirrorEngine(source, settings)
        assert set(engine.tables) == {"shop.orders", "shop.items", "shop.audit"}
        client.shop.orders_new.insert_one({"_id": 1})
        client.shop.order_old.insert_one({"_id": 1})
        while engine.copy_some() or engine.apply_some() or "shop.orders_new" not in engine.tables:
            pass
        assert "shop.order_old" not in engine.tables


def test_a_collection_that_was_left_out_is_copied_again(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.a.insert_one({"_id": 1})
    client.shop.b.insert_one({"_id": 1})
    mirrored(server, tmp_path)
    client.shop.a.update_one({"_id": 1}, {"$set": {"n": 1}})
    mirrored(server, tmp_path, "shop.b")
    client.shop.a.update_one({"_id": 1}, {"$set": {"m": 1}})
    mirrored(server, tmp_path)
    assert documents(tmp_path, "a") == stored(client, "a")
    (tmp_path / STATE_FILE).unlink()
    client.shop.a.update_one({"_id": 1}, {"$set": {"o": 1}})
    mirrored(server, tmp_path)
    assert documents(tmp_path, "a") == stored(client, "a")


def test_a_collection_is_copied_again_on_request(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.a.insert_many([{"_id": n} for n in range(5)])
    engine = mirrored(server, tmp_path)
    before = {file.path for file in engine.tables["shop.a"].files}
    again = mirrored(server, tmp_path, recopy=frozenset({"shop.a"}))
    assert before.isdisjoint(file.path for file in again.tables["shop.a"].files)
    assert documents(tmp_path, "a") == stored(client, "a")
    with pytest.raises(UsageError, match=r"shop\.none is not mirrored"):
        mirrored(server, tmp_path, recopy=frozenset({"shop.none"}))


def test_a_mirror_of_another_deployment_is_refused(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.a.insert_one({"_id": 1})
    mirrored(server, tmp_path)
    with ReplicaSet() as other, pytest.raises(UsageError, match="belongs to the deployment"):
        mirrored(other, tmp_path)


def test_a_table_that_others_changed_is_refused(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.a.insert_many([{"_id": n} for n in range(5)])
    mirrored(server, tmp_path)
    DeltaTable(str(tmp_path / "shop" / "a")).delete("_id = 3")
    with pytest.raises(UsageError, match="was changed by another program"):
        mirrored(server, tmp_path)


def test_many_commits_are_one_checkpoint(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    numbers = client.shop.numbers
    settings = MirrorSettings(root=str(tmp_path), chosen=mirrored_namespaces(["shop"]), grace_seconds=0.0)
    with DeploymentSource(server.uri) as source:
        engine = MirrorEngine(source, settings)
        for number in range(105):
            numbers.insert_one({"_id": number})
            while not engine.apply_some():
                pass
        while engine.copy_some() or engine.apply_some():
            pass
        engine.vacuum()
    assert len(list((tmp_path / "shop" / "numbers").glob("*.parquet"))) == 1
    table = MirrorTable.open(tmp_path / "shop" / "numbers")
    assert table.log.checkpoint_version() > 90
    assert table.documents() == stored(client, "numbers")
    assert DeltaTable(table.place).to_pyarrow_table().num_rows == 105
    with pytest.raises(HistoryError, match="there is no table in"):
        MirrorTable.open(tmp_path / "nothing")


def test_a_mirror_in_an_object_store_is_continued_and_read_there(
    server: ReplicaSet, client: Client, objects: ObjectStoreServer
) -> None:
    place = objects.url(uuid4().hex)
    client.shop.orders.insert_many([{"_id": n, "total": n} for n in range(50)])
    for _ in range(2):
        engine = mirrored(server, place, range_documents=20, file_bytes=2000)
        table = engine.tables["shop.orders"]
        assert table.place == f"{place}/shop/orders"
        assert MirrorTable.open(table.place).documents() == stored(client, "orders")
        client.shop.orders.update_many({"_id": {"$gte": 30}}, {"$inc": {"total": 1000}})
        client.shop.orders.delete_one({"_id": 7})
    found = DeltaTable(table.place, storage_options=objects.environment()).to_pyarrow_table()
    assert found.num_rows == 49
    assert sum(found["total"].to_pylist()) == sum(range(50)) - 7 + 20 * 1000
