"""`aggregate`: pipelines on collections, views and the server; $out and $merge."""

from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import NotPrimaryError, OperationFailure

from tests.mongod.server.running import Document, RunningServer, connected

Db = Database[Document]


@pytest.fixture
def orders(database: Db) -> Db:
    database.c.insert_many([{"_id": i, "who": f"w{i % 3}", "total": i} for i in range(12)])
    database.people.insert_many([{"_id": f"w{i}", "name": f"Name {i}"} for i in range(3)])
    return database


def results(database: Db, *stages: Document, **options: Any) -> list[Document]:
    return list(database.c.aggregate(list(stages), **options))


def code_of(database: Db, *stages: Any, named: Any = "c", **options: Any) -> int | None:
    with pytest.raises(OperationFailure) as failure:
        database.command({"aggregate": named, "pipeline": list(stages), "cursor": {}, **options})
    return failure.value.code


class TestPipelines:
    def test_grouping_and_sorting(self, orders: Db) -> None:
        assert results(
            orders,
            {"$match": {"total": {"$gte": 2}}},
            {"$group": {"_id": "$who", "sum": {"$sum": "$total"}}},
            {"$sort": {"sum": -1}},
        ) == [{"_id": "w2", "sum": 26}, {"_id": "w1", "sum": 21}, {"_id": "w0", "sum": 18}]

    def test_an_empty_pipeline_returns_the_documents(self, orders: Db) -> None:
        assert results(orders) == list(orders.c.find())

    def test_a_missing_collection(self, database: Db) -> None:
        assert results(database, {"$match": {}}) == []
        assert results(database, {"$group": {"_id": None, "n": {"$sum": 1}}}) == []
        assert results(database, {"$count": "n"}) == []

    @pytest.mark.parametrize("size", [0, 1, 5, 1000])
    def test_batches(self, orders: Db, size: int) -> None:
        found = results(orders, {"$match": {"total": {"$lt": 9}}}, {"$skip": 1}, batchSize=size)
        assert [d["_id"] for d in found] == list(range(1, 9))

    def test_batches_of_blocking_stages_and_unions(self, orders: Db) -> None:
        found = results(
            orders,
            {"$sort": {"total": -1}},
            {"$project": {"_id": 1}},
            {"$unionWith": {"coll": "people", "pipeline": [{"$project": {"_id": 1}}]}},
            batchSize=2,
        )
        assert [d["_id"] for d in found] == [*range(11, -1, -1), "w0", "w1", "w2"]

    def test_the_first_stages_use_indexes(self, orders: Db) -> None:
        orders.c.create_index([("who", 1), ("total", -1)])
        found = results(orders, {"$match": {"who": "w1"}}, {"$sort": {"total": -1}}, {"$limit": 2})
        assert [d["_id"] for d in found] == [10, 7]
        found = results(orders, {"$match": {"who": "w1"}}, {"$match": {"total": {"$lt": 6}}})
        assert sorted(d["_id"] for d in found) == [1, 4]

    def test_hints(self, orders: Db) -> None:
        orders.c.create_index("total", sparse=True)
        orders.c.insert_one({"_id": "none"})
        assert len(results(orders, {"$match": {}}, hint="total_1")) == 12
        assert code_of(orders, hint="none") == 2

    def test_variables(self, orders: Db) -> None:
        (found,) = results(
            orders,
            {"$match": {"$expr": {"$eq": ["$_id", "$$which"]}}},
            {"$set": {"now": "$$NOW", "time": "$$CLUSTER_TIME", "twice": {"$multiply": ["$$which", 2]}}},
            let={"which": 4},
        )
        assert found["twice"] == 8
        assert isinstance(found["time"], Timestamp)

    def test_collations(self, orders: Db) -> None:
        strong = {"locale": "en", "strength": 2}
        assert len(results(orders, {"$match": {"who": "W1"}}, collation=strong)) == 4
        assert results(orders, {"$match": {"who": "W1"}}) == []

    def test_the_collection_of_another_uuid(self, orders: Db) -> None:
        with pytest.raises(OperationFailure) as failure:
            results(
                orders,
                collectionUUID=orders.list_collections(filter={"name": "people"}).next()["info"]["uuid"],
            )
        assert failure.value.code == 361
        assert failure.value.details is not None
        assert failure.value.details["actualCollection"] == "people"

    def test_errors_while_running(self, orders: Db) -> None:
        assert code_of(orders, {"$set": {"x": {"$divide": [1, "$total"]}}}) == 2

    def test_documents_without_a_collection(self, database: Db) -> None:
        stages: list[Document] = [{"$documents": [{"a": 1}, {"a": 2}]}, {"$match": {"a": 2}}]
        assert list(database.aggregate(stages)) == [{"a": 2}]


class TestOtherCollections:
    def test_look_ups(self, orders: Db) -> None:
        (found,) = results(
            orders,
            {"$match": {"_id": 4}},
            {"$lookup": {"from": "people", "localField": "who", "foreignField": "_id", "as": "person"}},
        )
        assert found["person"] == [{"_id": "w1", "name": "Name 1"}]

    def test_look_ups_in_views_and_with_pipelines(self, orders: Db) -> None:
        stages = [{"$match": {"total": {"$gt": 5}}}, {"$project": {"who": 1}}]
        orders.command({"create": "large", "viewOn": "c", "pipeline": stages})
        found = list(
            orders.people.aggregate(
                [
                    {
                        "$lookup": {
                            "from": "large",
                            "localField": "_id",
                            "foreignField": "who",
                            "as": "orders",
                        }
                    },
                    {"$project": {"n": {"$size": "$orders"}}},
                ]
            )
        )
        assert [d["n"] for d in found] == [2, 2, 2]
        found = list(
            orders.people.aggregate(
                [
                    {
                        "$lookup": {
                            "from": "c",
                            "let": {"w": "$_id"},
                            "pipeline": [{"$match": {"$expr": {"$eq": ["$who", "$$w"]}}}, {"$count": "n"}],
                            "as": "counted",
                        }
                    }
                ]
            )
        )
        assert [d["counted"] for d in found] == [[{"n": 4}]] * 3

    def test_many_look_ups_in_small_batches(self, orders: Db) -> None:
        lookup = {"from": "people", "localField": "who", "foreignField": "_id", "as": "p"}
        found = results(orders, {"$lookup": lookup}, {"$unwind": "$p"}, batchSize=1)
        assert [d["p"]["_id"] for d in found] == [f"w{i % 3}" for i in range(12)]

    def test_views(self, orders: Db) -> None:
        orders.command({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"who": "w2"}}]})
        assert [d["_id"] for d in orders.v.aggregate([{"$match": {"total": {"$gt": 4}}}])] == [5, 8, 11]
        assert list(orders.v.aggregate([{"$count": "n"}])) == [{"n": 4}]

    def test_graphs(self, database: Db) -> None:
        database.c.insert_many([{"_id": i, "next": i + 1} for i in range(5)])
        graph = {
            "from": "c",
            "startWith": "$next",
            "connectFromField": "next",
            "connectToField": "_id",
            "as": "all",
        }
        (found,) = results(database, {"$match": {"_id": 2}}, {"$graphLookup": graph})
        assert sorted(d["_id"] for d in found["all"]) == [3, 4]

    def test_in_a_transaction(self, client: MongoClient[Document], orders: Db) -> None:
        with client.start_session() as session, session.start_transaction():
            orders.people.insert_one({"_id": "w9"}, session=session)
            orders.c.insert_one({"_id": 99, "who": "w9"}, session=session)
            lookup = {"from": "people", "localField": "who", "foreignField": "_id", "as": "p"}
            stages: list[Document] = [{"$match": {"_id": 99}}, {"$lookup": lookup}]
            (found,) = orders.c.aggregate(stages, session=session)
            assert found["p"] == [{"_id": "w9"}]
            assert list(orders.c.aggregate(stages)) == []


class TestServerState:
    def test_current_op(self, client: MongoClient[Document]) -> None:
        operations = list(client.admin.aggregate([{"$currentOp": {}}]))
        assert any("$currentOp" in str(operation.get("command")) for operation in operations)
        assert code_of(client.shop, {"$currentOp": {}}, named=1) == 73
        assert code_of(client.admin, {"$currentOp": {"nonsense": True}}, named=1) == 9
        assert code_of(client.admin, {"$currentOp": {"idleCursors": 1}}, named=1) == 9

    def test_sessions(self, client: MongoClient[Document]) -> None:
        with client.start_session() as session:
            client.admin.command("ping", session=session)
            found = client.admin.aggregate([{"$listLocalSessions": {}}], session=session)
            assert session.session_id["id"] in [shown["_id"]["id"] for shown in found]

    def test_statistics_of_a_collection(self, orders: Db) -> None:
        (found,) = results(orders, {"$collStats": {"count": {}, "storageStats": {}, "latencyStats": {}}})
        assert found["ns"] == f"{orders.name}.c"
        assert found["count"] == found["storageStats"]["count"] == 12
        assert "reads" in found["latencyStats"]
        assert code_of(orders, {"$collStats": {"count": {}}}, named="nothing") == 26
        assert code_of(orders, {"$collStats": 1}) == 5447000

    def test_statistics_of_views(self, orders: Db) -> None:
        orders.command("create", "v", viewOn="c", pipeline=[{"$match": {"total": 3}}])
        orders.command("create", "whole", viewOn="c", pipeline=[])
        assert code_of(orders, {"$collStats": {"count": {}}}, named="v") == 166
        (found,) = orders.v.aggregate([{"$collStats": {"latencyStats": {}}}])
        assert found["ns"] == f"{orders.name}.v"
        assert [index["name"] for index in orders.whole.aggregate([{"$indexStats": {}}])] == ["_id_"]
        assert code_of(orders, {"$indexStats": {}}, named="v") == 40602

    def test_statistics_of_indexes(self, orders: Db) -> None:
        orders.c.create_index("total")
        found = results(orders, {"$indexStats": {}})
        assert [(index["name"], index["key"]) for index in found] == [
            ("_id_", {"_id": 1}),
            ("total_1", {"total": 1}),
        ]

    def test_index_uses_are_counted(self, orders: Db) -> None:
        orders.c.create_index("total")
        list(orders.c.find({"total": 3}))
        results(orders, {"$match": {"total": {"$gt": 3}}})
        uses = {index["name"]: index["accesses"]["ops"] for index in results(orders, {"$indexStats": {}})}
        assert uses["total_1"] == 2


class TestOut:
    def test_results_replace_a_collection(self, orders: Db) -> None:
        orders.target.insert_one({"_id": "old"})
        orders.target.create_index("who", name="kept")
        results(orders, {"$match": {"who": "w1"}}, {"$out": "target"})
        assert sorted(d["_id"] for d in orders.target.find()) == [1, 4, 7, 10]
        assert "kept" in orders.target.index_information()
        assert sorted(orders.list_collection_names()) == ["c", "people", "target"]

    def test_a_new_collection(self, orders: Db) -> None:
        assert results(orders, {"$out": "fresh"}) == []
        assert orders.fresh.count_documents({}) == 12

    def test_no_results_leave_an_empty_collection(self, orders: Db) -> None:
        orders.target.insert_one({"_id": "old"})
        results(orders, {"$match": {"_id": "none"}}, {"$out": "target"})
        assert orders.target.count_documents({}) == 0
        assert "target" in orders.list_collection_names()

    def test_another_database(self, client: MongoClient[Document], orders: Db) -> None:
        other = f"{orders.name}_other"
        results(orders, {"$out": {"db": other, "coll": "t"}})
        assert client[other].t.count_documents({}) == 12

    def test_the_collection_itself(self, orders: Db) -> None:
        results(orders, {"$match": {"total": {"$gt": 9}}}, {"$out": "c"})
        assert [d["_id"] for d in orders.c.find()] == [10, 11]

    def test_a_failure_leaves_the_old_collection(self, orders: Db) -> None:
        orders.target.insert_one({"_id": "old"})
        orders.target.create_index("who", unique=True)
        assert code_of(orders, {"$out": "target"}) == 11000
        assert [d["_id"] for d in orders.target.find()] == ["old"]
        assert sorted(orders.list_collection_names()) == ["c", "people", "target"]

    def test_validators_stay(self, orders: Db) -> None:
        orders.create_collection("target", validator={"total": {"$lt": 5}})
        assert code_of(orders, {"$out": "target"}) == 121
        results(orders, {"$out": "target"}, bypassDocumentValidation=True)
        assert orders.target.count_documents({}) == 12
        with pytest.raises(OperationFailure):
            orders.target.insert_one({"total": 7})

    @pytest.mark.parametrize(
        ("stage", "code"),
        [
            ({"$out": 5}, 16990),
            ({"$out": "system.x"}, 17385),
            ({"$out": {"db": "admin", "coll": "x"}}, 31321),
            ({"$out": "v"}, 166),
            ({"$out": "small"}, 17152),
        ],
    )
    def test_refused_targets(self, orders: Db, stage: Document, code: int) -> None:
        orders.command({"create": "v", "viewOn": "c", "pipeline": []})
        orders.create_collection("small", capped=True, size=1000)
        assert code_of(orders, stage) == code

    def test_it_has_to_be_last(self, orders: Db) -> None:
        assert code_of(orders, {"$out": "a"}, {"$match": {}}) == 40601

    def test_events_in_change_streams(self, orders: Db) -> None:
        orders.target.insert_one({"_id": "old"})
        with orders.watch() as stream:
            results(orders, {"$match": {"_id": 1}}, {"$out": "target"})
            kinds = [stream.next()["operationType"] for _ in range(2)]
        assert kinds == ["insert", "rename"]


class TestMerge:
    @pytest.fixture
    def target(self, orders: Db) -> Db:
        orders.t.insert_many([{"_id": 0, "old": True}, {"_id": 1, "old": True, "total": "before"}])
        return orders

    def merged(self, database: Db, **options: Any) -> dict[int, Document]:
        stages: list[Document] = [
            {"$match": {"_id": {"$lt": 3}}},
            {"$project": {"total": 1}},
            {"$merge": {"into": "t", **options}},
        ]
        assert results(database, *stages) == []
        return {d.pop("_id"): d for d in database.t.find()}

    def test_fields_are_merged_by_default(self, target: Db) -> None:
        assert self.merged(target) == {
            0: {"old": True, "total": 0},
            1: {"old": True, "total": 1},
            2: {"total": 2},
        }

    def test_replace(self, target: Db) -> None:
        assert self.merged(target, whenMatched="replace") == {
            0: {"total": 0},
            1: {"total": 1},
            2: {"total": 2},
        }

    def test_keep_existing(self, target: Db) -> None:
        assert self.merged(target, whenMatched="keepExisting") == {
            0: {"old": True},
            1: {"old": True, "total": "before"},
            2: {"total": 2},
        }

    def test_a_pipeline(self, target: Db) -> None:
        stages = [{"$set": {"sum": {"$add": ["$$new.total", "$$more"]}}}]
        assert self.merged(target, whenMatched=stages, let={"more": {"$add": ["$total", 1]}}) == {
            0: {"old": True, "sum": 1},
            1: {"old": True, "total": "before", "sum": 3},
            2: {"total": 2},
        }

    def test_discard(self, target: Db) -> None:
        assert set(self.merged(target, whenNotMatched="discard")) == {0, 1}

    def test_fail_when_not_matched(self, target: Db) -> None:
        with pytest.raises(OperationFailure) as failure:
            self.merged(target, whenNotMatched="fail")
        assert failure.value.code == 13113
        assert target.t.find_one({"_id": 0}) == {"_id": 0, "old": True, "total": 0}

    def test_fail_when_matched(self, target: Db) -> None:
        with pytest.raises(OperationFailure) as failure:
            self.merged(target, whenMatched="fail")
        assert failure.value.code == 11000

    def test_other_fields_need_a_unique_index(self, target: Db) -> None:
        stage = {"$merge": {"into": "t", "on": "who"}}
        stages: list[Document] = [{"$match": {"_id": {"$lt": 3}}}, {"$unset": "_id"}, stage]
        assert code_of(target, *stages) == 51183
        target.t.delete_many({})
        target.t.create_index("who", unique=True)
        target.t.insert_one({"_id": "kept", "who": "w1"})
        results(target, *stages)
        assert target.t.find_one({"who": "w1"}) == {"_id": "kept", "who": "w1", "total": 1}
        assert target.t.count_documents({}) == 3
        assert code_of(target, {"$project": {"total": 1, "_id": 0}}, stage) == 51132
        assert code_of(target, {"$set": {"who": [1]}}, {"$unset": "_id"}, stage) == 51185

    def test_a_new_collection_and_another_database(self, client: MongoClient[Document], orders: Db) -> None:
        other = f"{orders.name}_other"
        results(orders, {"$merge": {"into": {"db": other, "coll": "t"}}})
        assert client[other].t.count_documents({}) == 12

    def test_many_documents(self, database: Db) -> None:
        database.c.insert_many([{"_id": i} for i in range(1234)])
        results(database, {"$set": {"x": 1}}, {"$merge": "t"})
        results(database, {"$set": {"y": 1}}, {"$merge": "t"})
        assert database.t.count_documents({"x": 1, "y": 1}) == 1234

    def test_each_result_is_a_change(self, target: Db) -> None:
        # The diff has to be shorter than the document.
        target.t.update_many({}, {"$set": {"much": "x" * 200}})
        with target.t.watch() as stream:
            self.merged(target)
            kinds = [stream.next()["operationType"] for _ in range(3)]
        assert kinds == ["update", "update", "insert"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("stages", "code"),
        [
            ([{"$nonsense": 1}], 40324),
            ([{"$match": {}, "$limit": 1}], 40323),
            ([{}], 40323),
            (["x"], 14),
            ([{"$limit": 0}], 15958),
            ([{"$match": {}}, {"$changeStream": {}}], 40602),
            ([{"$facet": {"a": [{"$changeStream": {}}]}}], 40600),
            ([{"$lookup": {"from": "x", "pipeline": [{"$changeStream": {}}], "as": "y"}}], 51047),
            ([{"$unionWith": {"coll": "x", "pipeline": [{"$changeStream": {}}]}}], 31441),
            ([{"$changeStreamSplitLargeEvent": {}}], 20),
            ([{"$currentOp": {}}], 73),
        ],
    )
    def test_pipelines(self, database: Db, stages: list[Any], code: int) -> None:
        assert code_of(database, *stages) == code

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ({"aggregate": "c", "pipeline": []}, 9),
            ({"aggregate": "c", "pipeline": [], "cursor": 1}, 14),
            ({"aggregate": "c", "pipeline": {}, "cursor": {}}, 14),
            ({"aggregate": "c", "cursor": {}}, 40414),
            ({"aggregate": "c", "pipeline": [], "cursor": {"batchSize": -1}}, 2),
            ({"aggregate": "c", "pipeline": [], "cursor": {"size": 1}}, 40415),
            ({"aggregate": "c", "pipeline": [], "cursor": {}, "no": 1}, 40415),
            ({"aggregate": 2, "pipeline": [], "cursor": {}}, 9),
            ({"aggregate": True, "pipeline": [], "cursor": {}}, 14),
            ({"aggregate": 1, "pipeline": [], "cursor": {}}, 73),
            ({"aggregate": 1, "pipeline": [{"$match": {}}], "cursor": {}}, 73),
            ({"aggregate": "", "pipeline": [], "cursor": {}}, 73),
            ({"aggregate": "c", "pipeline": [], "cursor": {}, "hint": 1}, 9),
        ],
    )
    def test_commands(self, database: Db, command: Document, code: int) -> None:
        with pytest.raises(OperationFailure) as failure:
            database.command(command)
        assert failure.value.code == code

    @pytest.mark.parametrize(
        ("stages", "is_allowed"),
        [
            ([{"$match": {}}], True),
            ([{"$collStats": {"count": {}}}], True),
            ([{"$collStats": {"storageStats": {}}}], False),
            ([{"$indexStats": {}}], False),
            ([{"$unionWith": {"coll": "c", "pipeline": [{"$indexStats": {}}]}}], False),
            ([{"$facet": {"a": [{"$match": {}}]}}], True),
        ],
    )
    def test_the_stable_api(self, orders: Db, stages: list[Document], is_allowed: bool) -> None:
        if is_allowed:
            results(orders, *stages, apiVersion="1", apiStrict=True)
        else:
            assert code_of(orders, *stages, apiVersion="1", apiStrict=True) == 323

    def test_writing_in_transactions(self, client: MongoClient[Document], orders: Db) -> None:
        with client.start_session() as session:
            session.start_transaction()
            with pytest.raises(OperationFailure) as failure:
                orders.c.aggregate([{"$out": "t"}], session=session)
            assert failure.value.code == 263

    def test_writing_on_a_member_that_stepped_down(self, own_server: RunningServer) -> None:
        with connected(own_server, directConnection=True, readPreference="secondaryPreferred") as client:
            client.shop.c.insert_one({"_id": 1})
            client.admin.command({"replSetStepDown": 60, "force": True})
            with pytest.raises(NotPrimaryError, match="not primary"):
                client.shop.command({"aggregate": "c", "pipeline": [{"$out": "t"}], "cursor": {}})
            assert [d["_id"] for d in client.shop.c.aggregate([])] == [1]


def test_a_cursor_of_a_view_whose_collection_is_dropped(database: Db) -> None:
    database.c.insert_many([{"_id": i} for i in range(10)])
    database.command({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"_id": {"$gte": 0}}}]})
    reply = database.command({"aggregate": "v", "pipeline": [], "cursor": {"batchSize": 2}})
    assert reply["cursor"]["ns"] == f"{database.name}.v"
    database.c.drop()
    with pytest.raises(OperationFailure) as failure:
        database.command({"getMore": Int64(reply["cursor"]["id"]), "collection": "v"})
    assert failure.value.code == 175


def test_a_query_tests_expressions_last_and_a_stage_in_order(database: Db) -> None:
    database.c.insert_one({"_id": 1, "a": 1})
    fails = {"$expr": {"$switch": {"branches": [{"case": "$missing", "then": 1}]}}}
    condition = {"$or": [fails, {"a": 1}]}
    assert [found["_id"] for found in database.c.find(condition)] == [1]
    assert [found["_id"] for found in results(database, {"$match": condition})] == [1]
    assert code_of(database, {"$limit": 5}, {"$match": condition}) == 40066
    joined = {"from": "c", "as": "found", "pipeline": [{"$match": condition}]}
    assert len(results(database, {"$lookup": joined})[0]["found"]) == 1
