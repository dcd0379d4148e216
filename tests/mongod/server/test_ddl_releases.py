"""DDL as a real 6.0 does it, and where the newest release differs."""

from collections.abc import Iterator

import pytest
from bson import DatetimeMS
from pymongo import DeleteMany, MongoClient
from pymongo.database import Database
from pymongo.errors import BulkWriteError, WriteError

from tests.mongod.server.oplog import entries, last_entry, refused
from tests.mongod.server.running import Document, RunningServer, connected, running


@pytest.fixture(scope="module")
def old_server() -> Iterator[RunningServer]:
    with running(server_version="6.0.27") as server:
        yield server


@pytest.fixture(scope="module")
def old_client(old_server: RunningServer) -> Iterator[MongoClient[Document]]:
    with connected(old_server, retryWrites=False) as client:
        yield client


@pytest.fixture
def old(old_client: MongoClient[Document], request: pytest.FixtureRequest) -> Database[Document]:
    return old_client[request.node.name[:40]]


def test_repeated_commands_are_errors_in_an_old_release(
    old: Database[Document], database: Database[Document]
) -> None:
    for each in (old, database):
        each.command("create", "c")
        each.command("create", "v", viewOn="c")
    with refused(48):
        old.command("create", "c")
    with refused(48):
        old.command("create", "v", viewOn="c")
    with refused(26):
        old.command("drop", "missing")
    database.command("create", "c")
    database.command("create", "v", viewOn="c")
    database.command("drop", "missing")


def test_capped_sizes_are_rounded_in_an_old_release(
    old_server: RunningServer, old: Database[Document]
) -> None:
    old.command("create", "c", capped=True, size=5000, max=0)
    logged = last_entry(old_server, old.name)["o"]
    assert (logged["size"], logged["max"]) == (5120, 2**31 - 1)
    assert type(logged["size"]) is int
    old.command("collMod", "c", cappedSize=100)
    (entry,) = old.list_collections()
    assert entry["options"]["size"] == 256


def test_indexes_that_an_old_release_does_not_have(
    old: Database[Document], database: Database[Document]
) -> None:
    wildcard = {"key": {"a": 1, "$**": 1}, "name": "w", "wildcardProjection": {"a": 0}}
    with refused(67):
        old.command("createIndexes", "c", indexes=[wildcard])
    database.command("createIndexes", "c", indexes=[wildcard])
    old.command("create", "capped", capped=True, size=1000)
    with refused(67):
        old.command(
            "createIndexes", "capped", indexes=[{"key": {"t": 1}, "name": "t", "expireAfterSeconds": 5}]
        )


def test_a_time_series_is_deleted_from_by_its_metadata_in_an_old_release(old: Database[Document]) -> None:
    old.create_collection("ts", timeseries={"timeField": "t", "metaField": "m"})
    old.ts.insert_one({"t": DatetimeMS(0), "m": 1, "v": 1})
    with pytest.raises(BulkWriteError) as failure:
        old.ts.bulk_write([DeleteMany({"v": 1})])
    assert failure.value.details["writeErrors"][0]["code"] == 72
    assert old.ts.delete_many({"m": 1}).deleted_count == 1


def test_entries_of_drops(old_server: RunningServer, old: Database[Document]) -> None:
    old.c.insert_one({})
    old.drop_collection("c")
    assert type(last_entry(old_server, old.name)["o2"]["numRecords"]) is int
    old.client.drop_database(old.name)
    assert "fromMigrate" not in last_entry(old_server, old.name)


# -- in all releases ----------------------------------------------------------------------------------------


def test_an_empty_database_is_dropped_with_an_event(
    server: RunningServer, client: MongoClient[Document], database: Database[Document]
) -> None:
    before = len(entries(server, database.name))
    client.drop_database(database.name)
    assert len(entries(server, database.name)) == before
    database.c.insert_one({})
    with database.watch() as stream:
        database.drop_collection("c")
        client.drop_database(database.name)
        assert [next(stream)["operationType"] for _ in range(3)] == ["drop", "dropDatabase", "invalidate"]
    before = len(entries(server, database.name))
    client.drop_database(database.name)
    assert len(entries(server, database.name)) == before


def test_indexes_are_dropped_in_the_order_of_their_changes(
    server: RunningServer, database: Database[Document]
) -> None:
    specs = [{"key": {name: 1}, "name": name} for name in "abc"]
    database.command("createIndexes", "c", indexes=specs)
    database.command("collMod", "c", index={"name": "a", "hidden": True})
    assert database.command("dropIndexes", "c", index=["*"])["msg"].startswith("non-_id")
    dropped = [entry["o"]["index"] for entry in entries(server, database.name)[-3:]]
    assert dropped == ["b", "c", "a"]


def test_an_index_change_that_changes_nothing(server: RunningServer, database: Database[Document]) -> None:
    database.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a", "hidden": True}])
    assert list(last_entry(server, database.name)["o"]) == ["createIndexes", "v", "hidden", "key", "name"]
    reply = database.command("collMod", "c", index={"name": "a", "hidden": True})
    assert "hidden_new" not in reply
    assert last_entry(server, database.name)["o"] == {"collMod": "c"}


def test_paths_through_two_arrays_are_refused(database: Database[Document]) -> None:
    database.command("createIndexes", "c", indexes=[{"key": {"a.b": 1, "d.0": 1}, "name": "i"}])
    with pytest.raises(WriteError) as failure:
        database.c.insert_one({"a": [1], "d": [1]})
    assert failure.value.code == 171
    database.c.insert_one({"a": [1], "d": 1})


def test_the_lowest_duplicate_is_reported(database: Database[Document]) -> None:
    database.c.insert_many([{"a": 2}, {"a": 2}, {"a": 1}, {"a": 1}])
    with refused(11000, "dup key: { a: 1 }"):
        database.command("createIndexes", "c", indexes=[{"key": {"a": 1}, "name": "a", "unique": True}])


def test_replies_that_say_less(database: Database[Document]) -> None:
    index = {"key": {"a": 1}, "name": "a"}
    database.command("createIndexes", "c", indexes=[index])
    assert "createdCollectionAutomatically" not in database.command("createIndexes", "c", indexes=[index])
    listed = database.command("listIndexes", "c")["cursor"]
    assert list(listed) == ["id", "ns", "firstBatch"]
    assert database.command("validate", "c", scandata=True, other="x")["valid"]
    assert "admin" in database.client.list_database_names()


def test_one_kind_of_pre_images(old_server: RunningServer, old: Database[Document]) -> None:
    both = {"recordPreImages": True, "changeStreamPreAndPostImages": {"enabled": True}}
    with refused(72, "simultaneously"):
        old.command("create", "c", **both)
    old.command("create", "c", recordPreImages=True)
    assert last_entry(old_server, old.name)["o"]["recordPreImages"] is True
    with refused(72, "simultaneously"):
        old.command("collMod", "c", **both)
    old.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True})
    assert old.c.options() == {"changeStreamPreAndPostImages": {"enabled": True}}
    with refused(72, "not supported on the admin database"):
        old.client.admin.command("create", "images", recordPreImages=True)


def test_a_transaction_calls_its_collections_created(database: Database[Document]) -> None:
    index = {"key": {"a": 1}, "name": "a"}
    with database.client.start_session() as session, session.start_transaction():
        database.command("create", "c", session=session)
        reply = database.command("createIndexes", "c", indexes=[index], session=session)
        assert reply["createdCollectionAutomatically"] is True
