"""Updates that change a shard key: the document's new shard, the oplog entries and the events."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import InsertOne, MongoClient, ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError

from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.cluster.refusals import refusal
from tests.mongod.cluster.spreading import Orders, RetryableWriter, move, on_shards, outcomes, spread_orders

Document = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=2, routers=2) as cluster:
        yield cluster


@pytest.fixture
def orders(cluster: ShardedCluster, any_router: MongoClient[Document]) -> Orders:
    """Sharded by `x`, below 10 on the first shard; document 1 is there, document 2 on the second."""
    orders = spread_orders(cluster, any_router, 10)
    orders.insert_many([{"_id": 1, "x": 1, "n": 0}, {"_id": 2, "x": 12, "n": 0}])
    return orders


def test_on_the_same_shard_it_is_an_update(cluster: ShardedCluster, orders: Orders) -> None:
    assert orders.update_one({"x": 1}, {"$set": {"x": 5}}).modified_count == 1
    last = cluster.oplog(cluster.shards[0])[-1]
    assert (last["op"], last["o2"]) == ("u", {"x": 1, "_id": 1})
    assert on_shards(cluster, orders) == [[1], [2]]


@pytest.mark.parametrize(
    "update",
    [
        lambda orders: orders.update_one({"x": 1}, {"$set": {"x": 15}}),
        lambda orders: orders.update_one({"_id": 1}, {"$inc": {"x": 14}}),
        lambda orders: orders.update_one({"_id": 1}, [{"$set": {"x": {"$add": ["$x", 14]}}}]),
        lambda orders: orders.replace_one({"x": {"$lt": 9}}, {"x": 15, "n": 0}),
        lambda orders: orders.update_one({"_id": 1}, {"$set": {"x": 15}}, upsert=True),
        lambda orders: orders.bulk_write([UpdateOne({"_id": 1}, {"$set": {"x": 15}})]),
        lambda orders: orders.bulk_write([ReplaceOne({"_id": 1}, {"x": 15, "n": 0})], ordered=False),
        lambda orders: orders.database.client.bulk_write(
            [UpdateOne({"_id": 1}, {"$set": {"x": 15}}, namespace=orders.full_name)]
        ),
    ],
)
def test_a_document_moves_to_its_new_owner(
    cluster: ShardedCluster, orders: Orders, update: Callable[[Orders], Any]
) -> None:
    result = update(orders)
    assert (result.matched_count, result.modified_count) == (1, 1)
    assert on_shards(cluster, orders) == [[], [1, 2]]
    assert orders.find_one({"_id": 1}) == {"_id": 1, "x": 15, "n": 0}


def test_a_stream_shows_a_delete_and_an_insert_of_one_transaction(orders: Orders) -> None:
    with orders.watch() as stream:
        orders.update_one({"_id": 1}, {"$set": {"x": 15}})
        events = {event["operationType"]: event for event in (next(stream), next(stream))}
        orders.insert_one({"_id": 3, "x": 3})
        assert next(stream)["documentKey"] == {"x": 3, "_id": 3}
    assert events["delete"]["documentKey"] == {"x": 1, "_id": 1}
    assert events["insert"]["fullDocument"] == {"_id": 1, "x": 15, "n": 0}
    assert events["insert"]["lsid"] == events["delete"]["lsid"]
    assert events["insert"]["txnNumber"] == events["delete"]["txnNumber"]


def test_a_missing_field_counts_as_null(cluster: ShardedCluster, orders: Orders) -> None:
    orders.update_one({"_id": 2}, {"$unset": {"x": 1}})
    assert on_shards(cluster, orders) == [[1, 2], []]
    orders.update_one({"x": None}, {"$set": {"x": 20}})
    assert on_shards(cluster, orders) == [[1], [2]]


class TestRefusals:
    def test_outside_of_retryable_writes_and_transactions(
        self, cluster: ShardedCluster, orders: Orders
    ) -> None:
        plain = cluster.client(retryWrites=False)[orders.database.name].orders
        assert refusal(lambda: plain.update_one({"_id": 1}, {"$set": {"x": 15}})) == 20
        assert refusal(lambda: plain.find_one_and_update({"x": 1}, {"$set": {"x": 15}})) == 20
        assert plain.update_one({"_id": 1}, {"$set": {"x": 1, "n": 5}}).modified_count == 1

    def test_for_many_documents_at_once(self, orders: Orders) -> None:
        assert refusal(lambda: orders.update_many({"_id": 1}, {"$set": {"x": 15}})) == 72
        assert orders.update_many({}, {"$set": {"n": 4}}).modified_count == 2

    def test_arrays(self, orders: Orders) -> None:
        assert refusal(lambda: orders.update_one({"_id": 1}, {"$set": {"x": [1]}})) == 54
        with orders.database.client.start_session() as session:
            session.start_transaction()
            assert refusal(lambda: orders.replace_one({"_id": 1}, {"x": [1]}, session=session)) == 54

    def test_an_id_that_already_exists_on_the_new_owner(
        self, cluster: ShardedCluster, orders: Orders
    ) -> None:
        orders.insert_one({"_id": 1, "x": 30})
        bulk: list[InsertOne[Document] | UpdateOne] = [
            InsertOne({"_id": 5, "x": 5}),
            UpdateOne({"x": 1}, {"$set": {"x": 15}}),
            InsertOne({"_id": 6}),
        ]
        with pytest.raises(BulkWriteError) as raised:
            orders.bulk_write(bulk, ordered=False)
        (error,) = raised.value.details["writeErrors"]
        assert (error["index"], error["code"]) == (1, 11000)
        assert on_shards(cluster, orders) == [[1, 5, 6], [1, 2]]


class TestFindAndModify:
    def test_the_document_is_returned(self, cluster: ShardedCluster, orders: Orders) -> None:
        old = orders.find_one_and_update({"_id": 1}, {"$set": {"x": 15}})
        assert old == {"_id": 1, "x": 1, "n": 0}
        new = orders.find_one_and_update({"_id": 1}, {"$set": {"x": 2}}, {"x": 1}, return_document=True)
        assert new == {"_id": 1, "x": 2}
        assert on_shards(cluster, orders) == [[1], [2]]

    @pytest.mark.parametrize("new", [False, True])
    def test_it_is_returned_again(self, new: bool, cluster: ShardedCluster, orders: Orders) -> None:
        writer = RetryableWriter(cluster)
        command = {"findAndModify": "orders", "query": {"_id": 1}, "update": {"$inc": {"x": 14}}, "new": new}
        first = writer.send(command, orders.database.name)
        again = writer.repeat(command, orders.database.name, router=1)
        returned = outcomes(first, "value", "lastErrorObject")
        assert returned == [{"_id": 1, "x": 15 if new else 1, "n": 0}, {"n": 1, "updatedExisting": True}]
        assert outcomes(again, "value", "lastErrorObject", "retriedStmtId") == [*returned, 0]


class TestTransactions:
    def test_a_document_moves_with_the_transaction(self, cluster: ShardedCluster, orders: Orders) -> None:
        client = orders.database.client
        with client.start_session() as session:
            with session.start_transaction():
                orders.update_one({"_id": 1}, {"$set": {"x": 15}}, session=session)
                orders.update_one({"x": 15}, {"$inc": {"n": 1}}, session=session)
                assert orders.find_one({"_id": 1}) == {"_id": 1, "x": 1, "n": 0}
                found = orders.find_one_and_update(
                    {"n": 1}, {"$set": {"x": 3}}, session=session, return_document=True
                )
                assert found == {"_id": 1, "x": 3, "n": 1}
                orders.update_one({"_id": 2}, {"$set": {"x": 4}}, session=session)
                orders.update_one({"_id": 7}, {"$set": {"x": 40}}, session=session, upsert=True)
            assert on_shards(cluster, orders) == [[1, 2], [7]]
            session.start_transaction()
            orders.update_one({"_id": 1}, {"$set": {"x": 15}}, session=session)
            session.abort_transaction()
        assert orders.find_one({"_id": 1}) == {"_id": 1, "x": 3, "n": 1}
        assert on_shards(cluster, orders) == [[1, 2], [7]]

    def test_a_conflicting_transaction_is_waited_for(self, orders: Orders) -> None:
        client = orders.database.client
        done = threading.Event()

        def update() -> None:
            orders.update_one({"_id": 1}, [{"$set": {"x": {"$add": [14, "$n"]}}}])
            done.set()

        with client.start_session() as session:
            session.start_transaction()
            orders.update_one({"_id": 1}, {"$set": {"n": 5}}, session=session)
            thread = threading.Thread(target=update)
            thread.start()
            assert not done.wait(0.1)
            session.commit_transaction()
        thread.join()
        assert orders.find_one({"_id": 1}) == {"_id": 1, "x": 19, "n": 5}


class TestRetries:
    def test_a_move_is_not_repeated(self, cluster: ShardedCluster, orders: Orders) -> None:
        writer = RetryableWriter(cluster)
        updates = [
            {"q": {"_id": 2}, "u": {"$inc": {"n": 1}}},
            {"q": {"_id": 1}, "u": {"$inc": {"n": 1, "x": 14}}},
            {"q": {"_id": 3}, "u": {"$set": {"x": 15}}, "upsert": True},
        ]
        command = {"update": "orders", "updates": updates}
        first = writer.send(command, orders.database.name)
        assert outcomes(first, "n", "nModified", "retriedStmtIds") == [3, 2, None]
        for router in (0, 1):
            again = writer.repeat(command, orders.database.name, router=router)
            assert outcomes(again, "n", "nModified", "retriedStmtIds") == [3, 2, [0, 1, 2]]
            assert again["upserted"] == first["upserted"] == [{"index": 2, "_id": 3}]
        move(cluster, orders, {"x": 10}, cluster.shards[0])
        again = writer.repeat(command, orders.database.name)
        assert outcomes(again, "n", "nModified", "retriedStmtIds") == [3, 2, [0, 1, 2]]
        assert sorted(document["n"] for document in orders.find({"_id": {"$lt": 3}})) == [1, 1]

    def test_a_bulk_with_moves_is_not_repeated(self, cluster: ShardedCluster, orders: Orders) -> None:
        writer = RetryableWriter(cluster)
        operations = [
            {"insert": 0, "document": {"_id": 3, "x": 3}},
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"x": 14}}},
            {"update": 0, "filter": {"_id": 2}, "updateMods": {"$inc": {"x": -10}}},
            {"delete": 0, "filter": {"_id": 3}},
        ]
        command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": orders.full_name}]}
        for _ in range(3):
            reply = writer.send(command, "admin") if not writer.has_sent else writer.repeat(command, "admin")
            assert outcomes(reply, "nInserted", "nModified", "nDeleted", "nErrors") == [1, 2, 1, 0]
            assert [result["n"] for result in reply["cursor"]["firstBatch"]] == [1, 1, 1, 1]
        assert on_shards(cluster, orders) == [[2], [1]]

    def test_records_of_superseded_commands_are_removed(
        self, cluster: ShardedCluster, orders: Orders
    ) -> None:
        writer = RetryableWriter(cluster)
        change = {"x": {"$mod": [{"$add": ["$x", 10]}, 20]}}
        command = {"findAndModify": "orders", "query": {"_id": 1}, "update": [{"$set": change}]}
        for _ in range(5):
            returned = writer.send(command, orders.database.name)["value"]
        assert writer.repeat(command, orders.database.name)["value"] == returned
        for shard in cluster.shards:
            config = cluster.shard_client(shard).config
            records = list(config.transactions.find({"_id.id": writer.id}))
            assert len([record for record in records if "txnUUID" in record["_id"]]) == 1
            assert config.image_collection.count_documents({"_id.id": writer.id}) <= 1

    @pytest.mark.parametrize("fault", ["insert", "prepareTransaction", "commitTransaction"])
    def test_transient_errors_are_retried(self, cluster: ShardedCluster, orders: Orders, fault: str) -> None:
        data = {"failCommands": [fault], "errorCode": 112, "errorLabels": ["TransientTransactionError"]}
        with cluster.fail_point(data=data, mode={"times": 1}, shard=cluster.shards[1]):
            assert orders.update_one({"_id": 1}, {"$inc": {"x": 14}}).modified_count == 1
        assert on_shards(cluster, orders) == [[], [1, 2]]
        assert orders.find_one({"_id": 1}) == {"_id": 1, "x": 15, "n": 0}


@pytest.mark.parametrize("seed", [7, 8])
def test_documents_that_change_owners_repeatedly_lose_no_update(
    cluster: ShardedCluster, orders: Orders, seed: int
) -> None:
    orders.insert_many([{"_id": number, "x": number, "n": 0} for number in range(10, 14)])
    rounds, errors = 12, list[BaseException]()

    def work(writer: int) -> None:
        try:
            choose = random.Random(f"{seed}/{writer}")
            own = cluster.client(writer % 2)[orders.database.name].orders
            for _ in range(rounds):
                change = {"x": choose.randrange(20), "n": {"$add": ["$n", 1]}}
                result = own.update_one({"_id": choose.randrange(10, 14)}, [{"$set": change}])
                assert (result.matched_count, result.modified_count) == (1, 1)
        except BaseException as error:
            error.add_note(f"seed {seed}, writer {writer}")
            errors.append(error)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert sum(document["n"] for document in orders.find({"_id": {"$gte": 10}})) == 4 * rounds
    first, second = on_shards(cluster, orders)
    assert sorted(first + second) == [1, 2, 10, 11, 12, 13]
