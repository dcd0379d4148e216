"""`find` through PyMongo: results, their order, and refusals."""

import threading
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import pytest
from bson import Binary, Int64, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import ASCENDING, DESCENDING, MongoClient
from pymongo.database import Database
from pymongo.errors import ExecutionTimeout, OperationFailure
from pymongo.read_concern import ReadConcern

from tests.mongod.server.running import Document

Db = Database[Document]


def found(database: Db, **command: Any) -> list[Document]:
    """The first batch of a find with exactly these fields."""
    batch: list[Document] = database.command({"find": "c", **command})["cursor"]["firstBatch"]
    return batch


def ids(documents: Any) -> list[Any]:
    return [document["_id"] for document in documents]


def code_of(database: Db, **command: Any) -> int | None:
    with pytest.raises(OperationFailure) as failure:
        database.command({"find": "c", **command})
    return failure.value.code


@pytest.fixture
def numbers(database: Db) -> Db:
    """Ten documents: `_id` 0 to 9, `n` in reverse, `k` odd or even."""
    database.c.insert_many([{"_id": i, "n": 9 - i, "k": i % 2} for i in range(10)])
    return database


class TestSelection:
    def test_documents_are_returned_in_insertion_order(self, numbers: Db) -> None:
        assert ids(numbers.c.find()) == list(range(10))

    def test_a_missing_collection_is_empty(self, database: Db) -> None:
        reply = database.command({"find": "nothing"})
        assert reply["cursor"] == {"firstBatch": [], "id": 0, "ns": f"{database.name}.nothing"}

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"_id": 3}, [3]),
            ({"_id": 3.0}, [3]),
            ({"_id": {"$eq": 3}}, [3]),
            ({"_id": 3, "k": 0}, []),
            ({"_id": 77}, []),
            ({"_id": {"$in": [7, 2, 2, 99]}}, [2, 7]),
            ({"_id": {"$gt": 2, "$lt": 5}}, [3, 4]),
            ({"_id": {"$gte": 8}}, [8, 9]),
            ({"_id": {"$lt": 2}}, [0, 1]),
            ({"_id": {"$gt": "a"}}, []),
            ({"_id": {"$gt": 5, "$lt": 3}}, []),
            ({"_id": {"$ne": 0}, "n": {"$gt": 7}}, [1]),
            ({"$and": [{"_id": {"$gt": 3}}, {"_id": {"$lt": 6}}]}, [4, 5]),
            ({"$or": [{"_id": 1}, {"n": 1}]}, [1, 8]),
            ({"_id": None}, []),
        ],
    )
    def test_filters(self, numbers: Db, query: Document, expected: list[int]) -> None:
        assert sorted(ids(numbers.c.find(query))) == expected

    def test_ids_of_every_type_are_found(self, database: Db) -> None:
        keys: list[Any] = [
            ObjectId(), 1, 2.5, "x", "x" * 2000, {"a": 1}, {"a": {"b": [1]}}, Binary(b"ab", 5), True, None,
            Timestamp(1, 2), Int64(2**40), MinKey(), b"",
        ]  # fmt: skip
        database.c.insert_many([{"_id": key, "n": n} for n, key in enumerate(keys)])
        for n, key in enumerate(keys):
            assert [d["n"] for d in database.c.find({"_id": key})] == [n], key
            assert [d["n"] for d in database.c.find({"_id": {"$in": [key]}})] == [n], key

    def test_a_regex_for_an_id_searches(self, database: Db) -> None:
        database.c.insert_many([{"_id": "apple"}, {"_id": "pear"}])
        assert ids(database.c.find({"_id": Regex("^a")})) == ["apple"]

    def test_documents_are_returned_unchanged(self, database: Db) -> None:
        database.c.insert_one({"_id": 1, "b": 1, "a": Int64(1), "c": [1, {"d": 1.0}]})
        raw = RawBSONDocument(cast("bytes", next(database.c.find_raw_batches())))
        assert list(raw) == ["_id", "b", "a", "c"]
        assert isinstance(raw["a"], Int64)

    def test_let_defines_variables(self, numbers: Db) -> None:
        query = {"$expr": {"$eq": ["$_id", "$$wanted"]}}
        assert ids(numbers.c.find(query, let={"wanted": {"$add": [1, 2]}})) == [3]

    def test_a_collection_is_found_by_its_uuid(self, numbers: Db) -> None:
        (info,) = numbers.list_collections()
        uuid = Binary.from_uuid(UUID(bytes=bytes(info["info"]["uuid"])))
        reply = numbers.command({"find": uuid, "limit": 1})
        assert reply["cursor"]["ns"] == f"{numbers.name}.c"
        with pytest.raises(OperationFailure) as failure:
            numbers.command({"find": Binary(bytes(16), 4)})
        assert failure.value.code == 26

    def test_another_collections_uuid_is_refused(self, numbers: Db) -> None:
        assert code_of(numbers, collectionUUID=Binary(bytes(16), 4)) == 361


class TestSkipLimitSort:
    def test_skip_and_limit(self, numbers: Db) -> None:
        assert ids(numbers.c.find().skip(3).limit(4)) == [3, 4, 5, 6]
        assert ids(numbers.c.find().skip(20)) == []
        assert ids(numbers.c.find({"k": 1}).skip(1).limit(2)) == [3, 5]

    def test_a_negative_limit_is_a_single_batch(self, numbers: Db) -> None:
        assert ids(numbers.c.find().limit(-3)) == [0, 1, 2]

    def test_sorting(self, numbers: Db) -> None:
        assert ids(numbers.c.find().sort("n", ASCENDING)) == list(range(9, -1, -1))
        assert ids(numbers.c.find().sort([("k", DESCENDING), ("n", ASCENDING)])) == [
            9, 7, 5, 3, 1, 8, 6, 4, 2, 0,
        ]  # fmt: skip
        assert ids(numbers.c.find().sort("n", ASCENDING).skip(1).limit(2)) == [8, 7]
        assert ids(numbers.c.find().sort("_id", DESCENDING).limit(2)) == [9, 8]

    def test_sorting_by_an_index_is_the_same(self, numbers: Db) -> None:
        numbers.c.create_index([("k", 1), ("n", -1)])
        for spec in ([("k", 1), ("n", -1)], [("k", -1), ("n", 1)], [("k", 1), ("n", 1)], [("k", 1)]):
            with_index = [(d["k"], d["n"]) for d in numbers.c.find().sort(spec)]
            without = [(d["k"], d["n"]) for d in numbers.c.find().sort(spec).hint([("$natural", 1)])]
            key = len(spec)
            assert [pair[:key] for pair in with_index] == [pair[:key] for pair in without]

    def test_natural_order(self, numbers: Db) -> None:
        assert ids(numbers.c.find().sort("$natural", -1).limit(3)) == [9, 8, 7]
        assert ids(numbers.c.find({"_id": {"$lt": 3}}).hint([("$natural", -1)])) == [2, 1, 0]

    def test_long_values_are_sorted_although_index_keys_are_cut(self, database: Db) -> None:
        texts = ["x" * 500 + letter for letter in "hgfedcba"] + ["a", "z", "x" * 499]
        database.c.insert_many([{"_id": n, "t": text} for n, text in enumerate(texts)])
        database.c.create_index("t")
        assert [d["t"] for d in database.c.find().sort("t", 1)] == sorted(texts)
        assert [d["t"] for d in database.c.find().sort("t", -1).batch_size(2)] == sorted(texts, reverse=True)

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"skip": -1}, 2),
            ({"limit": -1}, 2),
            ({"batchSize": -1}, 2),
            ({"sort": {"a": 2}}, 15975),
            ({"sort": {"$natural": 1, "a": 1}}, 2),
            ({"sort": 1}, 14),
            ({"filter": []}, 14),
            ({"filter": {"a": {"$unknown": 1}}}, 2),
            ({"projection": {"a": 1, "b": 0}}, 31254),
            ({"unknown": 1}, 40415),
            ({"hint": 7}, 9),
            ({"hint": "no_such_index"}, 2),
            ({"hint": {"nope": 1}}, 2),
            ({"awaitData": True}, 9),
            ({"tailable": True}, 2),
            ({"collation": {"locale": "xx"}}, 2),
            ({"readConcern": {"level": "strong"}}, 9),
            ({"showRecordId": True, "apiVersion": "1", "apiStrict": True}, 323),
            ({"min": {"_id": 1}}, 51173),
            ({"min": {"n": 1}, "hint": {"_id": 1}}, 51174),
            ({"min": {"_id": 5}, "max": {"_id": 2}, "hint": {"_id": 1}}, 51175),
        ],
    )
    def test_refused_options(self, numbers: Db, options: Document, code: int) -> None:
        assert code_of(numbers, **options) == code

    @pytest.mark.parametrize("name", ["", ".a"])
    def test_bad_names(self, database: Db, name: str) -> None:
        with pytest.raises(OperationFailure) as failure:
            database.command({"find": name})
        assert failure.value.code == 73


class TestShape:
    def test_projections(self, numbers: Db) -> None:
        assert found(numbers, projection={"n": 1}, limit=1) == [{"_id": 0, "n": 9}]
        assert found(numbers, projection={"n": 0, "_id": 0}, limit=1) == [{"k": 0}]
        assert found(numbers, projection={"twice": {"$multiply": ["$n", 2]}}, limit=1) == [
            {"_id": 0, "twice": 18}
        ]

    def test_the_positional_projection_shows_the_element_that_matched(self, database: Db) -> None:
        database.c.insert_one({"_id": 1, "a": [1, 5, 9]})
        assert found(database, filter={"a": {"$gt": 4}}, projection={"a.$": 1}) == [{"_id": 1, "a": [5]}]

    def test_record_ids(self, numbers: Db) -> None:
        assert found(numbers, showRecordId=True, filter={"_id": 2}) == [
            {"_id": 2, "n": 7, "k": 0, "$recordId": 3}
        ]

    def test_index_keys(self, numbers: Db) -> None:
        numbers.c.create_index([("k", 1), ("n", 1)])
        assert found(numbers, returnKey=True, filter={"k": 1}, limit=2) == [
            {"k": 1, "n": 0},
            {"k": 1, "n": 2},
        ]
        assert found(numbers, returnKey=True, filter={"n": 1}) == [{}]

    def test_min_and_max_of_an_index(self, numbers: Db) -> None:
        numbers.c.create_index("n")
        assert ids(numbers.c.find().min([("n", 3)]).max([("n", 6)]).hint("n_1")) == [6, 5, 4]
        assert ids(numbers.c.find().min([("n", 8)]).hint("n_1").sort("n", -1)) == [0, 1]
        assert ids(numbers.c.find().max([("_id", 2)]).hint("_id_")) == [0, 1]

    def test_single_batch(self, numbers: Db) -> None:
        reply = numbers.command({"find": "c", "batchSize": 2, "singleBatch": True})
        assert reply["cursor"]["id"] == 0
        assert len(reply["cursor"]["firstBatch"]) == 2


class TestCollation:
    def test_of_the_command(self, database: Db) -> None:
        database.c.insert_many([{"_id": "a"}, {"_id": "B"}, {"_id": "A"}])
        english = {"locale": "en", "strength": 2}
        assert sorted(ids(found(database, filter={"_id": "a"}, collation=english))) == ["A", "a"]
        assert ids(found(database, sort={"_id": 1}, collation=english))[-1] == "B"
        assert ids(found(database, filter={"_id": "a"})) == ["a"]

    def test_of_the_collection(self, database: Db) -> None:
        database.create_collection("c", collation={"locale": "en", "strength": 2})
        database.c.insert_many([{"_id": 1, "t": "x"}, {"_id": 2, "t": "X"}])
        assert ids(found(database, filter={"t": "x"})) == [1, 2]
        assert ids(found(database, filter={"t": "x"}, collation={"locale": "simple"})) == [1]

    def test_an_index_of_the_simple_collation_is_not_misused(self, database: Db) -> None:
        database.c.insert_many([{"_id": 1, "t": "x"}, {"_id": 2, "t": "X"}])
        database.c.create_index("t")
        assert ids(found(database, filter={"t": "x"}, collation={"locale": "en", "strength": 2})) == [1, 2]


class TestReadConcern:
    @pytest.mark.parametrize("level", ["local", "available", "majority", "linearizable", "snapshot"])
    def test_every_level(self, numbers: Db, level: str) -> None:
        collection = numbers.c.with_options(read_concern=ReadConcern(level))
        assert collection.find_one({"_id": 4}) == {"_id": 4, "n": 5, "k": 0}

    def test_a_snapshot_cursor_sees_one_moment(self, numbers: Db) -> None:
        cursor = numbers.c.with_options(read_concern=ReadConcern("snapshot")).find(batch_size=2)
        next(cursor)
        numbers.c.delete_many({"_id": {"$gt": 4}})
        numbers.c.update_many({}, {"$set": {"n": "changed"}})
        assert [document["n"] for document in cursor] == [8, 7, 6, 5, 4, 3, 2, 1, 0]

    def test_other_cursors_see_changes_between_batches(self, numbers: Db) -> None:
        cursor = numbers.c.find(batch_size=2)
        next(cursor)
        numbers.c.delete_many({"_id": {"$gt": 4}})
        assert ids(cursor) == [1, 2, 3, 4]

    def test_a_snapshot_session_reads_at_one_time(self, client: MongoClient[Document], numbers: Db) -> None:
        with client.start_session(snapshot=True) as session:
            assert numbers.c.count_documents({}, session=session) == 10
            numbers.c.insert_one({"_id": 10})
            assert len(list(numbers.c.find(session=session))) == 10
            assert numbers.c.distinct("_id", session=session) == list(range(10))
        assert numbers.c.count_documents({}) == 11

    def test_a_time_that_is_too_new(self, numbers: Db) -> None:
        concern = {"level": "snapshot", "atClusterTime": Timestamp(2**32 - 1, 1)}
        assert code_of(numbers, readConcern=concern) == 72


class TestTransactions:
    def test_a_cursor_sees_what_its_transaction_writes(
        self, client: MongoClient[Document], numbers: Db
    ) -> None:
        with client.start_session() as session, session.start_transaction():
            cursor = numbers.c.find(batch_size=2, session=session)
            next(cursor)
            numbers.c.insert_one({"_id": "mine"}, session=session)
            numbers.c.delete_one({"_id": 9}, session=session)
            numbers.c.insert_one({"_id": "not mine"})
            assert ids(cursor) == [*range(1, 9), "mine"]
            by_index = numbers.c.find({"_id": {"$gte": 7}}, batch_size=1, session=session)
            assert ids(by_index) == [7, 8]

    def test_a_transaction_reads_one_moment(self, client: MongoClient[Document], numbers: Db) -> None:
        with client.start_session() as session, session.start_transaction():
            assert numbers.c.find_one({"_id": 1}, session=session) is not None
            numbers.c.delete_many({})
            assert ids(numbers.c.find(batch_size=3, session=session)) == list(range(10))
        assert numbers.c.find_one() is None


class TestViews:
    @pytest.fixture
    def view(self, numbers: Db) -> Db:
        pipeline = [{"$match": {"k": 1}}, {"$set": {"square": {"$multiply": ["$n", "$n"]}}}]
        numbers.command({"create": "odd", "viewOn": "c", "pipeline": pipeline})
        numbers.command(
            {"create": "small", "viewOn": "odd", "pipeline": [{"$match": {"square": {"$lt": 20}}}]}
        )
        return numbers

    def test_a_view_is_read_through_its_pipeline(self, view: Db) -> None:
        assert ids(view.odd.find()) == [1, 3, 5, 7, 9]
        assert ids(view.odd.find({"square": {"$gt": 10}}).sort("square", 1)) == [5, 3, 1]
        assert view.odd.find_one({"_id": 3}, {"square": 1}) == {"_id": 3, "square": 36}
        assert ids(view.odd.find().skip(1).limit(2)) == [3, 5]

    def test_a_view_on_a_view(self, view: Db) -> None:
        assert ids(view.small.find(batch_size=1)) == [5, 7, 9]

    def test_a_view_of_a_missing_collection(self, database: Db) -> None:
        database.command({"create": "v", "viewOn": "nothing", "pipeline": []})
        assert list(database.v.find({"a": 1})) == []

    @pytest.mark.parametrize("option", [{"showRecordId": True}, {"returnKey": True}, {"tailable": True}])
    def test_options_about_records_are_refused(self, view: Db, option: Document) -> None:
        with pytest.raises(OperationFailure) as failure:
            view.command({"find": "odd", **option})
        assert failure.value.code == 168

    def test_another_collation_is_refused(self, view: Db) -> None:
        with pytest.raises(OperationFailure) as failure:
            view.command({"find": "odd", "collation": {"locale": "en"}})
        assert failure.value.code == 167


class TestInternalCollections:
    def test_the_oplog_is_read_by_time(self, client: MongoClient[Document], numbers: Db) -> None:
        def found(query: Document | None = None, **options: Any) -> list[Any]:
            return [entry["ts"] for entry in client.local["oplog.rs"].find(query, {"ts": 1}, **options)]

        times = found()
        assert times == sorted(times)
        middle = times[len(times) // 2]
        after = [time for time in times if time > middle]
        assert found({"ts": {"$gt": middle}})[: len(after)] == after
        assert found({"ts": {"$gte": middle}}, limit=1) == [middle]
        assert found({"ts": {"$lt": times[2]}}) == times[:2]
        assert found({"ts": {"$lte": times[2]}}) == times[:3]
        assert found({"ts": times[2]}) == [times[2]]
        assert found({"ts": {"$lte": times[2]}}, sort=[("$natural", -1)]) == times[2::-1]
        both = {"ts": {"$gt": times[0], "$lt": times[3]}}
        assert found(both) == times[1:3]
        assert found(both, sort=[("ts", -1)]) == times[2:0:-1]
        assert found({"ts": {"$gt": times[2], "$lt": times[1]}}) == []

    def test_the_oplog_filtered_by_time_and_more(self, client: MongoClient[Document], numbers: Db) -> None:
        oplog = client.local["oplog.rs"]
        start = oplog.find_one({"ns": f"{numbers.name}.$cmd"})
        assert start is not None
        numbers.c.delete_one({"_id": 3})
        entries = list(oplog.find({"ts": {"$gte": start["ts"]}, "op": "d", "ns": f"{numbers.name}.c"}))
        assert [entry["o"] for entry in entries] == [{"_id": 3}]

    def test_the_newest_entry(self, client: MongoClient[Document], numbers: Db) -> None:
        numbers.c.insert_one({"_id": "newest"})
        newest = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
        assert newest is not None
        assert newest["o"] == {"_id": "newest"}

    def test_pre_images_and_transactions(self, client: MongoClient[Document], database: Db) -> None:
        database.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
        database.c.insert_one({"_id": 1})
        database.c.update_one({"_id": 1}, {"$set": {"a": 1}})
        images = client.config["system.preimages"].find({"preImage._id": 1})
        assert {"_id": 1} in [image["preImage"] for image in images]
        assert client.config.transactions.find_one() is not None


class TestTime:
    def test_a_read_that_takes_too_long(self, client: MongoClient[Document], database: Db) -> None:
        database.c.insert_many([{"_id": i, "a": list(range(200))} for i in range(2000)])
        query = {"$expr": {"$gt": [{"$sum": {"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}}}, 0]}}
        with pytest.raises(ExecutionTimeout) as failure:
            list(database.c.find(query).max_time_ms(10))
        assert failure.value.code == 50

    def test_a_long_read_does_not_block_others(self, client: MongoClient[Document], database: Db) -> None:
        """One connection reads a lot; pings on another are answered meanwhile."""
        database.c.insert_many([{"_id": i, "a": list(range(100))} for i in range(600)])
        query = {"$expr": {"$lt": [{"$sum": {"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}}}, 0]}}
        done = threading.Event()

        def scan() -> None:
            assert list(database.c.find(query)) == []
            done.set()

        reader = threading.Thread(target=scan)
        reader.start()
        answered = 0
        while not done.is_set():
            client.admin.command("ping")
            answered += 1
        reader.join()
        assert answered > 3


def test_time_series_show_measurements(database: Db) -> None:
    database.create_collection("c", timeseries={"timeField": "t", "metaField": "m"})
    time = datetime(2024, 1, 1, tzinfo=UTC)
    database.c.insert_many([{"_id": n, "t": time, "m": "a", "v": n} for n in range(3)])
    assert sorted(ids(database.c.find({"v": {"$gt": 0}}))) == [1, 2]
    assert found(database, filter={"v": 1}, projection={"t": 0}) == [{"m": "a", "_id": 1, "v": 1}]
    (bucket, *_) = found(database, rawData=True, limit=1)
    assert bucket["control"]["version"] == 1
