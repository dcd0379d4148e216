"""Mirrored tables with deletion vectors, without Spark: when they are used, who reads them, refusals."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars
import pyarrow as pa
import pytest
from bson import encode
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from pymongo import MongoClient

from tailrace.errors import HistoryError, UsageError
from tailrace.lake.columns.kinds import TableKind
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.pipeline.mirror.given_schemas import given_schemas
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.testing.replica_set import ReplicaSet
from tests.pipeline.test_mirror import mirrored, stored
from tests.support.object_store import ObjectStoreServer

Client = MongoClient[dict[str, Any]]
COUNT = 4000


def change_some(client: Client) -> None:
    """Changes of a few rows anywhere, so that most files stay."""
    orders = client.shop.orders
    orders.update_many({"_id": {"$mod": [50, 3]}}, {"$inc": {"total": 1000}})
    orders.replace_one({"_id": 70}, {"_id": 70, "total": 7, "place": {"city": "Ulm"}})
    orders.delete_many({"_id": {"$mod": [100, 99]}})
    orders.insert_one({"_id": -1, "total": 1})
    orders.insert_many([{"_id": COUNT + n, "total": n} for n in range(5)])


def marked_table(server: ReplicaSet, client: Client, root: Path | str) -> MirrorTable:
    """A table in which some rows of most files are dead."""
    options: Any = {"range_documents": 1000, "file_bytes": 40_000, "deletion_vectors": True}
    if not client.shop.orders.estimated_document_count():
        client.shop.orders.insert_many([{"_id": n, "total": n, "note": "n" * 40} for n in range(COUNT)])
    mirrored(server, root, **options)
    change_some(client)
    return mirrored(server, root, **options).tables["shop.orders"]


def test_readers_that_know_deletion_vectors_see_the_documents(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    table = marked_table(server, client, tmp_path)
    assert sum(file.dead for file in table.live) > 100
    expected = [(each["_id"], each["total"]) for each in client.shop.orders.find().sort("_id")]
    rows = polars.scan_delta(table.place).select("_id", "total").sort("_id").collect()
    assert rows.rows() == expected
    assert polars.scan_delta(table.place).filter(polars.col("total") == 99).collect().height == 0
    delta = DeltaTable(table.place)
    assert (
        sorted(map(tuple, (r.values() for r in pa.table(delta.scan(["_id", "total"])).to_pylist())))
        == expected
    )
    query = QueryBuilder().register("t", delta).execute("SELECT count(*) AS n, sum(total) AS s FROM t")
    counted = pa.table(query.read_all()).to_pylist()
    assert counted == [{"n": len(expected), "s": sum(total for _, total in expected)}]
    assert table.documents() == stored(client, "orders")
    assert table.rows == len(expected)


def test_what_other_ways_of_reading_make_of_deletion_vectors(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    """What docs/mirror.md warns of: `deltalake` refuses some ways, and counts dead rows in others."""
    table = marked_table(server, client, tmp_path)
    delta = DeltaTable(table.place)
    for read in (delta.to_pyarrow_table, delta.to_pyarrow_dataset, delta.to_pandas):
        with pytest.raises(DeltaProtocolError, match="deletionVectors"):
            read()
    dead = sum(file.dead for file in table.live)
    assert delta.count() == table.rows + dead
    assert polars.read_parquet(delta.file_uris(), missing_columns="insert").height == table.rows + dead


def test_the_protocol_names_the_feature_and_what_every_table_has(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.orders.insert_many([{"_id": n} for n in range(10)])
    plain = mirrored(server, tmp_path).tables["shop.orders"]
    assert DeltaTable(plain.place).protocol().min_reader_version == 1
    table = marked_table(server, client, tmp_path)
    protocol = DeltaTable(table.place).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ["deletionVectors"]
    assert sorted(protocol.writer_features or ()) == ["appendOnly", "deletionVectors", "invariants"]
    properties = DeltaTable(table.place).metadata().configuration
    assert properties["delta.enableDeletionVectors"] == "true"


def test_statistics_of_files_with_dead_rows_are_those_of_all_rows(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    table = marked_table(server, client, tmp_path)
    marked = [file for file in table.live if file.dead]
    assert marked
    for file in marked:
        statistics = json.loads(file.stats)
        assert (statistics["numRecords"], statistics["tightBounds"]) == (file.rows, False)


def test_a_table_keeps_its_deletion_vectors_without_the_option(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    before = {file.path for file in marked_table(server, client, tmp_path).live}
    client.shop.orders.update_one({"_id": 1500}, {"$set": {"state": "paid"}})
    table = mirrored(server, tmp_path).tables["shop.orders"]
    assert table.has_vectors
    assert before <= {file.path for file in table.live}
    assert table.documents() == stored(client, "orders")


def test_tables_with_deletion_vectors_are_emptied_and_copied_again(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    marked_table(server, client, tmp_path)
    table = mirrored(server, tmp_path, recopy=frozenset({"shop.orders"})).tables["shop.orders"]
    assert table.documents() == stored(client, "orders")
    client.shop.orders.drop()
    client.shop.orders.insert_one({"_id": 5})
    assert mirrored(server, tmp_path).tables["shop.orders"].documents() == stored(client, "orders")
    client.shop.orders.update_one({"_id": 5}, {"$set": {"n": 1}})
    table = mirrored(server, tmp_path).tables["shop.orders"]
    assert table.documents() == stored(client, "orders")
    assert polars.read_delta(table.place).select("_id", "n").rows() == [(5, 1)]


def test_deletion_vectors_in_an_object_store(
    server: ReplicaSet, client: Client, objects: ObjectStoreServer
) -> None:
    place = objects.url(uuid4().hex)
    table = marked_table(server, client, place)
    assert sum(file.dead for file in table.live) > 100
    found = DeltaTable(table.place, storage_options=objects.environment()).scan(["_id"])
    assert pa.table(found).num_rows == client.shop.orders.estimated_document_count()


def test_rows_that_another_program_deletes_are_noticed(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    table = marked_table(server, client, tmp_path)
    log = tmp_path / "shop" / "orders" / "_delta_log"
    file = next(file for file in table.live if file.dead)
    assert file.vector is not None
    # As Delta Lake on Spark deletes a row: the file again, with its tags, and with a larger vector.
    vector = {**file.vector.descriptor, "cardinality": file.dead + 1}
    actions = [
        {"commitInfo": {"timestamp": 0, "operation": "DELETE"}},
        {"remove": {"path": file.path, "dataChange": True, "deletionVector": file.vector.descriptor}},
        {
            "add": {
                "path": file.path,
                "partitionValues": {},
                "size": file.size,
                "modificationTime": 0,
                "dataChange": True,
                "stats": file.stats,
                "tags": file.tags,
                "deletionVector": vector,
            }
        },
    ]
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{table.version + 1:020d}.json").write_text(text)
    with pytest.raises(HistoryError, match="was changed by another program"):
        MirrorTable.open(table.place)


def test_what_has_no_deletion_vectors_is_refused(server: ReplicaSet, client: Client, tmp_path: Path) -> None:
    chosen = mirrored_namespaces(["shop"])
    given = given_schemas({"shop.orders": "_id bigint"}, chosen, TableKind.CURRENT)
    for kind in (TableKind.VERSIONS, TableKind.CHANGES):
        with pytest.raises(UsageError, match=f"are for tables of the kind current, not {kind}: leave out"):
            MirrorSettings(str(tmp_path), chosen, kind, deletion_vectors=True)
    with pytest.raises(UsageError, match="leave out --deletion-vectors or --schema"):
        MirrorSettings(str(tmp_path), chosen, schemas=given, deletion_vectors=True)
    client.shop.orders.insert_one({"_id": 1})
    mirrored(server, tmp_path / "given", schemas=given)
    with pytest.raises(UsageError, match="has a given schema, and gets no deletion vectors"):
        mirrored(server, tmp_path / "given", deletion_vectors=True)
    mirrored(server, tmp_path / "marked", deletion_vectors=True)
    with pytest.raises(UsageError, match="has deletion vectors, and a table with a given schema has none"):
        mirrored(server, tmp_path / "marked", schemas=given)


def test_files_of_deletion_vectors_are_deleted_after_the_grace(
    server: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    client.shop.orders.insert_many([{"_id": n, "note": "n" * 40} for n in range(60_000)])
    folder = tmp_path / "shop" / "orders"
    mirrored(server, tmp_path, deletion_vectors=True)
    found: list[set[str]] = []
    for number in range(3):
        client.shop.orders.delete_many({"_id": {"$mod": [50, number]}})
        table = mirrored(server, tmp_path).tables["shop.orders"]
        found.append({path.name for path in folder.glob("deletion_vector_*.bin")})
    assert len(found[2]) == 3
    assert table.vacuum(3600.0) == 0
    assert table.vacuum(0.0) >= 2
    left = {path.name for path in folder.glob("deletion_vector_*.bin")}
    assert left == {file.vector.file for file in table.live if file.vector is not None} == found[2] - found[1]
    assert MirrorTable.open(table.place).documents() == [
        encode(each) for each in client.shop.orders.find().sort("_id")
    ]
