"""Stored pre-images are read by collection and time without reading the others."""

from typing import Any

from bson import Binary, Int64, MaxKey

from tailrace.testing.replica_set import ReplicaSet

Document = dict[str, Any]


def test_pre_images_of_an_interval_are_found_by_their_identifiers() -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client()
        for name in ("orders", "others"):
            collection = client.shop.create_collection(name, changeStreamPreAndPostImages={"enabled": True})
            collection.insert_many([{"_id": number} for number in range(30)])
            for number in range(30):
                collection.update_one({"_id": number}, {"$set": {"seen": True}})
        images = client.config["system.preimages"]
        stored = list(images.find())
        assert len(stored) == 60
        orders = client.shop.command("listCollections", filter={"name": "orders"})["cursor"]["firstBatch"]
        uuid = Binary(bytes(orders[0]["info"]["uuid"]), 4)
        own = [image for image in stored if image["_id"]["nsUUID"] == uuid]
        assert len(own) == 30

        def identifier(position: int, index: Any) -> Document:
            return {"nsUUID": uuid, "ts": own[position]["_id"]["ts"], "applyOpsIndex": index}

        between = {"_id": {"$gte": identifier(10, Int64(0)), "$lte": identifier(19, MaxKey())}}
        outside = {"_id": {"$gt": identifier(10, 0), "$lt": identifier(19, 0)}}
        beyond = {"_id": {"$gt": identifier(28, 0)}}
        for query, expected in (
            (between, own[10:20]),
            (outside, own[11:19]),
            ({"_id": identifier(7, 0)}, [own[7]]),
            ({"_id": {"$gte": identifier(9, 0), "$lt": identifier(3, 0)}}, []),
            (beyond, stored[stored.index(own[29]) :]),
        ):
            assert list(images.find(query).sort("_id", 1)) == expected
            assert list(images.find(query).sort("_id", -1)) == expected[::-1]
        explained = images.find(between).sort("_id", 1).explain()["executionStats"]
        assert explained["totalDocsExamined"] <= 11
