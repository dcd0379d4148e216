"""What a real driver makes a real server write takes the fast path, and has the same rows as one by one."""

from typing import Any

import bson
from bson import CodecOptions, ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteOne, InsertOne, MongoClient, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from tailrace.lake.bulk.rows import BulkRows
from tests.lake.bulk_comparison import general_path, one_by_one
from tests.oracle.real_server import Document, RealReplicaSet

LARGE = "x" * 1_100_000
"""Sixteen of these are more than an entry can hold."""


def write(client: MongoClient[Document]) -> None:
    orders, items = client.bulk.orders, client.bulk.items
    for number in range(3):
        orders.insert_one({"number": number})
        items.insert_many([{"_id": f"{number}-{place}"} for place in range(4)])
    orders.update_one({"number": 1}, {"$set": {"state": "paid"}, "$unset": {"number": ""}})
    orders.replace_one({"number": 2}, {"number": 3})
    orders.update_one({"number": 9}, {"$set": {"new": True}}, upsert=True)
    orders.find_one_and_update({"number": 0}, {"$inc": {"number": 10}})
    orders.find_one_and_replace({"number": 10}, {"number": 4}, return_document=True)
    orders.find_one_and_delete({"number": 4})
    items.bulk_write(
        [InsertOne({"_id": "b"}), UpdateOne({"_id": "b"}, {"$set": {"c": 1}}), DeleteOne({"_id": "b"})]
    )
    items.update_many({}, {"$set": {"seen": True}})
    items.delete_many({"_id": {"$gt": "1"}})
    client.get_database("bulk").get_collection("items").insert_one({"_id": 7})
    with client.start_session() as session:
        items.insert_one({"_id": ObjectId()}, session=session)
        session.with_transaction(several)
        session.with_transaction(large)


def several(session: ClientSession) -> None:
    for name in ("orders", "items"):
        collection = session.client.bulk[name]
        collection.insert_one({"_id": 100}, session=session)
        collection.update_one({"_id": 100}, {"$set": {"state": "new"}}, session=session)
        collection.delete_one({"_id": 100}, session=session)


def large(session: ClientSession) -> None:
    session.client.bulk.items.insert_many([{"text": LARGE} for _ in range(16)], session=session)


def entries_after(client: MongoClient[Document], start: Timestamp) -> list[bytes]:
    raw = CodecOptions(document_class=RawBSONDocument)
    oplog: Collection[Any] = client.local.get_collection("oplog.rs", codec_options=raw)
    return [bytes(document.raw) for document in oplog.find({"ts": {"$gt": start}, "op": {"$ne": "n"}})]


def test_the_oplog_of_a_real_driver_takes_the_fast_path(real_set: RealReplicaSet) -> None:
    with real_set.client() as client:
        client.drop_database("bulk")
        for name in ("orders", "items"):
            client.bulk.create_collection(name)
        start = client.admin.command("appendOplogNote", data={})["operationTime"]
        write(client)
        entries = [raw for raw in entries_after(client, start) if b"\0bulk." in raw]
    by_time = {bson.decode(raw)["ts"]: raw for raw in entries}
    events_of = general_path(
        [""], lambda ts, _: by_time.get(Timestamp(ts >> 32, ts & 0xFFFFFFFF)), marks_end=True
    )
    rows = BulkRows(events_of, marks_end=True)
    found, expected = rows.batch({"": entries}), one_by_one(events_of, {"": entries})
    for name in expected.schema.names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name
    retryable = [raw for raw in entries if b"\x10stmtId\0" in raw]
    assert len(retryable) > 20
    assert found.num_rows > len(entries)
    # The two entries of the large transaction.
    assert (rows.entries, rows.general_entries) == (len(entries), 2)
