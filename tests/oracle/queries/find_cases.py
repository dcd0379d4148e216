# ruff: noqa: E501 - tables of cases
"""Finds, counts and distincts to compare: projections, sorts, hints, collations and their errors."""

from collections.abc import Iterator
from typing import Any, Final

from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey, Regex

from tests.oracle.queries.values import ONE_OF_EACH, each

Command = dict[str, Any]
PLACES: Final[tuple[dict[str, Any], ...]] = (
    {"_id": 5, "a": 3, "b": {"c": 1, "d": [1, 2, 3]}, "arr": [1, 2, 3, 4], "s": "beta", "docs": [{"x": 1, "y": 2}, {"x": 2}, {"x": 3, "y": 1}]},
    {"_id": 3, "a": 1, "b": {"c": 2}, "arr": [], "s": "Alpha", "docs": []},
    {"_id": 9, "a": [5, 0], "b": None, "arr": [7], "s": "álpha", "docs": [{"x": 5}]},
    {"_id": 1, "b": [{"c": 3}, {"c": 0}], "s": "alpha", "docs": {"x": 1, "y": 1}},
    {"_id": 7, "a": None, "b": 5, "arr": None, "s": "10"},
    {"_id": "k", "a": "text", "b": {"c": None}, "arr": "x", "s": "9", "n": 1},
    {"_id": 2, "a": 2.5, "b": {}, "arr": [[1, 2], [3]], "s": None, "n": 2},
    {"_id": 8, "a": {"z": 1}, "b": [[{"c": 9}]], "arr": [None, 2], "n": Int64(1)},
    {"_id": 4, "a": [], "b": [], "arr": [3, 1], "s": ["x", "B"], "n": 1.0},
    {"_id": 6, "a": Decimal128("2"), "b": {"c": [4, 5]}, "arr": {"0": 1}, "s": "ALPHA", "n": DatetimeMS(5)},
)  # fmt: skip

_FIELDS: Final = (
    "a",
    "b",
    "b.c",
    "arr",
    "s",
    "docs",
    "docs.x",
    "missing",
    "_id",
    "arr.0",
    "b.d",
    "n",
    "docs.0.x",
    "b.c.0",
)


def projections() -> Iterator[Command]:
    for value in ONE_OF_EACH:
        for path in each("a", "b.c", "docs.x", "_id", "new", "arr"):
            yield {"projection": {path: value}}
            yield {"projection": {path: {"$literal": value}}}
            yield {"projection": {path: {"$slice": value}}}
            yield {"projection": {path: {"$elemMatch": value}}}
        yield {"projection": {"arr": {"$slice": [value, 1]}}}
        yield {"projection": {"arr": {"$slice": [1, value]}}}
        yield {"projection": {"a": {"$meta": value}}}
    for spec in each(
        {}, {"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 1, "b": 0}, {"a": 1, "_id": 0}, {"_id": 0}, {"_id": 1}, {"a": 0, "_id": 1}, {"b.c": 1, "a": 1}, {"b": {"c": 1}},
        {"b": {"c": 0}}, {"b.c": 0, "b.d": 0}, {"b": 1, "b.c": 1}, {"b.c": 1, "b": 1}, {"a.b": 1, "a": 0}, {"b.c": 1, "b.d": 1}, {"arr": {"$slice": 2}}, {"arr": {"$slice": -2}},
        {"arr": {"$slice": [1, 2]}}, {"arr": {"$slice": [-3, 2]}}, {"arr": {"$slice": 0}}, {"arr": {"$slice": 2}, "a": 1}, {"arr": {"$slice": 2}, "a": 0}, {"arr": {"$slice": [1, 0]}},
        {"arr": {"$slice": [1, -1]}}, {"arr": {"$slice": [1]}}, {"arr": {"$slice": "x"}}, {"arr": {"$slice": ["$arr", 1]}}, {"arr": {"$slice": 1.5}}, {"b.d": {"$slice": 1}}, {"docs.x": {"$slice": 1}},
        {"docs": {"$elemMatch": {"x": 2}}}, {"docs": {"$elemMatch": {"x": {"$gt": 1}}}, "a": 1}, {"docs": {"$elemMatch": {"x": 1}}, "a": 0}, {"arr": {"$elemMatch": {"$gt": 2}}},
        {"docs": {"$elemMatch": {}}}, {"docs.x": {"$elemMatch": {"x": 1}}}, {"arr.$": 1}, {"docs.$": 1}, {"b.d.$": 1}, {"$": 1}, {"a.$.b": 1}, {"arr.$": 0}, {"": 1}, {"a.": 1}, {".a": 1}, {"$a": 1},
        {"x": "$a"}, {"x": {"$add": [1, 2]}}, {"b.x": "$a"}, {"b": {"x": "$a"}}, {"x": "$$ROOT.a"}, {"x": "$$NOPE"}, {"x": {"$nope": 1}}, {"a": "x"}, {"a": "$b.c", "b": 1}, {"docs.z": {"$literal": 1}},
        {"x": ["$a", 1]}, {"x": {"y": {"z": "$a"}}}, {"a": {"$cond": [1, 2, 3]}, "_id": 0}, {"x": None}, {"a": True, "b": False}, {"n": 1, "a": 1, "s": 1}, {"s": 1, "docs": 1, "arr": 1},
        {"x": {"$type": "$missing"}, "a": 0}, {"_id": 0, "a": 0}, {"_id": "$a"}, {"_id": {"x": "$a"}}, {"_id.x": 1}, {"b.c.d.e": 1}, {"a": {}}, {"a": {"b": {}}}, {"a": {"$eq": ["$a", 3]}}, {"a": -5}, {"a": 0.0},
        {"a": Decimal128("0")}, {"a": Int64(0), "b": 0.0}, {"b": {"c": 1, "d": 0}}, {"b": {"c": 1, "$add": 1}}, {"a": {"$add": [1], "b": 1}},
    ):  # fmt: skip
        yield {"projection": spec}
    for query, spec in (
        ({"arr": {"$gt": 1}}, {"arr.$": 1}), ({"arr": 3}, {"arr.$": 1, "a": 1}), ({"docs.x": 2}, {"docs.$": 1}), ({"docs": {"$elemMatch": {"x": 3}}}, {"docs.$": 1}),
        ({"b.d": 2}, {"b.d.$": 1}), ({"a": 3}, {"arr.$": 1}), ({"arr": {"$in": [2, 7]}}, {"arr.$": 1}), ({"arr": 1, "docs.x": 2}, {"docs.$": 1}), ({"docs.0.x": 1}, {"docs.$": 1}),
        ({"arr": {"$all": [2, 3]}}, {"arr.$": 1}), ({"$or": [{"arr": 2}]}, {"arr.$": 1}), ({"arr": {"$ne": 3}}, {"arr.$": 1}), ({"arr": 3}, {"arr.$": 1, "docs.$": 1}),
        ({"arr": 3}, {"arr.$": 1, "docs": {"$elemMatch": {"x": 1}}}), ({"arr": 3}, {"arr.$": 1, "arr": {"$slice": 1}}), ({"arr": 3}, {"arr.$": 1, "b": 0}), ({}, {"arr.$": 1}),
    ):  # fmt: skip
        yield {"filter": query, "projection": spec}


def sorts() -> Iterator[Command]:
    for field in _FIELDS:
        for direction in each(1, -1):
            # `_id` decides between equals, so that the order is defined.
            yield {
                "sort": {field: direction, **({} if field == "_id" else {"_id": 1})},
                "projection": {"_id": 1},
            }
            yield {"sort": {field: direction, "a": 1, "_id": -1}, "projection": {"_id": 1}}
    for value in ONE_OF_EACH:
        yield {"sort": {"a": value, "_id": 1}, "projection": {"_id": 1}}
    for direction in each(
        1.5,
        -1.5,
        0.5,
        -0.5,
        2,
        -2,
        0,
        1.0,
        True,
        Int64(1),
        Decimal128("1"),
        Decimal128("-1.5"),
        "1",
        {},
        {"$meta": "textScore"},
        {"$meta": 1},
        {"$meta": "recordId"},
        1e300,
        100,
    ):
        yield {"sort": {"n": direction, "_id": 1}, "projection": {"_id": 1}}
    for spec in each(
        {},
        {"": 1},
        {"a.": 1},
        {"$a": 1},
        {"a": 1, "b": 1, "c": 1, "_id": 1},
        {"$natural": 1},
        {"$natural": -1},
        {"$natural": 2},
        {"$natural": 1, "a": 1},
        {"a": 1, "$natural": 1},
        {"a..b": 1},
        {"a.$b": 1},
    ):
        yield {"sort": spec, "projection": {"_id": 1}}
    for skip in each(0, 1, 3, 100, 1.0, Int64(2)):
        yield {"skip": skip}
        yield {"limit": skip}
        yield {"sort": {"_id": 1}, "skip": skip, "limit": 2}
        yield {"sort": {"n": -1, "_id": 1}, "skip": 1, "limit": skip}
        yield {"batchSize": skip, "limit": 3}
    for option in each({"singleBatch": True, "batchSize": 2}, {"batchSize": 2, "limit": 5, "singleBatch": True}, {"returnKey": True}, {"showRecordId": True}, {"returnKey": True, "showRecordId": True},
                       {"returnKey": True, "sort": {"_id": 1}}, {"returnKey": True, "hint": {"_id": 1}}, {"returnKey": True, "filter": {"_id": 5}}, {"showRecordId": True, "projection": {"a": 1}},
                       {"returnKey": True, "hint": "n_1"}, {"returnKey": True, "hint": "n_1", "sort": {"n": -1}}, {"projection": {"r": {"$meta": "recordId"}}}, {"projection": {"r": {"$meta": "sortKey"}}, "sort": {"a": 1, "_id": 1}},
                       {"projection": {"r": {"$meta": "indexKey"}}, "hint": {"n": 1}}, {"projection": {"a": 1, "r": {"$meta": "sortKey"}}}):  # fmt: skip
        yield {**option}


def hints() -> Iterator[Command]:
    for hint in each(
        {"_id": 1},
        {"n": 1},
        "n_1",
        "_id_",
        {"nope": 1},
        "nope",
        {"$natural": 1},
        {"$natural": -1},
        {"n": -1},
        {"b.c": 1},
        {"s": 1},
        {"$natural": 2},
        {"a": 1, "n": -1},
    ):
        yield {"hint": hint, "projection": {"_id": 1}}
        yield {"hint": hint, "projection": {"_id": 1}, "filter": {"_id": {"$gt": 3}}}
        yield {"hint": hint, "projection": {"_id": 1}, "sort": {"_id": -1}}
        yield {"hint": hint, "projection": {"_id": 1}, "filter": {"n": {"$gte": 1}}}
    for low in each({"_id": 3}, {"n": 1}, {"n": 1, "x": 1}, {"nope": 1}, {"n": "x"}):
        for hint in each({"_id": 1}, {"n": 1}, None, {"nope": 1}):
            extra = {} if hint is None else {"hint": hint}
            yield {"min": low, "projection": {"_id": 1}, **extra}
            yield {"max": low, "projection": {"_id": 1}, **extra}
            yield {"min": low, "max": dict.fromkeys(low, 8), "projection": {"_id": 1}, **extra}
            yield {"min": dict.fromkeys(low, 8), "max": low, "projection": {"_id": 1}, **extra}
    for query in each({"n": 1}, {"n": {"$gt": 0}}, {"a": {"$gte": 1}}, {"b.c": 2}, {"b.c": {"$lt": 4}}, {"s": "alpha"}, {"s": Regex("^a", "i")}, {"s": Regex("^al")}, {"arr": 3}, {"n": {"$in": [1, 2]}}, {"n": None},
                      {"n": {"$exists": False}}, {"a": [5, 0]}, {"a": []}, {"a": {"$elemMatch": {"$gt": 1}}}, {"$or": [{"n": 1}, {"_id": 3}]}, {"n": {"$ne": 1}}, {"n": {"$not": {"$gt": 1}}},
                      {"_id": {"$gt": 3}}, {"_id": {"$lt": 6, "$gt": 2}}, {"_id": {"$in": [9, 5, 1]}}, {"_id": {"$ne": 5}}, {"_id": {"$type": "number"}}, {"_id": {"$exists": True}}, {"_id": {"$gt": MinKey()}}, {"_id": {"$mod": [2, 1]}},
                      {"_id": {"$nin": [5, 3]}}, {"_id": {"$not": {"$gt": 4}}}, {"_id": Regex("k")}, {"_id": {"$gte": 2}, "n": 1}, {"$and": [{"_id": {"$gt": 2}}, {"_id": {"$lt": 7}}]},
                      {"_id": {"$elemMatch": {"$gt": 1}}}, {"_id": {"$size": 1}}, {"_id": {"$all": [5]}}, {"$nor": [{"_id": 5}]}, {"_id": {"$gt": 3}, "$expr": {"$lt": ["$a", 5]}}, {"$expr": {"$gt": ["$_id", 4]}},
                      {"$or": [{"_id": 7}, {"_id": 2}]}, {"$or": [{"_id": {"$gt": 6}}, {"a": 1}]}, {"_id": {"$lt": "z"}}, {"_id": {"$bitsAllSet": 1}}, {"_id": {"$lte": MaxKey()}}):  # fmt: skip
        yield {"filter": query, "projection": {"_id": 1}}
        yield {"filter": query, "projection": {"_id": 1}, "sort": {"_id": -1}}
        yield {"filter": query, "projection": {"_id": 1}, "limit": 2}


def collations() -> Iterator[Command]:
    for collation in each({"locale": "en", "strength": 1}, {"locale": "en", "strength": 2}, {"locale": "en"}, {"locale": "simple"}, {"locale": "en", "numericOrdering": True}, {"locale": "en", "caseFirst": "upper"},
                          {"locale": "fr", "backwards": True}, {"locale": "en", "strength": 1, "caseLevel": True}, {"locale": "en", "alternate": "shifted"}, {"locale": "nope"}, {"strength": 1}, {"locale": "en", "x": 1}):  # fmt: skip
        for query in each(
            {"s": "alpha"},
            {"s": {"$gt": "a"}},
            {"s": {"$in": ["ALPHA"]}},
            {"s": {"$ne": "alpha"}},
            {"_id": "K"},
            {"s": Regex("^a")},
            {"$expr": {"$eq": ["$s", "alpha"]}},
            {},
        ):
            yield {"filter": query, "collation": collation, "projection": {"_id": 1}}
            yield {
                "filter": query,
                "collation": collation,
                "projection": {"_id": 1},
                "sort": {"s": 1, "_id": 1},
            }


def lets() -> Iterator[Command]:
    for let in each(
        {"x": 3},
        {"x": {"$add": [1, 2]}},
        {"X": 1},
        {"x": "$a"},
        {"x": "$$NOW"},
        {},
        5,
        {"x.y": 1},
        {"": 1},
        {"x": [1, 2]},
        {"x": {"y": 1}},
    ):
        for query in each(
            {"$expr": {"$eq": ["$a", "$$x"]}}, {"$expr": {"$lt": ["$_id", "$$x"]}}, {}, {"$expr": "$$nope"}
        ):
            yield {"filter": query, "let": let, "projection": {"_id": 1, "x": {"$literal": 1}}}
        yield {"let": let, "projection": {"x": "$$x"}, "limit": 1}


def finds() -> Iterator[Command]:
    for part in (projections, sorts, hints, collations, lets):
        for options in part():
            yield {"find": "places", **options}


def distincts_and_counts() -> Iterator[Command]:
    queries = each(
        {}, {"n": 1}, {"_id": {"$gt": 3}}, {"a": {"$exists": True}}, {"nope": 1}, {"a": {"$bad": 1}}, 5, None
    )
    for key in (*_FIELDS, "", "a.", "$a", "docs.y", "b.d.0"):
        for query in queries:
            yield {"distinct": "places", "key": key, "query": query}
        yield {"distinct": "places", "key": key}
        yield {"distinct": "places", "key": key, "collation": {"locale": "en", "strength": 1}}
    for value in ONE_OF_EACH:
        yield {"count": "places", "query": {"a": value}}
    for query in queries:
        for options in each(
            {},
            {"limit": 2},
            {"skip": 2},
            {"skip": 1, "limit": 2},
            {"limit": -2},
            {"limit": 0},
            {"hint": {"_id": 1}},
            {"hint": "nope"},
            {"collation": {"locale": "en"}},
        ):
            yield {"count": "places", "query": query, **options}
    for name in ("nope", "", "system.x"):
        yield {"count": name}
        yield {"distinct": name, "key": "a"}
        yield {"aggregate": name, "pipeline": [], "cursor": {}}
