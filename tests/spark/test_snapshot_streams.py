"""`startingOffsets=snapshot` of `format("tailrace")`, called as Spark calls it: documents, then changes.

Without Java: every micro-batch is planned by a new reader, as if the query had been killed and started again.
"""

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Timestamp, decode, encode
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError, UsageError
from tailrace.events.update_diff.apply import apply_diff
from tailrace.pipeline.options.event_options import read_options
from tailrace.spark.change_stream_source import ChangeStreamReader, ChangeStreamStreamReader
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.spark.micro_batches import events_between
from tests.support.client_workload import RAW_OPTIONS, ClientWorkload

Client = MongoClient[dict[str, Any]]
EVENTS = StructType().add("token", StringType()).add("clusterTime", LongType()).add("event", BinaryType())
SMALL = ReadMaxRows(4)
LONG = [pytest.param(BASE_SEED + number, marks=pytest.mark.slow) for number in range(1, 10)]


@pytest.fixture(scope="module")
def server() -> Iterator[ReplicaSet]:
    with ReplicaSet() as found:
        yield found


@pytest.fixture
def client(server: ReplicaSet) -> Iterator[Client]:
    found: Client = MongoClient(server.uri)
    with found:
        found.drop_database("shop")
        yield found


def values_of(server: ReplicaSet | ShardedCluster | str, **options: str) -> dict[str, str]:
    return {
        "uri": server if isinstance(server, str) else server.uri,
        "ns": "shop.orders",
        "startingOffsets": "snapshot",
        "output": "event",
        "documentsAs": "bson",
        **options,
    }


def reader_of(values: dict[str, str]) -> ChangeStreamStreamReader:
    return ChangeStreamStreamReader(read_options(values), EVENTS)


class Query:
    """A query that is killed after every micro-batch."""

    def __init__(self, values: dict[str, str], limit: ReadLimit = SMALL) -> None:
        self.values = values
        self.limit = limit
        self.offset = reader_of(values).initialOffset()

    def batch(self) -> list[bytes] | None:
        """The next micro-batch, run twice as after a kill; None if there is none."""
        end = reader_of(self.values).latestOffset(self.offset, self.limit)
        if end == self.offset:
            return None
        events = events_between(reader_of(self.values), self.offset, end)
        assert events_between(reader_of(self.values), self.offset, end) == events
        self.offset = end
        return events

    def rest(self) -> list[bytes]:
        found: list[bytes] = []
        while (events := self.batch()) is not None:
            found += events
        return found


def kinds(events: list[bytes]) -> list[tuple[str, Any]]:
    decoded = [decode(event) for event in events]
    return [(event["operationType"], event.get("documentKey", {}).get("_id")) for event in decoded]


def test_documents_come_first_and_then_the_changes(server: ReplicaSet, client: Client) -> None:
    orders = client.shop.orders
    orders.insert_many([{"_id": n, "total": n} for n in range(10)])
    query = Query(values_of(server, maxEntriesPerTrigger="4"))
    first = query.batch()
    assert first
    one = decode(first[0])
    assert list(one) == ["_id", "operationType", "clusterTime", "fullDocument", "ns", "documentKey"]
    assert one["ns"] == {"db": "shop", "coll": "orders"}
    assert (one["operationType"], one["fullDocument"]) == ("read", {"_id": 0, "total": 0})
    assert isinstance(one["clusterTime"], Timestamp)
    # A document that was read, one that was not, and one that is new.
    orders.update_one({"_id": 0}, {"$set": {"total": 100}})
    orders.update_one({"_id": 9}, {"$set": {"total": 900}})
    orders.insert_one({"_id": 10})
    orders.delete_one({"_id": 8})
    rest = query.rest()
    assert sorted(kinds(first) + kinds(rest), key=str) == sorted(
        [*(("read", n) for n in range(10) if n != 8), ("update", 0), ("read", 10)], key=str
    )
    (nine,) = [decode(event) for event in rest if kinds([event]) == [("read", 9)]]
    assert nine["fullDocument"]["total"] == 900
    assert "snapshot" not in query.offset
    orders.delete_one({"_id": 9})
    assert kinds(query.rest()) == [("delete", 9)]


def test_a_batch_query_shows_the_documents_at_one_cluster_time(server: ReplicaSet, client: Client) -> None:
    client.shop.orders.insert_many([{"_id": n} for n in range(10)])
    client.shop.items.insert_one({"_id": "i"})
    client.shop.command("create", "view", viewOn="orders")
    options = {"ns": "shop.*", "maxEntriesPerTrigger": "4"}
    reader = ChangeStreamReader(read_options(values_of(server, **options)), EVENTS)
    partitions = reader.partitions()
    assert len(partitions) > 2
    found = [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]
    assert sorted(kinds([row["event"] for row in found]), key=str) == sorted(
        [*(("read", n) for n in range(10)), ("read", "i")], key=str
    )
    assert len({row["clusterTime"] for row in found}) == 1


def test_a_match_is_for_documents_that_are_read_too(server: ReplicaSet, client: Client) -> None:
    client.shop.orders.insert_many([{"_id": n} for n in range(10)])
    query = Query(values_of(server, pipeline='{"$match": {"fullDocument._id": {"$gte": 7}}}'))
    assert kinds(query.rest()) == [("read", 7), ("read", 8), ("read", 9)]


def test_a_collection_without_documents_has_no_reads(server: ReplicaSet, client: Client) -> None:
    query = Query(values_of(server))
    assert query.rest() == []
    batch = ChangeStreamReader(read_options(values_of(server)), EVENTS)
    assert [rows for each in batch.partitions() for rows in batch.read(each)] == []
    client.shop.orders.insert_one({"_id": 1})
    assert kinds(query.rest()) == [("insert", 1)]


def test_a_collection_that_is_dropped_meanwhile_ends_the_snapshot(server: ReplicaSet, client: Client) -> None:
    client.shop.orders.insert_many([{"_id": n} for n in range(10)])
    query = Query(values_of(server, maxEntriesPerTrigger="4"))
    query.batch()
    client.shop.orders.drop()
    client.shop.orders.insert_one({"_id": "other"})
    with pytest.raises(CommandError, match="dropped or renamed during its snapshot"):
        query.rest()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startAtOperationTime": "5:1"}, "startAtOperationTime exclude each other"),
        ({"pipeline": '[{"$project": {"ns": 1}}]'}, r"only \$match"),
        ({"endingOffsets": "5:1"}, "have no meaning"),
        ({"startingOffsets": "newest"}, "must be earliest, latest or snapshot"),
    ],
)
def test_what_a_snapshot_cannot_do_is_refused(
    server: ReplicaSet, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        read_options(values_of(server, **options))


def test_an_archive_has_no_snapshot() -> None:
    with pytest.raises(UsageError, match="from a deployment"):
        read_options({"oplog": "oplog.bson", "startingOffsets": "snapshot"})


def test_the_documents_of_a_sharded_collection_come_from_all_shards() -> None:
    with ShardedCluster(shards=2) as cluster, MongoClient[Any](cluster.uri) as client:
        client.admin.command("shardCollection", "shop.orders", key={"region": 1})
        client.shop.orders.insert_many([{"_id": n, "region": n % 10} for n in range(40)])
        client.admin.command("split", "shop.orders", middle={"region": 5})
        holder = client.config.chunks.find_one({"min": {"region": 5}}) or {}
        (other,) = [each["_id"] for each in client.config.shards.find() if each["_id"] != holder["shard"]]
        client.admin.command("moveChunk", "shop.orders", find={"region": 7}, to=other)
        query = Query(values_of(cluster, maxEntriesPerTrigger="15"), ReadMaxRows(15))
        first = query.batch()
        assert first
        read = [key for _, key in kinds(first)]
        changed = [read[0], next(n for n in range(40) if n not in read)]
        for number in changed:
            client.shop.orders.update_one({"_id": number, "region": number % 10}, {"$set": {"paid": True}})
        events = first + query.rest()
        assert sorted(key for kind, key in kinds(events) if kind == "read") == list(range(40))
        assert [pair for pair in kinds(events) if pair[0] != "read"] == [("update", changed[0])]
        (late,) = [decode(event) for event in events if kinds([event]) == [("read", changed[1])]]
        assert late["fullDocument"]["paid"]


@pytest.mark.parametrize("seed", [BASE_SEED, *LONG])
def test_reads_and_changes_are_the_collections(seed: int, server: ReplicaSet) -> None:
    check_reads_and_changes(server.uri, seed)


def check_reads_and_changes(uri: str, seed: int) -> None:
    """Random operations run during the snapshot; every change is applied to what was read before."""
    print(f"seed {seed}")
    prefix = f"snap{seed}"
    rng = random.Random(seed)
    options = {"ns": f"{prefix}_a.*", "showExpandedEvents": "true", "maxEntriesPerTrigger": "10"}
    options["showRawUpdateDescription"] = "true"
    with MongoClient[Any](uri, datetime_conversion="DATETIME_AUTO") as loud:
        database = loud.get_database(f"{prefix}_a", RAW_OPTIONS)
        workload = ClientWorkload(loud, seed, prefix)
        workload.run(150)
        _only_writes(workload)
        has_documents = any(_contents(database).values())
        query = Query(values_of(uri, **options), ReadMaxRows(10))
        ending = threading.Event()

        def work() -> None:
            while not ending.is_set():
                workload.run(3)
                ending.wait(rng.random() / 50)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            events = [event for _ in range(12) for event in query.batch() or ()]
        finally:
            ending.set()
            worker.join()
        events += query.rest()
        reads = [RawBSONDocument(event)["operationType"] == "read" for event in events]
        # Of collections that were empty, documents that come while they are read may be read, or inserted.
        assert any(reads[:5]) or not has_documents
        found = _applied(events)
        for collection, expected in _contents(database).items():
            assert found.get(collection, {}) == expected, collection


def _contents(database: Database[Any]) -> dict[str, dict[bytes, bytes]]:
    """The documents of each collection, by their keys."""
    names = database.list_collection_names(filter={"type": "collection"})
    return {
        name: {_key(document.raw): bytes(document.raw) for document in database[name].find()}
        for name in names
        if not name.startswith("system.")
    }


def _only_writes(workload: ClientWorkload) -> None:
    """No drops and renames: they end a snapshot."""
    workload._others = [
        (weight, other)
        for weight, other in workload._others
        if not any(word in other.__name__ for word in ("drop", "rename", "modify"))
    ]


def _key(document: bytes) -> bytes:
    found = rawbson.field(document, b"_id")
    assert found is not None
    return bytes([found[0]]) + found[1]


def _applied(events: list[bytes]) -> dict[str, dict[bytes, bytes]]:
    """What a consumer has: a change needs the document that was read or inserted before."""
    state: dict[str, dict[bytes, bytes]] = {}
    for raw in events:
        event = RawBSONDocument(raw)
        operation = event["operationType"]
        key_document = rawbson.subdocument(raw, b"documentKey")
        if key_document is None:
            continue
        documents, key = state.setdefault(event["ns"]["coll"], {}), _key(key_document)
        if operation in ("read", "insert"):
            assert key not in documents, f"{operation} of a document that is there"
            documents[key] = rawbson.subdocument(raw, b"fullDocument") or b""
            continue
        assert key in documents, f"{operation} of a document that is missing"
        if operation == "delete":
            del documents[key]
        elif operation == "replace":
            documents[key] = rawbson.subdocument(raw, b"fullDocument") or b""
        else:
            diff = rawbson.subdocument(raw, b"rawUpdateDescription") or encode({})
            inner = rawbson.subdocument(diff, b"diff")
            documents[key] = apply_diff(documents[key], inner if inner is not None else diff)
    return state
