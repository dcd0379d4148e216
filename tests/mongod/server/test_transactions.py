"""Multi-document transactions as a driver runs them: isolation and conflicts."""

import threading
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tests.mongod.server.running import Document, RunningServer
from tests.mongod.server.transacting import TRANSIENT, failure, transaction, wait_for_blocked


class TestIsolation:
    def test_own_changes_are_seen_inside_and_nowhere_else_until_the_commit(
        self, client: MongoClient[Document], items: Any
    ) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 4}, session=session)
            items.update_one({"_id": 1}, {"$set": {"x": 5}}, session=session)
            items.delete_one({"_id": 2}, session=session)
            inside = list(items.find({}, session=session))
            assert inside == [{"_id": 1, "x": 5}, {"_id": 3, "x": 0}, {"_id": 4}]
            assert [document["_id"] for document in items.find()] == [1, 2, 3]
            assert items.find_one({"_id": 1}) == {"_id": 1, "x": 0}
            session.commit_transaction()
        assert list(items.find()) == inside

    def test_an_abort_changes_nothing(self, client: MongoClient[Document], items: Any) -> None:
        before = list(items.find())
        with transaction(client) as session:
            items.update_many({}, {"$inc": {"x": 1}}, session=session)
            items.insert_one({"_id": 9}, session=session)
            session.abort_transaction()
        assert list(items.find()) == before

    @pytest.mark.parametrize("level", [None, "local", "majority", "snapshot"])
    def test_the_snapshot_is_that_of_the_first_statement(
        self, client: MongoClient[Document], items: Any, level: str | None
    ) -> None:
        with transaction(client, read_concern=ReadConcern(level)) as session:
            assert items.find_one({"_id": 1}, session=session) == {"_id": 1, "x": 0}
            items.update_one({"_id": 1}, {"$set": {"x": 7}})
            items.insert_one({"_id": 8})
            assert [document["x"] for document in items.find(session=session)] == [0, 0, 0]
            session.commit_transaction()
        assert items.find_one({"_id": 1}) == {"_id": 1, "x": 7}

    def test_a_cursor_works_inside_and_ends_with_the_transaction(
        self, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        collection = database.many
        collection.insert_many([{"_id": n} for n in range(50)])
        with transaction(client) as session:
            cursor = collection.find({}, batch_size=10, session=session)
            seen = [next(cursor)["_id"] for _ in range(10)]
            collection.insert_one({"_id": 50}, session=session)
            seen += [document["_id"] for document in cursor]
            assert seen == list(range(51))
            left = collection.find({}, batch_size=10, session=session)
            next(left)
            cursor_id = left.cursor_id
            session.commit_transaction()
            command = {"getMore": Int64(cursor_id or 0), "collection": "many"}
            assert failure(database.command, command, session=session).code == 43

    def test_reads_of_every_kind(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 4, "x": 8}, session=session)
            pipeline = [{"$group": {"_id": None, "sum": {"$sum": "$x"}}}]
            assert list(items.aggregate(pipeline, session=session)) == [{"_id": None, "sum": 8}]
            assert items.distinct("x", session=session) == [0, 8]
            assert items.count_documents({}, session=session) == 4
            assert list(items.aggregate(pipeline)) == [{"_id": None, "sum": 0}]

    def test_an_index_shows_own_changes_in_its_order(self, client: MongoClient[Document], items: Any) -> None:
        items.create_index("x")
        with transaction(client) as session:
            items.update_one({"_id": 2}, {"$set": {"x": 5}}, session=session)
            items.insert_one({"_id": 4, "x": 3}, session=session)
            found = items.find({"x": {"$gt": 0}}, session=session).sort("x", -1)
            assert [document["_id"] for document in found] == [2, 4]
            assert [document["_id"] for document in items.find({"x": 0}, session=session)] == [1, 3]


class TestConflicts:
    def test_the_second_writer_fails_at_once(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as first, transaction(client) as second:
            items.update_one({"_id": 1}, {"$inc": {"x": 1}}, session=first)
            error = failure(items.update_one, {"_id": 1}, {"$inc": {"x": 1}}, session=second)
            assert (error.code, error.has_error_label(TRANSIENT)) == (112, True)
            error = failure(items.find_one, {}, session=second)
            assert (error.code, error.has_error_label(TRANSIENT)) == (251, True)
            error = failure(second.commit_transaction)
            assert (error.code, error.has_error_label(TRANSIENT)) == (251, True)
            first.commit_transaction()
        assert items.find_one({"_id": 1})["x"] == 1

    def test_a_writer_whose_snapshot_is_too_old_fails_at_once(
        self, client: MongoClient[Document], items: Any
    ) -> None:
        with transaction(client) as session:
            items.find_one({}, session=session)
            items.update_one({"_id": 1}, {"$inc": {"x": 1}})
            error = failure(items.delete_one, {"_id": 1}, session=session)
            assert (error.code, error.has_error_label(TRANSIENT)) == (112, True)

    def test_an_inserted_id(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as first, transaction(client) as second:
            items.insert_one({"_id": 9}, session=first)
            assert failure(items.insert_one, {"_id": 9}, session=second).code == 112
            first.commit_transaction()

    def test_with_transaction_retries(self, client: MongoClient[Document], items: Any) -> None:
        attempts = []

        def work(session: ClientSession) -> None:
            attempts.append(1)
            found = items.find_one({"_id": 1}, session=session)
            if len(attempts) == 1:
                items.update_one({"_id": 1}, {"$set": {"x": 10}})
            items.update_one({"_id": 1}, {"$set": {"x": found["x"] + 1}}, session=session)

        with client.start_session() as session:
            session.with_transaction(work)
        assert len(attempts) == 2
        assert items.find_one({"_id": 1})["x"] == 11

    def test_concurrent_increments_are_all_counted(self, client: MongoClient[Document], items: Any) -> None:
        def increments() -> None:
            with client.start_session() as session:
                for _ in range(10):
                    session.with_transaction(increment)

        def increment(session: ClientSession) -> None:
            found = items.find_one({"_id": 1}, session=session)
            items.replace_one({"_id": 1}, {"x": found["x"] + 1}, session=session)
            items.update_one({"_id": 2}, {"$inc": {"x": -1}}, session=session)

        threads = [threading.Thread(target=increments) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [document["x"] for document in items.find().sort("_id", 1)] == [40, -40, 0]

    def test_a_write_outside_waits_for_the_end(
        self, server: RunningServer, client: MongoClient[Document], items: Any
    ) -> None:
        with transaction(client) as session:
            items.update_one({"_id": 1}, {"$set": {"x": 5}}, session=session)
            done = threading.Event()

            def outside() -> None:
                items.update_one({"_id": 1}, {"$inc": {"x": 1}})
                done.set()

            thread = threading.Thread(target=outside)
            thread.start()
            wait_for_blocked(client)
            assert not done.is_set()
            session.commit_transaction()
            thread.join(timeout=10)
            assert done.is_set()
        assert items.find_one({"_id": 1})["x"] == 6

    def test_max_time_ends_the_wait(self, client: MongoClient[Document], items: Any) -> None:
        with transaction(client) as session:
            items.update_one({"_id": 1}, {"$set": {"x": 5}}, session=session)
            command = {
                "update": items.name,
                "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}],
                "maxTimeMS": 20,
            }
            assert failure(items.database.command, command).code == 50
            session.commit_transaction()
        assert items.find_one({"_id": 1})["x"] == 5

    @pytest.mark.parametrize("stage", [None, "$merge", "$out"])
    def test_kill_op_ends_the_wait(
        self, client: MongoClient[Document], items: Any, stage: str | None
    ) -> None:
        with transaction(client) as session:
            items.update_one({"_id": 1}, {"$set": {"x": 5}}, session=session)
            errors: list[OperationFailure] = []

            def outside() -> None:
                if stage is None:
                    errors.append(failure(items.update_one, {"_id": 1}, {"$inc": {"x": 1}}))
                else:
                    errors.append(failure(items.aggregate, [{"$set": {"x": 7}}, {stage: items.name}]))

            thread = threading.Thread(target=outside)
            thread.start()
            operation = wait_for_blocked(client)
            client.admin.command("killOp", op=operation["opid"])
            thread.join(timeout=10)
            assert [error.code for error in errors] == [11601]


class TestCatalogChanges:
    def test_a_drop_waits_for_a_transaction_that_writes(
        self, client: MongoClient[Document], items: Any
    ) -> None:
        with transaction(client) as session:
            items.insert_one({"_id": 9}, session=session)
            thread = threading.Thread(target=items.drop)
            thread.start()
            wait_for_blocked(client)
            items.insert_one({"_id": 10}, session=session)
            session.commit_transaction()
            thread.join(timeout=10)
        assert items.count_documents({}) == 0

    def test_a_dropped_collection_can_be_read_but_not_written(
        self, client: MongoClient[Document], items: Any
    ) -> None:
        with transaction(client) as session:
            items.find_one({}, session=session)
            items.drop()
            assert len(list(items.find({}, session=session))) == 3
            error = failure(items.insert_one, {}, session=session)
            assert (error.code, error.has_error_label(TRANSIENT)) == (112, True)

    def test_a_collection_created_meanwhile(
        self, client: MongoClient[Document], database: Database[Document]
    ) -> None:
        with transaction(client) as session:
            assert database.items.find_one({}, session=session) is None
            database.items.insert_one({"_id": 1})
            assert database.items.find_one({}, session=session) is None
            error = failure(database.items.insert_one, {"_id": 2}, session=session)
            assert (error.code, error.has_error_label(TRANSIENT)) == (112, True)
