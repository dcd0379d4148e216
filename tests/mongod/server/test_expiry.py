"""TTL indexes, expiring collections and pre-images, with a clock that the tests set."""

import datetime
from collections.abc import Callable
from typing import Any

from bson import DatetimeMS
from pymongo import MongoClient
from pymongo.database import Database

from tests.mongod.server.oplog import entries, refused
from tests.mongod.server.running import Document, RunningServer

HOUR = 3600


def now(server: RunningServer) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(server.server.wall.seconds(), datetime.UTC)


def ago(server: RunningServer, seconds: float) -> datetime.datetime:
    return now(server) - datetime.timedelta(seconds=seconds)


def ids(database: Database[Document], name: str = "c") -> list[Any]:
    return [document["_id"] for document in database[name].find({}, {"_id": 1}).sort("_id", 1)]


def images(client: MongoClient[Document]) -> int:
    return len(list(client.config["system.preimages"].find()))


def changed(client: MongoClient[Document], number: int, name: str = "c") -> Callable[[], int]:
    """A collection with that many images; returns a function that counts all images."""
    database = client.shop
    database.command("create", name, changeStreamPreAndPostImages={"enabled": True})
    database[name].insert_many([{"_id": n} for n in range(number)])
    database[name].update_many({}, {"$set": {"a": 1}})
    return lambda: images(client)


def set_expiry(client: MongoClient[Document], seconds: Any) -> None:
    options = {"preAndPostImages": {"expireAfterSeconds": seconds}}
    client.admin.command("setClusterParameter", {"changeStreamOptions": options})


# -- documents -------------------------------------------------------------------------------------------


def test_documents_expire_by_an_index(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    database.c.create_index("t", expireAfterSeconds=HOUR)
    database.c.insert_many(
        [
            {"_id": "old", "t": ago(own_server, 2 * HOUR)},
            {"_id": "older", "t": datetime.datetime(1950, 1, 1, tzinfo=datetime.UTC)},
            {"_id": "young", "t": now(own_server)},
            {"_id": "array", "t": [now(own_server), ago(own_server, 3 * HOUR)]},
            {"_id": "number", "t": 5},
            {"_id": "none"},
        ]
    )
    before = len(entries(own_server, "shop"))
    own_server.advance_clock(1)
    assert ids(database) == ["none", "number", "young"]
    (deleted,) = entries(own_server, "shop")[before:]
    assert {operation["op"] for operation in deleted["o"]["applyOps"]} == {"d"}
    assert {operation["o"]["_id"] for operation in deleted["o"]["applyOps"]} == {"old", "older", "array"}
    own_server.advance_clock(HOUR)
    assert ids(database) == ["none", "number"]
    assert database.command("validate", "c")["valid"]
    status = own_client.admin.command("serverStatus")["metrics"]["ttl"]
    assert status["deletedDocuments"] == 4
    assert status["passes"] >= 2


def test_a_descending_partial_index(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    database.c.create_index(
        [("t", -1)], expireAfterSeconds=0.5, partialFilterExpression={"done": True}, hidden=True
    )
    old = ago(own_server, HOUR)
    database.c.insert_many([{"_id": 1, "t": old, "done": True}, {"_id": 2, "t": old, "done": False}])
    own_server.advance_clock(1)
    assert ids(database) == [2]


def test_several_jobs_delete(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    database.c.create_index("t", expireAfterSeconds=1)
    database.c.insert_many([{"_id": n, "t": ago(own_server, HOUR)} for n in range(1203)])
    own_server.advance_clock(1)
    assert database.c.count_documents({}) == 0
    numbers = [len(entry["o"]["applyOps"]) for entry in entries(own_server, "shop") if _deletes(entry)]
    assert numbers == [500, 500, 203]


def _deletes(entry: Document) -> bool:
    return any(operation["op"] == "d" for operation in entry["o"].get("applyOps", ()))


def test_clustered_and_time_series_collections(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    database = own_client.shop
    clustered = {"key": {"_id": 1}, "unique": True}
    database.command("create", "cl", clusteredIndex=clustered, expireAfterSeconds=HOUR)
    young = now(own_server).replace(microsecond=0)
    database.cl.insert_many([{"_id": "text"}, {"_id": ago(own_server, 2 * HOUR)}, {"_id": young}])
    database.command("create", "ts", timeseries={"timeField": "t"}, expireAfterSeconds=HOUR)
    database.ts.insert_many([{"t": ago(own_server, 5 * HOUR)}, {"t": now(own_server)}])
    own_server.advance_clock(1)
    assert [document["_id"] for document in database.cl.find()] == ["text", young.replace(tzinfo=None)]
    assert database.command("collStats", "ts")["count"] == 1


def test_the_monitor_can_be_switched_off(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    own_client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    database = own_client.shop
    database.c.create_index("t", expireAfterSeconds=1)
    database.c.insert_one({"_id": 1, "t": ago(own_server, HOUR)})
    own_server.advance_clock(HOUR)
    assert ids(database) == [1]
    own_client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    database.command("collMod", "c", index={"name": "t_1", "expireAfterSeconds": 100 * HOUR})
    own_server.advance_clock(1)
    assert ids(database) == [1]
    database.command("collMod", "c", index={"name": "t_1", "expireAfterSeconds": 5})
    own_server.advance_clock(1)
    assert ids(database) == []


# -- pre-images --------------------------------------------------------------------------------------------


def test_images_expire_by_age(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    left = changed(own_client, 3)
    own_server.advance_clock(100 * HOUR)
    assert left() == 3
    set_expiry(own_client, 2 * HOUR)
    own_client.shop.c.update_one({"_id": 0}, {"$set": {"a": 2}})
    own_server.advance_clock(HOUR)
    assert left() == 1
    own_server.advance_clock(HOUR + 1)
    assert left() == 0
    status = own_client.admin.command("serverStatus")["changeStreamPreImages"]["purgingJob"]
    assert status["docsDeleted"] == 4
    assert status["bytesDeleted"] > 100
    assert own_client.config.command("collStats", "system.preimages")["count"] == 0


def test_each_collection_has_its_own_expiry(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    changed(own_client, 700, "a")
    own_server.advance_clock(10 * HOUR)
    left = changed(own_client, 5, "b")
    set_expiry(own_client, 5 * HOUR)
    own_server.advance_clock(1)
    assert left() == 5


def test_images_are_removed_with_their_entries(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    left = changed(own_client, 3)
    own_client.shop.other.insert_one({})
    own_server.advance_clock(1)
    assert left() == 3
    own_server.truncate_oplog()
    own_server.advance_clock(1)
    assert left() == 0


def test_the_fail_point_that_sets_the_time(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    left = changed(own_client, 3)
    set_expiry(own_client, HOUR)
    later = DatetimeMS(int(own_server.server.wall.milliseconds() + 2 * HOUR * 1000))
    data = {"currentTimeForTimeBasedExpiration": later}
    with own_server.fail_point("changeStreamPreImageRemoverCurrentTime", data=data):
        own_server.advance_clock(0)
    assert left() == 0


def test_the_setting_is_kept_over_a_restart(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    set_expiry(own_client, HOUR)
    left = changed(own_client, 2)
    own_server.restart()
    assert left() == 2
    own_server.advance_clock(2 * HOUR)
    assert left() == 0


def test_settings_that_are_refused(client: MongoClient[Document]) -> None:
    for seconds in (0, -1, "never", None):
        with refused(2):
            set_expiry(client, seconds)
