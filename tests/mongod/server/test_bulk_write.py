"""`bulkWrite`: one command for several collections."""

from typing import Any

import pytest
from bson import Binary
from pymongo import DeleteMany, DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateMany, UpdateOne
from pymongo.database import Database
from pymongo.errors import ClientBulkWriteException, OperationFailure

from tests.mongod.server.running import Document
from tests.mongod.server.writing import entries_of


def bulk(database: Database[Document], ops: list[Document], **fields: Any) -> Document:
    """The reply to a bulkWrite on the collections `a` and `b`."""
    info = [{"ns": f"{database.name}.{name}"} for name in ("a", "b")]
    return database.client.admin.command("bulkWrite", 1, **{"ops": ops, "nsInfo": info, **fields})


def test_all_kinds_of_operations_on_two_collections(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    a, b = f"{database.name}.a", f"{database.name}.b"
    operations: list[Any] = [
        InsertOne({"_id": 1, "n": 1}, namespace=a),
        InsertOne({"_id": 2, "n": 1}, namespace=b),
        UpdateOne({"_id": 1}, {"$set": {"n": 5}}, namespace=a),
        UpdateOne({"_id": 9}, {"$set": {"n": 5}}, upsert=True, namespace=b),
        ReplaceOne({"_id": 2}, {"z": 1}, namespace=b),
        DeleteOne({"_id": 1}, namespace=a),
    ]
    result = client.bulk_write(operations, verbose_results=True)
    assert (result.inserted_count, result.matched_count, result.modified_count) == (2, 2, 2)
    assert (result.upserted_count, result.deleted_count) == (1, 1)
    assert result.update_results[3].upserted_id == 9
    assert list(database.a.find()) == []
    assert list(database.b.find()) == [{"_id": 2, "z": 1}, {"_id": 9, "n": 5}]
    assert client.bulk_write([UpdateMany({}, {"$set": {"m": 1}}, namespace=b)]).modified_count == 2
    assert client.bulk_write([DeleteMany({}, namespace=b)]).deleted_count == 2


def test_the_result_of_each_operation(database: Database[Document]) -> None:
    ops: list[Document] = [
        {"insert": 0, "document": {"_id": 1}},
        {"update": 0, "filter": {"_id": 1}, "updateMods": {"$set": {"a": 1}}},
        {"update": 1, "filter": {"_id": 2}, "updateMods": [{"$set": {"a": 1}}], "upsert": True},
        {"delete": 0, "filter": {}, "multi": True},
    ]
    reply = bulk(database, ops)
    assert reply["cursor"] == {
        "firstBatch": [
            {"ok": 1.0, "idx": 0, "n": 1},
            {"ok": 1.0, "idx": 1, "n": 1, "nModified": 1},
            {"ok": 1.0, "idx": 2, "n": 1, "nModified": 0, "upserted": {"_id": 2}},
            {"ok": 1.0, "idx": 3, "n": 1},
        ],
        "id": 0,
        "ns": "admin.$cmd.bulkWrite",
    }
    sums = {name: value for name, value in reply.items() if name.startswith("n")}
    assert sums == {
        "nErrors": 0, "nInserted": 1, "nMatched": 1, "nModified": 1, "nUpserted": 1, "nDeleted": 1,
    }  # fmt: skip


def test_inserts_are_logged_together_and_others_separately(database: Database[Document]) -> None:
    database.create_collection("a")
    database.create_collection("b")
    ops: list[Document] = [{"insert": number, "document": {"_id": n}} for number in (0, 1) for n in (1, 2)]
    bulk(database, ops)
    first, second = entries_of(database)[2:]
    assert [inner["ns"] for inner in first["o"]["applyOps"]] == [f"{database.name}.a"] * 2
    assert [inner["ns"] for inner in second["o"]["applyOps"]] == [f"{database.name}.b"] * 2


def test_an_ordered_bulk_ends_at_the_first_error(database: Database[Document]) -> None:
    ops: list[Document] = [{"insert": 0, "document": {"_id": n}} for n in (1, 1, 2)]
    reply = bulk(database, ops)
    assert (reply["nErrors"], reply["nInserted"]) == (1, 1)
    _, error = reply["cursor"]["firstBatch"]
    assert (error["ok"], error["idx"], error["code"], error["n"]) == (0.0, 1, 11000, 0)
    assert error["keyValue"] == {"_id": 1}
    reply = bulk(database, ops, ordered=False)
    assert (reply["nErrors"], reply["nInserted"]) == (2, 1)


def test_errors_only(database: Database[Document]) -> None:
    ops: list[Document] = [{"insert": 0, "document": {"_id": n}} for n in (1, 2, 1, 3)]
    reply = bulk(database, ops, errorsOnly=True, ordered=False)
    assert [result["idx"] for result in reply["cursor"]["firstBatch"]] == [2]
    assert reply["nInserted"] == 3


def test_results_come_in_batches(client: MongoClient[Document], database: Database[Document]) -> None:
    ops: list[Document] = [{"insert": 0, "document": {"_id": n}} for n in range(5)]
    reply = bulk(database, ops, cursor={"batchSize": 2})
    assert [result["idx"] for result in reply["cursor"]["firstBatch"]] == [0, 1]
    more = client.admin.command("getMore", reply["cursor"]["id"], collection="$cmd.bulkWrite")
    assert [result["idx"] for result in more["cursor"]["nextBatch"]] == [2, 3, 4]
    assert more["cursor"]["id"] == 0


def test_results_in_a_transaction_come_in_batches(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    info = [{"ns": f"{database.name}.a"}]
    ops = [{"insert": 0, "document": {"_id": n}} for n in range(3)]
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": info, "cursor": {"batchSize": 1}}
    with client.start_session() as session, session.start_transaction():
        cursor = client.admin.command(command, session=session)["cursor"]
        more = {"getMore": cursor["id"], "collection": "$cmd.bulkWrite"}
        found = client.admin.command(more, session=session)["cursor"]["nextBatch"]
    assert [result["idx"] for result in [*cursor["firstBatch"], *found]] == [0, 1, 2]
    assert database.a.count_documents({}) == 3


def test_a_driver_sees_errors(client: MongoClient[Document], database: Database[Document]) -> None:
    a = f"{database.name}.a"
    with pytest.raises(ClientBulkWriteException) as failure:
        client.bulk_write([InsertOne({"_id": n}, namespace=a) for n in (1, 1)])
    assert failure.value.details["writeErrors"][0]["idx"] == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ops": []}, 16),
        ({"ops": [{"insert": 2, "document": {}}]}, 2),
        ({"ops": [{"insert": 0}]}, 40414),
        ({"ops": [{"insert": 0, "document": {}, "x": 1}]}, 40415),
        ({"ops": [{"replace": 0, "document": {}}]}, 9),
        ({"ops": [{"update": 0, "filter": {}}]}, 40414),
        ({"nsInfo": [{"ns": "a"}]}, 73),
        ({"nsInfo": [{"ns": "a.b"}, {"ns": "a.b"}]}, 2),
        ({"nsInfo": [{"ns": "a.b", "x": 1}]}, 40415),
        ({"unknown": 1}, 40415),
    ],
)
def test_wrong_commands_are_refused(database: Database[Document], fields: Document, code: int) -> None:
    ops: list[Document] = [{"insert": 0, "document": {}}]
    with pytest.raises(OperationFailure) as failure:
        bulk(database, **{"ops": ops, **fields})
    assert failure.value.code == code


def test_it_runs_on_admin_only(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as failure:
        database.command("bulkWrite", 1, ops=[{"insert": 0, "document": {}}], nsInfo=[{"ns": "a.b"}])
    assert failure.value.code == 13


def test_a_collection_uuid_must_match(database: Database[Document]) -> None:
    database.create_collection("a")
    info = [{"ns": f"{database.name}.a", "collectionUUID": Binary(bytes(16), 4)}]
    reply = bulk(database, [{"insert": 0, "document": {}}], nsInfo=info)
    assert [result["code"] for result in reply["cursor"]["firstBatch"]] == [361]
