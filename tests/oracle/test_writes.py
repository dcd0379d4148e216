"""Replies to writes, their oplog entries and their events, beside the real server."""

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bson import Binary, Decimal128, Int64, Regex, Timestamp

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins
from tests.oracle.writing import Case, Writer, same_updates

MB: Final = 1 << 20


def new_session() -> Document:
    return {"id": Binary(uuid.uuid4().bytes, 4)}


def test_a_write_of_each_kind(twins: Twins) -> None:
    began = twins.operation_time()
    twins.same({"insert": "plain", "documents": [{"_id": 1, "a": 1}]})
    twins.same({"update": "plain", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 2}}}]})
    twins.same({"update": "plain", "updates": [{"q": {"_id": 1}, "u": {"b": 2}}]})
    twins.same({"delete": "plain", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
    twins.same_oplog(began)
    twins.same_events({"startAtOperationTime": began}, collection="plain", count=4)


def test_a_post_image(twins: Twins) -> None:
    twins.same({"insert": "images", "documents": [{"_id": 1, "a": 1}]})
    began = twins.operation_time()
    twins.same({"update": "images", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 2}}}]})
    spec = {"startAtOperationTime": began, "fullDocument": "updateLookup"}
    twins.same_events(spec, collection="images", count=1)


@pytest.mark.parametrize("stored", [{"a": 1, "$set": 5}, {"$x": {"$y": 1}}, {"a": {"$ref": 1}}], ids=str)
def test_a_replacement_that_changes_nothing_is_not_checked(twins: Twins, stored: Document) -> None:
    twins.run({"drop": "same"})
    twins.same({"insert": "same", "documents": [{"_id": 1, **stored}]})
    for replacement in ({"_id": 1, **stored}, stored, {"_id": 1, **stored, "b": 1}):
        if not next(iter(replacement)).startswith("$"):
            twins.same({"update": "same", "updates": [{"q": {"_id": 1}, "u": replacement}]})
            twins.same({"findAndModify": "same", "query": {"_id": 1}, "update": replacement})


def test_whole_documents(twins: Twins) -> None:
    cases: list[tuple[Document | None, Any]] = [
        ({"a": 1}, {"a": 1}), ({}, {}), ({"a": 1}, {"a": 1, "b": {"$x": 1}}), ({"a": 1}, {"_id": "other"}),
        ({"a": 1}, {"b": Timestamp(0, 0)}), ({"a": 1}, {"b": {"c": Timestamp(0, 0)}}),
        ({"a": 1}, [{"$replaceWith": {"a": 1}}]), ({"a": 1}, [{"$replaceWith": {"a": 1, "_id": "$_id"}}]),
        ({"a": 1}, [{"$replaceWith": {"_id": "$_id", "a": 1}}]), ({"a": 1, "b": 1}, [{"$unset": "_id"}]),
        ({"a": 1, "b": 1}, [{"$replaceWith": {"b": "$b", "a": "$a"}}]), ({"a": 1}, [{"$set": {"_id": 5}}]),
        ({"a": 1, "b": 1}, [{"$project": {"_id": 0, "a": 1}}]), ({"a": 1}, []),
        ({"a": 1}, [{"$set": {"a": 1}}]),
        ({"a": 1}, [{"$unset": "_id"}, {"$set": {"_id": 5}}]), ({"a": 1}, [{"$set": {"a": Timestamp(0, 0)}}]),
        ({"a": 1}, [{"$match": {}}]), ({"a": 1}, [{"$set": 1}]), ({"a": 1}, [{"$set": {"a": "$$x"}}]),
    ]  # fmt: skip
    upserts = [Case(None, update, options={"upsert": True}) for _, update in cases]
    same_updates(twins, "whole", [Case(before, update) for before, update in cases] + upserts)
    writer = Writer(twins, "moved")
    for number, update in enumerate(
        (
            {"a": 1, "_id": 0},
            {"b": 2, "_id": 1, "a": 1},
            {"_id": 2.0, "a": 1},
            {"_id": 3, "a": 1},
            {"a": 1, "_id": [4]},
        )
    ):
        writer.run({"insert": "moved", "documents": [{"_id": number, "a": 1}]})
        writer.run({"update": "moved", "updates": [{"q": {"_id": number}, "u": update}]})
    writer.run({"find": "moved"})
    writer.finish()


QUERIES: Final[tuple[Document, ...]] = (
    {}, {"x": 4}, {"x": {"$gt": 4}}, {"x.y": 4}, {"x.y": 4, "x.z": 3}, {"x": {"$all": [1]}}, {"x": None},
    {"x": {"$all": [1, 2]}}, {"x": {"$in": [1]}}, {"x": {"$in": [1, 2]}}, {"x": {"$elemMatch": {"a": 1}}},
    {"$and": [{"y": 1}, {"z": {"$eq": 1}}]}, {"$and": [{"y": 1}, {"y": 1}]}, {"$or": [{"y": 1}]},
    {"$or": [{"y": 1}, {"z": 1}]}, {"$nor": [{"y": 1}]}, {"y": {"$not": {"$eq": 1}}}, {"y": {"$ne": 1}},
    {"y": {"$exists": False}}, {"y": Regex("a")}, {"y": {"$eq": Regex("a")}}, {"y": {"a": 1}},
    {"y": 1, "y.a": 1}, {"y.a": 1, "y": 1}, {"y.0": 1}, {"y": {"$eq": 1, "$gt": 0}}, {"y": {"$all": [[1]]}},
    {"y": {"$all": [{"$elemMatch": {"a": 1}}]}}, {"$comment": "x"}, {"$jsonSchema": {}}, {"": 1}, {"a.": 1},
    {"a.$b": 1}, {"$expr": {"$eq": ["$a", 1]}}, {"$or": [{"$expr": True}, {"a": 1}]}, {"$foo": 1},
    {"y": Timestamp(0, 0)},
)  # fmt: skip


@pytest.mark.parametrize(
    "update",
    [
        {"$set": {"z": 1}},
        {"$inc": {"x": 1}},
        {"$push": {"x": 1}},
        {"$setOnInsert": {"x.y": 1}},
        {"$unset": {"x": 1}},
        {"$set": {"x.$": 1}},
        {"z": 1},
        {"_id": "given", "z": 1},
        [{"$set": {"z": "$x"}}],
        {"$set": {"_id": [1]}},
    ],
    ids=str,
)
def test_upserts(twins: Twins, update: Any) -> None:
    writer = Writer(twins, "upserts")
    for query in QUERIES:
        writer.run({"delete": "upserts", "deletes": [{"q": {}, "limit": 0}]})
        statement = {"q": query, "u": update, "upsert": True}
        writer.run({"update": "upserts", "updates": [statement]})
        writer.run({"update": "upserts", "updates": [{**statement, "q": {"_id": 7, **query}}]})
        writer.run(
            {"findAndModify": "upserts", "query": query, "update": update, "upsert": True, "new": True}
        )
    writer.finish()


def test_an_upsert_creates_its_collection_even_if_it_fails(twins: Twins) -> None:
    statements: list[Document] = [
        {"q": {"_id": 1}, "u": {"$set": {"a": 1, "a.b": 1}}}, {"q": {"$foo": 1}, "u": {"$set": {"a": 1}}},
        {"q": {"a": "x"}, "u": {"$inc": {"a": 1}}}, {"q": {"a": 1}, "u": {"a": 1}, "multi": True},
        {"q": {"a": 1}, "u": {"a": 1}, "collation": {"locale": "xx"}}, {"q": {"$expr": 1}, "u": {"a": 1}},
        {"q": {"a": 1}, "u": {"$set": {"a": 1}}, "hint": "foo"}, {"q": {}, "u": [{"$match": {}}]},
    ]  # fmt: skip
    writer = Writer(twins, "created")
    for number, statement in enumerate(statements):
        writer.run({"update": f"created{number}", "updates": [{**statement, "upsert": True}]})
        writer.run({"update": f"missing{number}", "updates": [statement]})
        if "multi" not in statement:
            modify = {"query": statement["q"], "update": statement["u"], "upsert": True}
            writer.run({"findAndModify": f"modified{number}", **modify})
    writer.finish()


def test_batches_with_errors(twins: Twins) -> None:
    keys: list[Document] = [
        {"key": {"u": 1}, "name": "u_1", "unique": True, "sparse": True},
        {
            "key": {"x": 1, "y.z": -1},
            "name": "xy",
            "unique": True,
            "partialFilterExpression": {"x": {"$gt": 0}},
        },
    ]
    writer = Writer(twins, "batches")
    writer.run({"insert": "batches", "documents": [{"_id": 1, "u": 1}, {"_id": 2, "x": 5, "y": {"z": 2}}]})
    twins.run({"createIndexes": "batches", "indexes": keys})
    documents = [
        {"_id": 3},
        {"_id": 1},
        {"_id": [1]},
        {"_id": 4, "u": 1},
        {"_id": 5, "x": 5, "y": [{"z": 2}]},
        {},
    ]
    updates: list[Document] = [
        {"q": {"_id": 3}, "u": {"$set": {"a": 1}}},
        {"q": {"_id": 8}, "u": {"$set": {"a": 1}}, "upsert": True},
        {"q": {"_id": 1}, "u": {"$foo": 1}}, {"q": {"_id": 3}, "u": {"u": 1}},
        {"q": {"a": 1}, "u": {"$inc": {"n": 1}}},
        {"q": {"_id": 9}, "u": {"$set": {"u": 1}}, "upsert": True},
        {"q": {}, "u": {"$set": {"m": 1}}, "multi": True},
        {"q": {"_id": 1}, "u": {"$set": {"m": 2}}, "hint": "nothing"}, {"q": {}, "u": {}, "multi": True},
        {"q": {"_id": 10}, "u": {"$set": {"a": 1}}, "upsert": True},
    ]  # fmt: skip
    deletes: list[Document] = [
        {"q": {"_id": 8}, "limit": 1}, {"q": {"$foo": 1}, "limit": 1}, {"q": {"m": 1}, "limit": 0},
        {"q": {}, "limit": 1, "collation": {"locale": "xx"}}, {"q": {}, "limit": 0, "hint": {"no": 1}},
    ]  # fmt: skip
    for ordered in (True, False):
        writer.run({"insert": "batches", "documents": documents, "ordered": ordered})
        writer.run({"update": "batches", "updates": updates, "ordered": ordered})
        writer.run({"delete": "batches", "deletes": deletes, "ordered": ordered})
    writer.finish()


@pytest.mark.parametrize(
    "command",
    [
        {"update": "c", "updates": [{"q": {}, "u": 1}]},
        {"update": "c", "updates": [{"q": {"$foo": 1}, "u": {"a": 1}}, {"q": {}, "u": "x"}]},
        {"update": "c", "updates": [{"q": {}, "u": [1]}]},
        {"update": "c", "updates": [{"q": {}, "u": [{"$foo": 1}]}]},
        {"update": "c", "updates": [{"q": {}, "u": [{}]}]},
        {"update": "c", "updates": [{"q": {}, "u": [{"$set": {"a": 1}, "$unset": "b"}]}]},
        {"update": "c", "updates": [{"q": {}}]},
        {"update": "c", "updates": [{"u": {}}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "hint": 1}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "arrayFilters": [1]}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "c": {"x": 1}}]},
        {"update": "c", "updates": [{"q": {}, "u": [{"$set": {"a": "$$x"}}], "c": {"x": 1}}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "collation": {}}]},
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "sort": {"a": 1}}]},
        {"update": "c", "updates": []},
        {"delete": "c", "deletes": [{"q": {}, "limit": 2}]},
        {"delete": "c", "deletes": [{"q": {}, "limit": 1, "hint": 1}]},
        {"delete": "c", "deletes": [{"q": {}}]},
        {"delete": "c", "deletes": [{"limit": 1}]},
        {"delete": "c", "deletes": []},
        {"insert": "c", "documents": []},
        {"insert": "c", "documents": [1]},
    ],
    ids=str,
)
def test_statements_that_cannot_be_read(twins: Twins, command: Document) -> None:
    twins.same(command)


@pytest.mark.parametrize(
    "name",
    ["system.foo", "system.views", "system.profile", "system.indexes", "a$b", "$a", "a.$b", ".a", "x" * 300],
)
def test_names_that_cannot_be_written_to(twins: Twins, name: str) -> None:
    twins.same({"insert": name, "documents": [{"_id": 1}]})
    twins.same({"update": name, "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]})
    twins.same({"delete": name, "deletes": [{"q": {"_id": 1}, "limit": 1}]})
    twins.same({"findAndModify": name, "query": {"_id": 1}, "remove": True})


def test_large_documents(twins: Twins) -> None:
    for command in (
        {"insert": "large", "documents": [{"_id": 1, "x": "x" * (16 * MB - 30)}]},
        {"insert": "large", "documents": [{"_id": 2, "x": "x" * 16 * MB}]},
        {"update": "large", "updates": [{"q": {"_id": 3}, "u": {"x": "x" * 16 * MB}, "upsert": True}]},
        {"update": "large", "updates": [{"q": {"_id": 1}, "u": {"$set": {"y": "x" * 40}}}]},
    ):
        twins.same(command)
    twins.same({"drop": "large"})


@pytest.mark.parametrize(
    "concern",
    [
        {"w": 0}, {"w": 0, "j": True}, {"w": 0.5}, {"w": 1.5}, {"w": 2}, {"w": 3.7}, {"w": "x"},
        {"w": {"a": 1}},
        {"w": {}}, {"w": {"a": "x"}}, {"w": None}, {"w": Decimal128("1")}, {"w": -1}, {"w": 51}, {"w": True},
        {"w": 1, "j": 1}, {"j": "x"}, {"wtimeout": "x"}, {"w": 2, "wtimeout": 1.5}, {"w": 1, "foo": 1}, {}, 1,
    ],
    ids=str,
)  # fmt: skip
def test_write_concerns(twins: Twins, concern: Any) -> None:
    twins.run({"delete": "concerns", "deletes": [{"q": {}, "limit": 0}]})
    commands: list[Document] = [
        {"insert": "concerns", "documents": [{"_id": 1}, {"_id": 1}]},
        {"update": "concerns", "updates": [{"q": {"_id": 2}, "u": {"$set": {"a": 1}}, "upsert": True}]},
        {"findAndModify": "concerns", "query": {"_id": 1}, "update": {"$inc": {"a": 1}}},
        {"delete": "concerns", "deletes": [{"q": {"_id": 2}, "limit": 1}]},
        {"aggregate": "concerns", "pipeline": [{"$merge": "others"}], "cursor": {}},
        {"aggregate": "concerns", "pipeline": [{"$match": {"_id": 9}}, {"$merge": "others"}], "cursor": {}},
        {"aggregate": "concerns", "pipeline": [{"$out": "others"}], "cursor": {}},
    ]
    for command in commands:
        twins.same({**command, "writeConcern": concern})


MODIFICATIONS: Final[tuple[Document, ...]] = (
    {"remove": True}, {"remove": True, "sort": {"a": -1}, "fields": {"a": 1}}, {"remove": True, "new": True},
    {"remove": True, "update": {"a": 1}}, {"remove": True, "upsert": True},
    {"remove": True, "arrayFilters": []},
    {}, {"update": 1}, {"update": {"$foo": 1}}, {"update": [{"$foo": 1}]}, {"update": {"$inc": {"a": 1}}},
    {"update": {"$inc": {"a": 1}}, "new": True},
    {"update": {"$inc": {"a": 1}}, "new": True, "fields": {"a": 1}},
    {"update": {"$inc": {"a": 1}}, "sort": {"a": -1, "_id": 1}},
    {"update": {"$set": {"b": 1}}, "upsert": True},
    {"update": {"$set": {"b": 1}}, "upsert": True, "new": True}, {"update": {"b": 5}, "new": True},
    {"update": [{"$set": {"b": "$$x"}}], "let": {"x": 7}, "new": True}, {"update": {}, "hint": 1},
    {"update": {"$set": {"l.$[e]": 9}}, "arrayFilters": [{"e": 1}], "new": True},
    {"update": {}, "hint": "foo"},
    {"update": {"$set": {"a": 1}}, "fields": {"a": 1, "b": 0}}, {"update": {"$set": {"_id": 77}}},
    {"update": {"$set": {"a": 1}}, "sort": {"a": "x"}}, {"update": {"$set": {"a": 1}}, "collation": {}},
    {"update": {"$set": {"a": 1}}, "collation": {"locale": "en"}}, {"update": {"$unset": {"_id": 1}}},
)  # fmt: skip


def test_find_and_modify(twins: Twins) -> None:
    writer = Writer(twins, "modified")
    for modification in MODIFICATIONS:
        twins.run({"drop": "modified"})
        documents = [{"_id": 1, "a": 1, "l": [1, 2]}, {"_id": 2, "a": 2, "l": [1]}]
        writer.run({"insert": "modified", "documents": documents})
        for query in ({}, {"_id": 2}, {"_id": 9}, {"a": 9}):
            writer.run({"findAndModify": "modified", "query": query, **modification})
        writer.run({"findAndModify": "missing", **modification, "upsert": False})
        writer.run({"find": "modified"})
    writer.finish()


def test_retryable_writes(twins: Twins) -> None:
    """Each kind of write, repeated, and repeated as every other kind."""
    update = {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}}
    upsert = {"q": {"_id": 40}, "u": {"$inc": {"x": 1}}, "upsert": True}
    many = {"q": {}, "u": {"$inc": {"y": 1}}, "multi": True}
    modify: Document = {"findAndModify": "retried", "query": {"_id": 3}, "update": {"$inc": {"x": 1}}}
    commands: list[Document] = [
        {"insert": "retried", "documents": [{"_id": 50}, {"_id": 51}]},
        {"update": "retried", "updates": [update, {"q": {"_id": 2}, "u": {"$set": {"a": 2}}}, upsert]},
        {"update": "retried", "updates": [update, many, upsert], "ordered": False},
        {"delete": "retried", "deletes": [{"q": {"_id": 2}, "limit": 1}, {"q": {}, "limit": 0}]},
        modify, {**modify, "new": True, "fields": {"x": 1}}, {**modify, "query": {"_id": 41}, "upsert": True},
        {"findAndModify": "retried", "query": {"_id": 4}, "remove": True, "fields": {"a": 1}},
    ]  # fmt: skip
    writer = Writer(twins, "retried")
    for first in commands:
        for second in commands:
            writer.run({"delete": "retried", "deletes": [{"q": {}, "limit": 0}]})
            writer.run({"insert": "retried", "documents": [{"_id": n, "a": n} for n in range(6)]})
            number = {"lsid": new_session(), "txnNumber": Int64(1)}
            writer.run({**first, **number})
            writer.run({**second, **number})
            writer.run({**first, **number})
    number = {"lsid": new_session(), "txnNumber": Int64(5)}
    for more in (
        {"stmtIds": [3]},
        {"stmtIds": [3]},
        {"stmtId": 3},
        {"stmtId": 4, "stmtIds": [4]},
        {"stmtIds": [1, 2]},
    ):
        writer.run({"update": "retried", "updates": [update], **number, **more})
        writer.run({"update": "retried", "updates": [update], **more})
    writer.finish()


SOURCE: Final = [
    {"_id": 1, "a": 1, "k": 1}, {"_id": 2, "a": 2, "k": 2}, {"_id": 3, "k": 3, "n": {"x": 1}},
    {"_id": 4, "k": 4},
]  # fmt: skip
TARGET: Final = [
    {"_id": 1, "a": 1, "b": 5, "k": 1},
    {"_id": 2, "a": 3, "k": 2},
    {"_id": 3, "n": {"y": 1}, "k": 3},
]


@pytest.mark.parametrize(
    "when_matched",
    [
        "merge",
        "replace",
        "keepExisting",
        "fail",
        [{"$set": {"q": "$$new.a"}}],
        [{"$replaceWith": "$$new"}],
        [],
    ],
    ids=str,
)
def test_merges(twins: Twins, when_matched: Any) -> None:
    def stages() -> Iterator[tuple[str | None, list[Document]]]:
        for when_not_matched in ("insert", "discard", "fail"):
            merge = {"into": "target", "whenMatched": when_matched, "whenNotMatched": when_not_matched}
            yield None, [{"$merge": merge}]
            yield None, [{"$set": {"b": 1}}, {"$merge": merge}]
            yield None, [{"$project": {"a": 1}}, {"$merge": merge}]
            yield "k", [{"$merge": {**merge, "on": "k"}}]
            yield "k", [{"$project": {"_id": 0}}, {"$merge": {**merge, "on": "k"}}]

    writer = Writer(twins, "merges")
    for on, pipeline in stages():
        twins.run({"drop": "target"})
        writer.run({"insert": "target", "documents": TARGET})
        if on is not None:
            index = {"key": {on: 1}, "name": "unique", "unique": True}
            twins.run({"createIndexes": "target", "indexes": [index]})
        twins.run({"drop": "source"})
        writer.run({"insert": "source", "documents": SOURCE})
        writer.run({"aggregate": "source", "pipeline": pipeline, "cursor": {}})
        writer.run({"find": "target", "sort": {"k": 1}})
    writer.finish()
