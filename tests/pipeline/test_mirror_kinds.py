"""Tables of versions and of changes, without Spark: what readers see, and what is refused."""

from pathlib import Path
from typing import Any

import polars
import pytest
from bson import decode, encode
from deltalake import DeltaTable
from pymongo import MongoClient

from tailrace.errors import UsageError
from tailrace.lake.columns.kinds import TableKind
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet
from tests.laws.mirror_reading import documents_in

Client = MongoClient[dict[str, Any]]


def mirrored(
    server: ReplicaSet,
    root: Path,
    kind: TableKind,
    *names: str,
    recopy: frozenset[str] = frozenset(),
    schema_rows: bool = False,
) -> MirrorEngine:
    settings = MirrorSettings(
        root=str(root),
        chosen=mirrored_namespaces(names or ["shop"]),
        kind=kind,
        schema_rows=schema_rows,
        range_documents=4,
        file_bytes=2000,
    )
    with DeploymentSource(server.uri) as source:
        make = lambda progress: MirrorEngine(source, settings, progress=progress, recopy=recopy)  # noqa: E731
        engine = MirrorJob(make, None).run()
    assert engine is not None
    return engine


def stored(client: Client, collection: str) -> list[bytes]:
    return [encode(document) for document in client.shop[collection].find().sort("_id")]


def change_documents(client: Client) -> None:
    orders = client.shop.orders
    orders.update_one({"_id": 1}, {"$set": {"state": "paid"}})
    orders.update_one({"_id": 1}, {"$set": {"state": "sent", "by": "post"}})
    orders.delete_one({"_id": 2})
    orders.insert_one({"_id": 20, "state": "new"})


def test_versions_have_a_beginning_and_an_end(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.orders.insert_many([{"_id": n, "state": "new"} for n in range(10)])
    mirrored(server, tmp_path, TableKind.VERSIONS)
    change_documents(client)
    table = mirrored(server, tmp_path, TableKind.VERSIONS).tables["shop.orders"]
    rows = polars.read_delta(table.place).sort("_cluster_time", "_increment")
    one = rows.filter(polars.col("_id") == 1)
    assert one["state"].to_list() == ["new", "paid", "sent"]
    assert one["by"].to_list() == [None, None, "post"]
    assert one["_valid_to"].to_list() == [*one["_cluster_time"].to_list()[1:], None]
    assert one["_valid_to_increment"].to_list() == [*one["_increment"].to_list()[1:], None]
    assert one["_is_current"].to_list() == [False, False, True]
    assert rows.filter(polars.col("_id") == 2)["_is_current"].to_list() == [False]
    assert rows.filter("_is_current")["_id"].sort().to_list() == [0, 1, *range(3, 10), 20]


def test_changes_are_appended(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.orders.insert_many([{"_id": n, "state": "new"} for n in range(3)])
    mirrored(server, tmp_path, TableKind.CHANGES)
    change_documents(client)
    table = mirrored(server, tmp_path, TableKind.CHANGES).tables["shop.orders"]
    rows = polars.read_delta(table.place).sort("_cluster_time", "_increment", "_token", "_id")
    assert rows.select("_id", "_change_type", "state").rows() == [
        (0, "insert", "new"),
        (1, "insert", "new"),
        (2, "insert", "new"),
        (1, "update_postimage", "paid"),
        (1, "update_postimage", "sent"),
        (2, "delete", None),
        (20, "insert", "new"),
    ]
    assert rows["_token"].null_count() == 3


def test_new_columns_are_rows_of_a_table_of_changes_on_request(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.orders.insert_many([{"_id": n, "state": "new"} for n in range(3)])
    mirrored(server, tmp_path, TableKind.CHANGES, schema_rows=True)
    change_documents(client)
    table = mirrored(server, tmp_path, TableKind.CHANGES, schema_rows=True).tables["shop.orders"]
    rows = polars.read_delta(table.place).sort("_cluster_time", "_increment", "_token", "_id", "_change_type")
    assert rows.select("_change_type", "_id", "by").rows() == [
        ("schema", None, None),
        ("schema", None, None),
        ("insert", 0, None),
        ("insert", 1, None),
        ("insert", 2, None),
        ("update_postimage", 1, None),
        ("schema", None, None),
        ("update_postimage", 1, "post"),
        ("delete", 2, None),
        ("insert", 20, None),
    ]
    described = rows.filter(polars.col("_change_type") == "schema")
    found = [decode(document) for document in described["_bson"].to_list()]
    by_event = rows.filter(polars.col("by") == "post")["_token"].item()
    assert sorted((each["path"], each["what"], each["new_type"], each["token"]) for each in found) == [
        ("_id", "field added", "bigint", None),
        ("by", "field added", "string", by_event),
        ("state", "field added", "string", None),
    ]
    assert documents_in(table.places, table.through) == stored(client, "orders")
    assert table.rows == rows.height


def test_rows_of_schema_changes_are_for_tables_of_changes(server: ReplicaSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not of the kind versions: give --kind changes, or read the table"):
        mirrored(server, tmp_path, TableKind.VERSIONS, schema_rows=True)


@pytest.mark.parametrize("kind", [TableKind.VERSIONS, TableKind.CHANGES])
def test_what_is_before_a_drop_or_a_rename_stays(
    kind: TableKind, server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    shop = client.shop
    shop.a.insert_many([{"_id": n} for n in range(10)])
    shop.b.insert_one({"_id": "b"})
    first = mirrored(server, tmp_path, kind)
    before = {name: stored(client, name) for name in "ab"}
    shop.a.update_one({"_id": 1}, {"$set": {"x": 1}})
    shop.b.insert_one({"_id": "short"})
    shop.b.drop()
    shop.b.insert_one({"_id": "again"})
    shop.a.rename("b", dropTarget=True)
    shop.b.update_one({"_id": 2}, {"$set": {"x": 2}})
    shop.b.rename("c")
    shop.b.insert_one({"_id": "last"})
    second = mirrored(server, tmp_path, kind)
    for name, table in second.tables.items():
        collection = name.removeprefix("shop.")
        assert documents_in(table.places, first.through) == before.get(collection, []), name
        assert documents_in(table.places, second.through) == stored(client, collection), name
    seen = polars.read_delta(second.tables["shop.b"].place)
    assert {b"short", b"again"} <= {bytes(each) for each in _ids(seen)}


def _ids(rows: polars.DataFrame) -> list[bytes]:
    return [str(each).encode() for each in rows["_id"].to_list()]


def test_many_small_files_of_the_past_are_joined(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.a.insert_one({"_id": 1, "n": 0})
    settings = MirrorSettings(
        root=str(tmp_path), chosen=mirrored_namespaces(["shop"]), kind=TableKind.VERSIONS
    )
    with DeploymentSource(server.uri) as source:
        engine = MirrorEngine(source, settings)
        while engine.copy_some() or engine.apply_some():
            pass
        for number in range(1, 41):
            client.shop.a.update_one({"_id": 1}, {"$set": {"n": number}})
            while not engine.apply_some():
                pass
        table = engine.tables["shop.a"]
    assert len(table.past) < 32
    rows = DeltaTable(table.place).to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(41))


def test_a_kind_belongs_to_its_table(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.a.insert_one({"_id": 1})
    client.shop.b.insert_one({"_id": 1})
    mirrored(server, tmp_path, TableKind.VERSIONS)
    with pytest.raises(UsageError, match=r"is of the kind versions, and stays so: give --kind versions"):
        mirrored(server, tmp_path, TableKind.CURRENT)
    client.shop.a.update_one({"_id": 1}, {"$set": {"n": 1}})
    mirrored(server, tmp_path, TableKind.VERSIONS, "shop.b")
    with pytest.raises(UsageError, match=r"lacks changes, .* give --recopy shop\.a to begin it again"):
        mirrored(server, tmp_path, TableKind.VERSIONS)
    mirrored(server, tmp_path, TableKind.VERSIONS, recopy=frozenset({"shop.a"}))
    table = MirrorTable.open(tmp_path / "shop" / "a")
    assert (table.rows, table.documents()) == (1, stored(client, "a"))


@pytest.mark.parametrize("kind", list(TableKind))
def test_a_collection_that_becomes_something_else_and_comes_back(
    kind: TableKind, server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.a.insert_one({"_id": 1})
    client.shop.b.insert_one({"_id": 2})
    mirrored(server, tmp_path, kind)
    client.shop.a.drop()
    client.shop.command("create", "a", viewOn="b", pipeline=[])
    assert set(mirrored(server, tmp_path, kind).tables) == {"shop.b"}
    assert MirrorTable.open(tmp_path / "shop" / "a").documents() == []
    client.shop.a.drop()
    client.shop.create_collection("log", capped=True, size=4096)
    client.shop.log.rename("b", dropTarget=True)
    assert not mirrored(server, tmp_path, kind).tables.keys() & {"shop.b"}
    client.shop.a.insert_one({"_id": 3})
    engine = mirrored(server, tmp_path, kind)
    assert documents_in(engine.tables["shop.a"].places, engine.through) == stored(client, "a")
