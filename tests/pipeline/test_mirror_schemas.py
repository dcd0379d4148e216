"""A schema that the user gives for a mirrored collection, without Spark: rows, and dead letters."""

from pathlib import Path
from typing import Any

import polars
import pytest
from pymongo import MongoClient

from tailrace.errors import UsageError
from tailrace.lake.columns.kinds import TableKind
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.given_schemas import given_schemas, schemas_in
from tailrace.pipeline.mirror.job import MirrorJob
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet

Client = MongoClient[dict[str, Any]]
SCHEMA = "_id bigint not null, total double, state string"


def mirrored(
    server: ReplicaSet, root: Path, schema: str | None, kind: TableKind = TableKind.CURRENT
) -> MirrorTable:
    chosen = mirrored_namespaces(["shop"])
    given = {} if schema is None else {"shop.orders": schema}
    settings = MirrorSettings(
        str(root),
        chosen,
        kind,
        given_schemas(given, chosen, kind),
        range_documents=4,
        file_bytes=300,
    )
    with DeploymentSource(server.uri) as source:
        make = lambda progress: MirrorEngine(source, settings, progress=progress)  # noqa: E731
        engine = MirrorJob(make, None).run()
    assert engine is not None
    return engine.tables["shop.orders"]


def ids(rows: polars.DataFrame) -> list[Any]:
    return rows["_id"].sort().to_list()


def letters_in(root: Path) -> polars.DataFrame:
    return polars.read_delta(f"{root}/_dead_letters/shop/orders").sort("_key")


def test_documents_that_do_not_fit_are_dead_letters_until_they_do(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    orders = client.shop.orders
    orders.insert_many([{"_id": n, "total": "free" if n % 3 == 0 else n} for n in range(12)])
    table = mirrored(server, tmp_path, SCHEMA)
    assert ids(polars.read_delta(table.place)) == [1, 2, 4, 5, 7, 8, 10, 11]
    letters = letters_in(tmp_path)
    assert letters.select("_path", "_reason").unique().rows() == [
        ("total", 'the schema has double, the document has a string: "free"')
    ]
    assert len(letters) == 4
    assert letters["_token"].null_count() == 4

    orders.update_one({"_id": 0}, {"$set": {"state": "new"}})  # a diff on a dead letter
    orders.update_one({"_id": 3}, {"$set": {"total": 3.5, "more": [1]}})
    orders.update_one({"_id": 5}, {"$set": {"total": [5]}})
    orders.update_one({"_id": 7}, {"$set": {"state": 7}})
    orders.update_one({"_id": 7}, {"$set": {"state": "seven"}})
    orders.delete_one({"_id": 6})
    orders.insert_one({"_id": "x", "total": 1})
    orders.insert_one({"_id": 100, "total": 1})
    table = mirrored(server, tmp_path, SCHEMA)
    rows = polars.read_delta(table.place)
    assert ids(rows) == [1, 2, 3, 4, 7, 8, 10, 11, 100]
    assert rows.columns[:3] == ["_id", "total", "state"]
    assert "more" not in rows.columns
    assert rows.filter(polars.col("_id") == 3)["total"].to_list() == [3.5]
    assert rows.filter(polars.col("_id") == 7)["state"].to_list() == ["seven"]
    letters = letters_in(tmp_path)
    assert letters["_path"].to_list() == ["total", "total", "total", "_id"]
    assert letters["_token"].null_count() == 1  # the others were changed since the copy


def test_dead_letters_are_rows_after_the_schema_was_changed(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.orders.insert_many([{"_id": n, "total": str(n) if n % 2 else n} for n in range(10)])
    mirrored(server, tmp_path, SCHEMA)
    assert len(letters_in(tmp_path)) == 5
    client.shop.orders.update_one({"_id": 1}, {"$set": {"state": "paid"}})
    table = mirrored(server, tmp_path, "_id bigint not null, total string, state string")
    assert ids(polars.read_delta(table.place)) == [1, 3, 5, 7, 9]
    assert letters_in(tmp_path)["_reason"].str.contains("whole number").to_list() == [True] * 5
    table = mirrored(server, tmp_path, "_id bigint not null, total json, state string")
    rows = polars.read_delta(table.place).sort("_id")
    assert rows["total"].to_list() == ["0", '"1"', "2", '"3"', "4", '"5"', "6", '"7"', "8", '"9"']
    assert rows.filter(polars.col("_id") == 1)["state"].to_list() == ["paid"]
    assert len(letters_in(tmp_path)) == 0


def test_a_table_keeps_its_schema_and_can_get_one_later(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.orders.insert_many([{"_id": n, "total": n, "more": n} for n in range(10)])
    table = mirrored(server, tmp_path, None)
    assert "more" in polars.read_delta(table.place).columns
    mirrored(server, tmp_path, "_id bigint, total string")
    client.shop.orders.insert_one({"_id": 10, "total": "10"})
    table = mirrored(server, tmp_path, None)
    assert polars.read_delta(table.place).columns[:2] == ["_id", "total"]
    assert ids(polars.read_delta(table.place)) == [10]
    assert len(letters_in(tmp_path)) == 10


@pytest.mark.parametrize("kind", [TableKind.VERSIONS, TableKind.CHANGES])
def test_every_version_is_a_row_or_a_dead_letter(
    kind: TableKind, server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    schema = SCHEMA.replace(" not null", "")
    orders = client.shop.orders
    orders.insert_many([{"_id": n, "total": n} for n in range(3)])
    mirrored(server, tmp_path, schema, kind)
    for total in ("much", 2.5, "free"):
        orders.update_one({"_id": 1}, {"$set": {"total": total}})
    orders.delete_one({"_id": 2})
    table = mirrored(server, tmp_path, schema, kind)
    rows = polars.read_delta(table.place).filter(polars.col("_id") == 1).sort("_increment")
    assert sorted(rows["total"].to_list()) == [1.0, 2.5]
    letters = letters_in(tmp_path)
    assert len(letters) == 2
    if kind is TableKind.VERSIONS:
        assert rows["_is_current"].to_list() == [False, False]
        assert sorted(letters["_is_current"].to_list()) == [False, True]


def test_a_drop_clears_dead_letters(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client.shop.orders.insert_many([{"_id": n, "total": "free"} for n in range(3)])
    mirrored(server, tmp_path, SCHEMA)
    client.shop.orders.drop()
    client.shop.orders.insert_one({"_id": 1, "total": "much"})
    mirrored(server, tmp_path, SCHEMA)
    assert letters_in(tmp_path)["_reason"].to_list() == [
        'the schema has double, the document has a string: "much"'
    ]


def test_a_commit_that_was_not_published_is_published_at_the_next_start(
    server: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends between the commits of the two tables leaves the second one late."""
    client.shop.orders.insert_many([{"_id": n, "total": "free"} for n in range(3)])
    table = mirrored(server, tmp_path, SCHEMA)
    client.shop.orders.update_one({"_id": 1}, {"$set": {"total": 1.5}})
    letters = tmp_path / "_dead_letters" / "shop" / "orders" / "_delta_log"
    before = sorted(letters.iterdir())
    mirrored(server, tmp_path, SCHEMA)
    for commit in set(letters.iterdir()) - set(before):
        commit.unlink()
    assert len(letters_in(tmp_path)) == 3
    client.shop.orders.update_one({"_id": 2}, {"$set": {"state": "new"}})
    mirrored(server, tmp_path, SCHEMA)
    assert len(letters_in(tmp_path)) == 2
    assert ids(polars.read_delta(table.place)) == [1]


@pytest.mark.parametrize(
    ("schemas", "kind", "message"),
    [
        ({"shop.orders": "_id strin"}, TableKind.CURRENT, "shop.orders: the schema has the type 'strin'"),
        ({"stock.items": "_id string"}, TableKind.CURRENT, "stock.items, which is not mirrored"),
        ({"shop": "_id string"}, TableKind.CURRENT, "shop, which is not mirrored"),
        ({"shop.orders": "_id string, v array<variant>"}, TableKind.CURRENT, "use json"),
        ({"shop.orders": "_id string not null"}, TableKind.CHANGES, "leave out NOT NULL"),
        ({"shop.orders": 5}, TableKind.CURRENT, "shop.orders: "),
    ],
)
def test_schemas_that_cannot_be_used_are_refused(schemas: Any, kind: TableKind, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        given_schemas(schemas, mirrored_namespaces(["shop"]), kind)


def test_a_file_of_schemas_is_an_object() -> None:
    assert schemas_in('{"shop.orders": "_id string"}') == {"shop.orders": "_id string"}
    for text in ("_id string", "[]"):
        with pytest.raises(UsageError, match="file of schemas"):
            schemas_in(text)
