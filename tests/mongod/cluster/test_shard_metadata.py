"""Document keys in the oplog of a shard with sharded collections."""

from collections.abc import Iterable
from typing import Any

from pymongo import DeleteOne

from tailrace.mongod.cluster.placement.shard_metadata import set_shard_key
from tailrace.testing.replica_set import ReplicaSet

Document = dict[str, Any]


def _operations(entries: Iterable[Document]) -> Iterable[Document]:
    for entry in entries:
        yield from entry["o"].get("applyOps", [entry])


def _keys(shard: ReplicaSet) -> list[tuple[str, Document]]:
    """Kind and document key of every change of a document, in the order of the oplog."""
    changes = [change for change in _operations(shard.oplog()) if change.get("ns") == "shop.orders"]
    return [(change["op"], change["o"] if change["op"] == "d" else change["o2"]) for change in changes]


def _set_key(shard: ReplicaSet, *paths: str) -> None:
    shard.call(set_shard_key(shard.server.store, "shop.orders", paths))


def test_document_keys_begin_with_the_fields_of_the_shard_key() -> None:
    with ReplicaSet() as shard:
        client = shard.client()
        orders = client.shop.create_collection("orders")
        _set_key(shard, "at.place", "kind")
        orders.insert_many([{"_id": n, "kind": "a", "at": {"place": n}} for n in range(3)])
        orders.insert_one({"_id": 3})
        orders.update_one({"_id": 0}, {"$set": {"kind": "b"}})
        orders.find_one_and_replace({"_id": 1}, {"at": {"place": 5}})
        with client.start_session() as session, session.start_transaction():
            orders.update_one({"_id": 0}, {"$set": {"x": 1}}, session=session)
            orders.delete_one({"_id": 2}, session=session)
            orders.insert_one({"_id": 4, "kind": 4}, session=session)
        orders.delete_one({"_id": 0})
        orders.bulk_write([DeleteOne({"_id": 1}), DeleteOne({"_id": 4})])
        orders.delete_many({})
        assert _keys(shard) == [
            ("i", {"at.place": 0, "kind": "a", "_id": 0}),
            ("i", {"at.place": 1, "kind": "a", "_id": 1}),
            ("i", {"at.place": 2, "kind": "a", "_id": 2}),
            ("i", {"_id": 3}),
            ("u", {"at.place": 0, "kind": "a", "_id": 0}),
            ("u", {"at.place": 1, "kind": "a", "_id": 1}),
            ("u", {"at.place": 0, "kind": "b", "_id": 0}),
            ("d", {"at.place": 2, "kind": "a", "_id": 2}),
            ("i", {"kind": 4, "_id": 4}),
            ("d", {"at.place": 0, "kind": "b", "_id": 0}),
            ("d", {"at.place": 5, "_id": 1}),
            ("d", {"kind": 4, "_id": 4}),
            ("d", {"_id": 3}),
        ]
        assert next(list(key) for kind, key in _keys(shard) if kind == "i") == ["at.place", "kind", "_id"]


def test_a_shard_stores_the_key_until_it_is_removed() -> None:
    with ReplicaSet() as shard:
        shard.client().shop.create_collection("orders")
        _set_key(shard, "x")
        shard.restart()
        client = shard.client()
        client.shop.orders.insert_one({"_id": 1, "x": 1})
        client.shop.orders.create_index("x")
        client.shop.orders.rename("others")
        client.shop.others.rename("orders")
        client.shop.orders.insert_one({"_id": 2, "x": 2})
        assert next(iter(client.shop.list_collections()))["options"] == {}
        _set_key(shard)
        client.shop.orders.insert_one({"_id": 3, "x": 3})
        _set_key(shard, "_id")
        client.shop.orders.insert_one({"_id": 4, "x": 4})
        shard.call(set_shard_key(shard.server.store, "shop.orders", None))
        shard.call(set_shard_key(shard.server.store, "shop.nowhere", ["x"]))
        keys = [key for _, key in _keys(shard)]
        assert keys == [{"x": 1, "_id": 1}, {"x": 2, "_id": 2}, {"_id": 3}, {"_id": 4}]
        assert client.shop.list_collection_names() == ["orders"]
