"""Writes on a router: their shards, their replies, and that nothing is done twice."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bson import ObjectId
from pymongo import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    MongoClient,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
    WriteConcern,
)
from pymongo.errors import BulkWriteError, ClientBulkWriteException, OperationFailure, WriteConcernError

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.spreading import (
    Orders,
    RetryableWriter,
    move,
    on_shards,
    outcomes,
    spread,
    spread_orders,
)

Document = dict[str, Any]

_names = (f"test{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3, routers=2) as cluster:
        yield cluster


@pytest.fixture
def orders(cluster: ShardedCluster, any_router: MongoClient[Document]) -> Orders:
    """Sharded by `x`: below 10 on the first shard, below 20 on the second, the rest on the third."""
    return spread_orders(cluster, any_router, 10, 20)


@pytest.fixture
def thirty(orders: Orders) -> Orders:
    """With documents 0 to 29, ten on each shard."""
    orders.insert_many([{"_id": number, "x": number, "n": 0} for number in range(30)])
    return orders


def failure(act: Callable[[], object]) -> tuple[int | None, str]:
    with pytest.raises(OperationFailure) as raised:
        act()
    return raised.value.code, str(raised.value)


class TestInserts:
    def test_each_document_goes_to_the_owner_of_its_key(
        self, cluster: ShardedCluster, thirty: Orders
    ) -> None:
        assert on_shards(cluster, thirty) == [list(range(start, start + 10)) for start in (0, 10, 20)]
        assert thirty.count_documents({}) == 30

    def test_a_missing_field_is_null_and_an_array_is_refused(
        self, cluster: ShardedCluster, orders: Orders
    ) -> None:
        orders.insert_one({"_id": "none"})
        assert on_shards(cluster, orders)[0] == ["none"]
        code, message = failure(lambda: orders.insert_one({"x": [1]}))
        assert code == 61
        assert "array" in message

    def test_the_first_write_creates_the_database(
        self, cluster: ShardedCluster, any_router: MongoClient[Document]
    ) -> None:
        name = next(_names)
        any_router[name].plain.insert_one({"_id": 1})
        any_router[name].plain.update_one({"_id": 1}, {"$set": {"a": 1}})
        primary = any_router.config.databases.find_one({"_id": name})
        assert primary is not None
        assert cluster.shard_client(primary["primary"])[name].plain.find_one() == {"_id": 1, "a": 1}

    def test_an_ordered_batch_ends_at_its_first_error(self, orders: Orders) -> None:
        documents = [{"_id": number % 4, "x": number % 4 * 10} for number in range(8)]
        with pytest.raises(BulkWriteError) as raised:
            orders.insert_many(documents)
        assert raised.value.details["nInserted"] == 4
        assert [(error["index"], error["code"]) for error in raised.value.details["writeErrors"]] == [
            (4, 11000)
        ]

    def test_errors_of_an_unordered_batch_have_the_indexes_of_the_command(self, orders: Orders) -> None:
        documents: list[Document] = [{"_id": number % 4, "x": number % 4 * 10} for number in range(8)]
        documents.insert(2, {"x": {"y": [1]}, "_id": 20})
        documents.insert(3, {"x": [1], "_id": 21})
        with pytest.raises(BulkWriteError) as raised:
            orders.insert_many(documents, ordered=False)
        assert raised.value.details["nInserted"] == 5
        errors = [(error["index"], error["code"]) for error in raised.value.details["writeErrors"]]
        assert errors == [(3, 61), (6, 11000), (7, 11000), (8, 11000), (9, 11000)]

    def test_a_generated_id_can_be_the_shard_key(
        self, cluster: ShardedCluster, any_router: MongoClient[Document]
    ) -> None:
        items = any_router[next(_names)].items
        any_router.admin.command("shardCollection", items.full_name, key={"_id": "hashed"})
        reply = items.database.command("insert", "items", documents=[{"n": n} for n in range(60)])
        assert reply["n"] == items.count_documents({}) == 60
        sizes = [len(ids) for ids in on_shards(cluster, items)]
        assert sum(sizes) == 60
        assert all(sizes)
        upserted = items.update_one({"n": 99}, {"$set": {"a": 1}}, upsert=True).upserted_id
        assert isinstance(upserted, ObjectId)
        assert items.find_one({"_id": upserted}) == {"_id": upserted, "n": 99, "a": 1}


class TestUpdatesAndDeletes:
    def test_all_matches_are_changed_on_all_shards(self, thirty: Orders) -> None:
        result = thirty.update_many({"_id": {"$gte": 5}}, {"$set": {"n": 1}})
        assert (result.matched_count, result.modified_count) == (25, 25)
        result = thirty.update_many({"x": {"$gte": 8, "$lt": 12}}, {"$inc": {"n": 1}})
        assert result.modified_count == 4
        assert thirty.count_documents({"n": 2}) == 4
        assert thirty.delete_many({"n": 2}).deleted_count == 4
        assert thirty.delete_many({}).deleted_count == 26

    @pytest.mark.parametrize(
        "query", [{"x": 15}, {"_id": 15}, {"x": {"$gt": 14, "$lt": 16}}, {"_id": 15, "n": 0}]
    )
    def test_one_document_is_found_on_any_shard(self, thirty: Orders, query: Document) -> None:
        result = thirty.update_one(query, {"$set": {"found": True}})
        assert (result.matched_count, result.modified_count) == (1, 1)
        assert [document["_id"] for document in thirty.find({"found": True})] == [15]
        assert thirty.replace_one(query, {"x": 15, "n": 0}).modified_count == 1
        assert thirty.delete_one(query).deleted_count == 1
        assert thirty.delete_one(query).deleted_count == 0
        assert thirty.update_one(query, {"$set": {"a": 1}}).matched_count == 0
        assert thirty.count_documents({}) == 29

    def test_one_of_many_is_changed_once(self, thirty: Orders) -> None:
        assert thirty.update_one({"n": 0}, {"$set": {"n": 1}}).modified_count == 1
        assert thirty.count_documents({"n": 1}) == 1
        assert thirty.update_one({"n": 0}, {"$set": {"n": 2}}, sort={"_id": -1}).modified_count == 1
        assert thirty.find_one({"n": 2}) == {"_id": 29, "x": 29, "n": 2}
        assert thirty.delete_one({}).deleted_count == 1

    def test_an_element_of_an_array_is_the_one_that_the_filter_found(self, orders: Orders) -> None:
        orders.insert_many([{"_id": n, "x": n, "a": [n, n + 1]} for n in (5, 15, 25)])
        orders.update_one({"a": 16}, {"$set": {"a.$": "here"}})
        assert orders.find_one({"_id": 15}) == {"_id": 15, "x": 15, "a": [15, "here"]}

    def test_an_invalid_statement_is_refused_although_nothing_matches(self, orders: Orders) -> None:
        assert failure(lambda: orders.update_one({"a": 1}, {"$nonsense": {"b": 1}}))[0] == 9
        assert failure(lambda: orders.update_many({"a": {"$nonsense": 1}}, {"$set": {"b": 1}}))[0] == 2
        assert failure(lambda: orders.delete_one({"a": {"$nonsense": 1}}))[0] == 2

    def test_orphans_are_not_changed(self, cluster: ShardedCluster, thirty: Orders) -> None:
        cluster.call(cluster.cluster.placement.mark_orphans(thirty.full_name, may_have=True))
        first = cluster.shard_client(cluster.shards[0])[thirty.database.name].orders
        first.insert_one({"_id": "stray", "x": 25, "n": 0})
        assert thirty.update_many({}, {"$inc": {"n": 1}}).modified_count == 30
        assert thirty.delete_one({"_id": "stray"}).deleted_count == 0
        assert thirty.update_one({"x": {"$gte": 0}, "_id": "stray"}, {"$set": {"n": 5}}).matched_count == 0
        assert thirty.delete_many({}).deleted_count == 30
        assert first.find_one() == {"_id": "stray", "x": 25, "n": 0}


class TestUpserts:
    def test_with_the_key_the_owner_inserts(self, cluster: ShardedCluster, orders: Orders) -> None:
        result = orders.update_one({"x": 15}, {"$set": {"a": 1}}, upsert=True)
        again = orders.update_one({"x": 15}, {"$set": {"a": 2}}, upsert=True)
        assert (again.matched_count, again.upserted_id) == (1, None)
        assert on_shards(cluster, orders) == [[], [result.upserted_id], []]

    @pytest.mark.parametrize("retries", [True, False])
    def test_without_the_key_the_owner_of_the_new_document_inserts_it(
        self, cluster: ShardedCluster, orders: Orders, retries: bool
    ) -> None:
        orders = cluster.client(retryWrites=retries)[orders.database.name].orders
        result = orders.update_one({"_id": "a"}, {"$set": {"x": 12}}, upsert=True)
        assert (result.matched_count, result.upserted_id) == (0, "a")
        assert orders.replace_one({"_id": "b", "x": 5}, {"x": 25}, upsert=True).upserted_id == "b"
        assert orders.update_one({"x": {"$gt": 30}}, {"$set": {"a": 1}}, upsert=True).upserted_id is not None
        first, second, third = on_shards(cluster, orders)
        assert (len(first), second, third) == (1, ["a"], ["b"])
        assert orders.update_one({"_id": "a"}, {"$set": {"n": 1}}, upsert=True).matched_count == 1

    def test_an_upsert_with_multi_needs_the_key(self, orders: Orders) -> None:
        assert failure(lambda: orders.update_many({"a": 1}, {"$set": {"b": 1}}, upsert=True))[0] == 61
        result = orders.update_many({"x": 11, "a": 1}, {"$set": {"b": 1}}, upsert=True)
        assert result.upserted_id is not None

    def test_a_duplicate_is_the_error_of_its_statement(self, orders: Orders) -> None:
        orders.insert_one({"_id": 1, "x": 12})
        update = UpdateOne({"a": 1}, {"$setOnInsert": {"_id": 1, "x": 12}}, upsert=True)
        with pytest.raises(BulkWriteError) as raised:
            orders.bulk_write([InsertOne({"x": 1}), update, InsertOne({"x": 2})])
        (error,) = raised.value.details["writeErrors"]
        assert (error["index"], error["code"], error["keyValue"]) == (1, 11000, {"_id": 1})
        assert orders.count_documents({}) == 2


class TestFindAndModify:
    def test_the_old_or_the_new_document_is_returned(self, thirty: Orders) -> None:
        assert thirty.find_one_and_update({"_id": 12}, {"$inc": {"n": 1}}) == {"_id": 12, "x": 12, "n": 0}
        new = thirty.find_one_and_update({"_id": 12}, {"$inc": {"n": 1}}, {"n": 1}, return_document=True)
        assert new == {"_id": 12, "n": 2}
        assert thirty.find_one_and_delete({"n": 0}, sort=[("_id", -1)]) == {"_id": 29, "x": 29, "n": 0}
        assert thirty.find_one_and_delete({"_id": 29}) is None
        assert thirty.find_one_and_replace({"x": 3}, {"x": 3, "r": 1}, return_document=True) == {
            "_id": 3, "x": 3, "r": 1,
        }  # fmt: skip

    def test_an_upsert_returns_the_new_document(self, cluster: ShardedCluster, orders: Orders) -> None:
        change = {"$set": {"x": 14, "a": {"b": 1, "c": 2}}}
        new = orders.find_one_and_update({"_id": 7}, change, {"a.b": 1}, upsert=True, return_document=True)
        assert new == {"_id": 7, "a": {"b": 1}}
        assert orders.find_one_and_update({"_id": 8}, change, upsert=True) is None
        assert on_shards(cluster, orders)[1] == [7, 8]

    def test_a_queue_gives_each_item_once(self, cluster: ShardedCluster, thirty: Orders) -> None:
        taken: list[Any] = []

        def take(router: int) -> None:
            items = cluster.client(router)[thirty.database.name].orders
            while (item := items.find_one_and_delete({"n": 0}, sort=[("_id", 1)])) is not None:
                taken.append(item["_id"])

        _together(take, [0, 1, 0, 1])
        assert sorted(taken) == list(range(30))


class TestBulks:
    def test_statements_of_all_kinds_in_order(self, thirty: Orders) -> None:
        result = thirty.bulk_write(
            [
                InsertOne({"_id": 30, "x": 30}),
                UpdateOne({"_id": 30}, {"$set": {"n": 1}}),
                UpdateMany({"n": 0}, {"$set": {"n": 1}}),
                DeleteOne({"n": 1, "_id": 30}),
                ReplaceOne({"_id": 31}, {"x": 31}, upsert=True),
                DeleteMany({"x": {"$lt": 10}}),
            ]
        )
        assert (result.inserted_count, result.matched_count, result.deleted_count) == (1, 31, 11)
        assert result.upserted_ids == {4: 31}
        assert thirty.count_documents({}) == 21

    def test_a_client_writes_to_several_collections(
        self, any_router: MongoClient[Document], thirty: Orders
    ) -> None:
        orders, plain = thirty.full_name, f"{thirty.database.name}.plain"
        result = any_router.bulk_write(
            [
                InsertOne({"_id": "a", "x": 1}, namespace=orders),
                InsertOne({"_id": "a"}, namespace=plain),
                UpdateMany({}, {"$inc": {"n": 1}}, namespace=orders),
                UpdateOne({"n": 7}, {"$set": {"x": 5}}, upsert=True, namespace=orders),
                DeleteOne({"_id": 25}, namespace=orders),
                DeleteMany({"x": {"$gte": 8, "$lt": 12}}, namespace=orders),
            ],
            verbose_results=True,
        )
        counts = (result.inserted_count, result.modified_count, result.upserted_count, result.deleted_count)
        assert counts == (2, 31, 1, 5)
        assert {index: update.modified_count for index, update in result.update_results.items()} == {
            2: 31,
            3: 0,
        }
        assert result.update_results[3].upserted_id is not None
        assert {index: gone.deleted_count for index, gone in result.delete_results.items()} == {4: 1, 5: 4}

    @pytest.mark.parametrize(("ordered", "failed", "inserted"), [(True, [2], 2), (False, [2, 4], 3)])
    def test_errors_have_the_indexes_of_the_clients_bulk(
        self,
        any_router: MongoClient[Document],
        orders: Orders,
        ordered: bool,
        failed: list[int],
        inserted: int,
    ) -> None:
        documents: list[Document] = [
            {"_id": 1, "x": 1},
            {"_id": 2, "x": 11},
            {"_id": 1, "x": 2},
            {"_id": 3, "x": 21},
            {"x": [1]},
        ]
        models = [InsertOne(document, namespace=orders.full_name) for document in documents]
        with pytest.raises(ClientBulkWriteException) as raised:
            any_router.bulk_write(models, ordered=ordered)
        assert [error["idx"] for error in raised.value.details["writeErrors"]] == failed
        assert raised.value.partial_result is not None
        assert raised.value.partial_result.inserted_count == inserted == orders.count_documents({})

    def test_the_results_of_a_bulk_may_need_several_replies(
        self, any_router: MongoClient[Document], orders: Orders
    ) -> None:
        long = "x" * 50_000
        models = [
            UpdateOne(
                {"_id": f"{number}{long}", "x": 5},
                {"$set": {"a": 1}},
                upsert=True,
                namespace=orders.full_name,
            )
            for number in range(350)
        ]
        result = any_router.bulk_write(models, verbose_results=True, ordered=False)
        assert result.upserted_count == len(result.update_results) == orders.count_documents({}) == 350


class TestDatabasesOfTheCluster:
    def test_admin_and_config_are_on_the_config_server(
        self, cluster: ShardedCluster, any_router: MongoClient[Document]
    ) -> None:
        any_router.config.own_things.insert_one({"_id": 1})
        any_router.admin.things.update_one({"_id": 2}, {"$set": {"a": 1}}, upsert=True)
        config = cluster.shard_client("config")
        assert config.config.own_things.find_one() == {"_id": 1}
        assert config.admin.things.find_one() == {"_id": 2, "a": 1}

    def test_local_is_refused(self, any_router: MongoClient[Document]) -> None:
        assert failure(lambda: any_router.local.things.insert_one({"_id": 1}))[0] == 20

    def test_a_write_concern_that_cannot_be_met_is_reported_once(self, thirty: Orders) -> None:
        concerned = thirty.with_options(write_concern=WriteConcern(w=5))
        with pytest.raises(WriteConcernError) as raised:
            concerned.update_many({}, {"$set": {"n": 5}})
        assert raised.value.code == 100
        assert thirty.count_documents({"n": 5}) == 30

    def test_the_write_concern_error_of_a_shard_is_reported(
        self, cluster: ShardedCluster, thirty: Orders
    ) -> None:
        data = {"failCommands": ["update"], "writeConcernError": {"code": 64, "errmsg": "late"}}
        with (
            cluster.fail_point(data=data, shard=cluster.shards[1]),
            pytest.raises(WriteConcernError) as raised,
        ):
            thirty.update_many({}, {"$set": {"n": 5}})
        assert raised.value.code == 64
        assert thirty.count_documents({"n": 5}) == 30


class TestRetries:
    @pytest.fixture
    def writer(self, cluster: ShardedCluster) -> RetryableWriter:
        return RetryableWriter(cluster)

    def test_a_repeated_command_repeats_nothing(
        self, cluster: ShardedCluster, thirty: Orders, writer: RetryableWriter
    ) -> None:
        database = thirty.database.name
        updates = [{"q": {"_id": number}, "u": {"$inc": {"n": 1}}} for number in (1, 11, 21)]
        command: Document = {"update": "orders", "updates": updates}
        first = writer.send(command, database)
        again = writer.repeat(command, database, router=1)
        assert outcomes(first, "n", "nModified", "retriedStmtIds") == [3, 3, None]
        assert outcomes(again, "n", "nModified", "retriedStmtIds") == [3, 3, [0, 1, 2]]
        assert thirty.count_documents({"n": 1}) == 3

    def test_a_statement_is_not_repeated_after_its_range_moved(
        self, cluster: ShardedCluster, thirty: Orders, writer: RetryableWriter
    ) -> None:
        database = thirty.database.name
        command: Document = {"update": "orders", "updates": [{"q": {"x": 15}, "u": {"$inc": {"n": 1}}}]}
        writer.send(command, database)
        move(cluster, thirty, {"x": 10}, cluster.shards[2])
        assert outcomes(writer.repeat(command, database), "n", "retriedStmtIds") == [1, [0]]
        inserts: Document = {"insert": "orders", "documents": [{"_id": "a", "x": 1}, {"_id": "b", "x": 15}]}
        writer.send(inserts, database)
        move(cluster, thirty, {"x": 10}, cluster.shards[0])
        thirty.delete_many({"_id": {"$in": ["a", "b"]}})
        assert outcomes(writer.repeat(inserts, database), "n", "writeErrors") == [2, None]
        assert [document["n"] for document in thirty.find({"x": 15})] == [1]

    def test_one_of_several_documents_is_changed_once(self, thirty: Orders, writer: RetryableWriter) -> None:
        database = thirty.database.name
        modify: Document = {"findAndModify": "orders", "query": {"n": 0}, "update": {"$inc": {"n": 1}}}
        first = writer.send(modify, database)
        again = writer.repeat(modify, database, router=1)
        assert again["value"] == first["value"]
        assert again["retriedStmtId"] == 0
        upsert = {"q": {"n": 5}, "u": {"$set": {"x": 25}}, "upsert": True}
        command: Document = {"update": "orders", "updates": [upsert]}
        first = writer.send(command, database)
        assert writer.repeat(command, database)["upserted"] == first["upserted"]
        delete: Document = {"delete": "orders", "deletes": [{"q": {"n": 0}, "limit": 1}]}
        writer.send(delete, database)
        assert writer.repeat(delete, database, router=1)["n"] == 1
        assert thirty.count_documents({}) == 30

    def test_only_statements_that_were_not_executed_are_executed(
        self, cluster: ShardedCluster, thirty: Orders, writer: RetryableWriter
    ) -> None:
        database = thirty.database.name
        updates = [{"q": {"x": number}, "u": {"$inc": {"n": 1}}} for number in (5, 15, 25)]
        command: Document = {"update": "orders", "updates": updates}
        data = {"failCommands": ["update"], "errorCode": 91}
        with cluster.fail_point(data=data, shard=cluster.shards[1]):
            failed = writer.send(command, database)
        assert outcomes(failed, "ok", "code", "errorLabels") == [0.0, 91, ["RetryableWriteError"]]
        assert thirty.count_documents({"n": 1}) == 1
        assert outcomes(writer.repeat(command, database), "n", "retriedStmtIds") == [3, [0]]
        assert thirty.count_documents({"n": 1}) == 3

    def test_a_driver_retries(self, cluster: ShardedCluster, thirty: Orders) -> None:
        data = {"failCommands": ["update"], "errorCode": 91}
        with cluster.fail_point(data=data, mode={"times": 1}, shard=cluster.shards[2]):
            assert thirty.update_one({"_id": 25}, {"$inc": {"n": 1}}).modified_count == 1
        assert thirty.find_one({"_id": 25}) == {"_id": 25, "x": 25, "n": 1}

    def test_an_older_number_is_refused(self, thirty: Orders, writer: RetryableWriter) -> None:
        command: Document = {"insert": "orders", "documents": [{"_id": "a", "x": 15}]}
        writer.send(command, thirty.database.name)
        writer.send({"insert": "orders", "documents": [{"_id": "b", "x": 25}]}, thirty.database.name)
        writer._number -= 1
        assert writer.repeat(command, thirty.database.name, router=1)["code"] == 225

    def test_multi_updates_are_not_retryable(self, thirty: Orders, writer: RetryableWriter) -> None:
        updates = [
            {"q": {"x": 1}, "u": {"$inc": {"n": 1}}},
            {"q": {}, "u": {"$inc": {"n": 1}}, "multi": True},
        ]
        assert writer.send({"update": "orders", "updates": updates}, thirty.database.name)["code"] == 72
        assert thirty.count_documents({"n": 0}) == 30

    def test_executed_statements_are_known_after_a_restart(self) -> None:
        with ShardedCluster(shards=2) as cluster:
            items = cluster.client().shop.items
            spread(cluster, items, {"x": 1}, {"x": 10})
            items.insert_many([{"_id": 1, "x": 1, "n": 0}, {"_id": 2, "x": 11, "n": 0}])
            writer = RetryableWriter(cluster)
            updates = [{"q": {"_id": number}, "u": {"$inc": {"n": 1}}} for number in (1, 2)]
            writer.send({"update": "items", "updates": updates}, "shop")
            cluster.restart()
            items = cluster.client().shop.items
            reply = writer.repeat({"update": "items", "updates": updates}, "shop")
            assert outcomes(reply, "n", "retriedStmtIds") == [2, [0, 1]]
            move(cluster, items, {"x": 10}, cluster.shards[0])
            reply = writer.repeat({"update": "items", "updates": updates}, "shop")
            assert outcomes(reply, "n", "retriedStmtIds") == [2, [0, 1]]
            assert [document["n"] for document in items.find()] == [1, 1]


def test_writers_on_all_routers_lose_nothing(cluster: ShardedCluster, thirty: Orders) -> None:
    def increment(router: int) -> None:
        items = cluster.client(router)[thirty.database.name].orders
        for number in range(30):
            assert items.update_one({"_id": number}, {"$inc": {"n": 1}}).modified_count == 1
            items.update_many({"x": {"$gte": 5, "$lt": 25}}, {"$inc": {"many": 1}})

    _together(increment, [0, 1, 0, 1])
    assert {document["n"] for document in thirty.find()} == {4}
    assert {document.get("many") for document in thirty.find()} == {120, None}


def _together(work: Callable[[int], None], numbers: list[int]) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
