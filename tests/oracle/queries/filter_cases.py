# ruff: noqa: E501 - tables of cases
"""Filters to compare: every operator with every type of operand, over documents with every type of value."""

from collections.abc import Iterator
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, Regex

from tailrace.bson.values import Undefined
from tests.oracle.queries.values import ONE_OF_EACH, VALUES, each

DOCUMENTS: Final[tuple[dict[str, Any], ...]] = (
    {"_id": -1},
    {"_id": -2, "a": {"b": 1}},
    {"_id": -3, "a": {"b": [1, 2]}},
    {"_id": -4, "a": [{"b": 1}, {"b": 2}]},
    {"_id": -5, "a": [{"b": [1]}, {"c": 1}, 3]},
    {"_id": -6, "a": [[{"b": 1}]]},
    {"_id": -7, "a": {"b": None}},
    {"_id": -8, "a": {"b": {"c": [1, {"d": 2}]}}},
    {"_id": -9, "a": [{"b": None}, {}]},
    {"_id": -10, "a": {"0": 5, "b": Undefined()}},
    {"_id": -11, "a": [[1, 2], [3, [4]]]},
    {"_id": -12, "a": [5, {"0": 6}]},
    {"_id": -13, "a": [None, Undefined(), 1]},
    {"_id": -14, "a": [{"k": 1, "v": 5}, {"k": 2, "v": 1}]},
    {"_id": -15, "a": ["abc", "xyz", Regex("^a", "i")]},
    {"_id": -16, "a": {"b": {}}},
    {"_id": -17, "a": [Decimal128("1"), 1.0, Int64(1)]},
    *({"_id": number, "a": value} for number, value in enumerate(VALUES)),
)
"""Values of every type under `a`, and paths through documents and arrays."""

COMPARISONS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_PATHS: Final = (
    "a",
    "a.b",
    "a.0",
    "a.b.c",
    "a.0.b",
    "a.b.0",
    "a.k",
    "a.0.0",
    "a.1.1.0",
    "missing",
    "a.c",
    "_id",
)
_BITS: Final = ("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear")


def filters() -> Iterator[dict[str, Any]]:
    for value in VALUES:
        yield {"a": value}
        for name in COMPARISONS:
            yield {"a": {name: value}}
        for name in each("$in", "$nin", "$all"):
            yield {"a": {name: [value]}}
        yield {"a": {"$elemMatch": {"$eq": value}}}
        yield {"a": {"$not": {"$eq": value}}}
        yield {"a": {"$not": {"$gt": value}}}
        yield {"a.b": value}
        yield {"a.0": value}
    for value in ONE_OF_EACH:
        for path in _PATHS:
            for name in each("$eq", "$ne", "$gt", "$lte"):
                yield {path: {name: value}}
            yield {path: {"$in": [value, 1, None]}}
            yield {path: {"$nin": [value, 1]}}
            yield {path: {"$elemMatch": {"$gte": value}}}
        for name in each("$in", "$nin", "$not", "$exists", "$type", "$all", "$elemMatch", "$size", "$regex", "$options", "$mod",
                     *_BITS, "$nope", "$expr", "$comment", "$jsonSchema", "$and"):  # fmt: skip
            yield {"a": {name: value}}
            yield {"a": {name: [value]}}
        for name in each("$and", "$or", "$nor", "$expr", "$jsonSchema", "$comment", "$alwaysTrue", "$alwaysFalse", "$nope",
                     "$sampleRate", "$ref", "$id", "$db", "$not"):  # fmt: skip
            if name != "$sampleRate" or not isinstance(value, int | float | Decimal128):
                yield {name: value}
            yield {name: [value]} if name != "$expr" else {"$expr": {"$literal": value}}
        yield {"a": {"$mod": [value, 1]}}
        yield {"a": {"$mod": [2, value]}}
        yield {"a": {"$regex": value, "$options": "i"}}
        yield {"a": {"$regex": "a", "$options": value}}
    for path in _PATHS:
        yield {path: {"$exists": True}}
        yield {path: {"$exists": False}}
        yield {path: None}
        yield {path: {"$ne": None}}
        yield {path: {"$size": 2}}
        yield {path: {"$not": {"$size": 1}}}
        for kind in each(*range(-1, 20), 127, -1, 255, 1.5, "number", "int", "missing", "array", "object", "null", "undefined",
                     "minKey", "nope", True, None, [], ["int", "array"], ["nope"], [2, "null"]):  # fmt: skip
            yield {path: {"$type": kind}}
        for size in each(0, 1, 2, -1, 1.0, 1.5, Int64(1), Decimal128("1"), Int64(2**40), "1", None):
            yield {path: {"$size": size}}
        yield {path: Regex("a")}
        yield {path: Regex("^A", "i")}
        yield {path: {"$regex": "B", "$options": "imsx"}}
        yield {path: {"$not": Regex("a")}}
        yield {path: {"$not": {"$regex": "a"}}}
        yield {path: {"$in": [Regex("^a"), 5]}}
        yield {path: {"$nin": [Regex("^a"), None]}}
        yield {path: {"$all": [Regex("a"), "abc"]}}
        for condition in each({"b": 1}, {"b": {"$gt": 1}}, {}, {"$or": [{"b": 1}, {"c": 1}]}, {"0": 1}, {"$gt": 1, "$lt": 3},
                          {"k": 1, "v": {"$gt": 3}}, {"$elemMatch": {"$gt": 1}}, {"$not": {"$gt": 1}},
                          {"$expr": {"$gt": ["$b", 1]}}, {"$in": [1, 5]}, {"$exists": False}, {"b": None},
                          {"$nor": [{"b": 1}]}, {"$type": "array"}, {"$size": 2}, {"$ne": 1}, {"$nin": [None]},
                          {"b": {"$exists": False}}, {"$and": [{"b": 1}]}, {"b.0": 1}, {"$regex": "a"}):  # fmt: skip
            yield {path: {"$elemMatch": condition}}
            yield {path: {"$not": {"$elemMatch": condition}}}
            yield {path: {"$all": [{"$elemMatch": condition}]}}
        for bits in each(0, 1, 5, -1, 2.0, 1.5, Int64(2**40), Decimal128("3"), [], [0, 2], [64, 200], [-1], ["x"], [1.0],
                     Binary(b"\x01"), Binary(b"\x01\x80"), "x", None, [2**31]):  # fmt: skip
            for name in _BITS:
                yield {path: {name: bits}}
        for mod in each([2, 1], [2, 0], [3, -1], [0, 1], [2], [], [2, 1, 3], [2.5, 1], [1.9, 0.9], [Int64(2**40), 0], ["x", 1],
                    [2, "x"], [2, None], 5, [float("nan"), 1], [2, float("inf")], [Decimal128("2"), 1]):  # fmt: skip
            yield {path: {"$mod": mod}}
    yield from (
        {"a": {"$gt": 1, "$lt": 5}}, {"a": {"$gt": 1, "x": 1}}, {"a": {"x": 1, "$gt": 1}}, {"a": {"$not": {}}},
        {"a": {"$not": 1}}, {"a": {"$not": {"$not": {"$gt": 1}}}}, {"a": {"$not": {"$nope": 1}}},
        {"a": {"$not": {"x": 1}}}, {"a": {"$not": {"$regex": "a", "$options": "i"}}}, {"$and": []}, {"$and": [{}]},
        {"$or": [{"a": 1}, {"a": "abc"}]}, {"$nor": [{"a": 1}, {"a.b": 1}]}, {"$and": [{"$or": [{"a": 1}]}]},
        {"$or": [{"a": {"$nope": 1}}]}, {"$expr": "$a"}, {"$expr": {"$gt": ["$a", 1]}}, {"$expr": {"$nope": 1}},
        {"$expr": {"$eq": ["$a", None]}}, {"$expr": {"$lt": ["$a.b", 2]}}, {"$expr": {"$in": [1, "$a"]}},
        {"$expr": {"$isArray": "$a"}}, {"$expr": {"$eq": [{"$type": "$a"}, "missing"]}}, {"$expr": False},
        {"": 1}, {"a.": 1}, {".a": 1}, {"a..b": 1}, {"a": {"": 1}}, {"a": {"$eq": {"$gt": 1}}},
        {"a": {"$eq": Regex("^a", "i")}}, {"a": {"$in": [{"$gt": 1}]}}, {"a": {"$in": [[1, 2]]}},
        {"a": {"$all": [[1, 2]]}}, {"a": {"$all": [1, 2]}}, {"a": {"$all": [{"$elemMatch": {"b": 1}}, 1]}},
        {"a": {"$all": [1, {"$elemMatch": {"b": 1}}]}}, {"a": {"$all": []}}, {"a": {"$in": []}}, {"a": {"$nin": []}},
        {"a": {"$ref": "x", "$id": 1}}, {"a": {"$ref": "x", "$id": 1, "$db": "y"}}, {"a": {"$id": 1}}, {"a.$id": 1},
        {"a.$x": 1}, {"$jsonSchema": {"required": ["a"]}}, {"$jsonSchema": {"properties": {"a": {"bsonType": "int"}}}},
        {"$jsonSchema": {"properties": {"a": {"type": "array", "items": {"type": "number"}}}}},
        {"$jsonSchema": {"properties": {"a": {"enum": [1, None, "abc"]}}}},
        {"$jsonSchema": {"properties": {"a": {"minimum": 1, "maximum": 3, "exclusiveMaximum": True}}}},
        {"$jsonSchema": {"properties": {"a": {"pattern": "^a", "minLength": 2}}}},
        {"$jsonSchema": {"properties": {"a": {"minItems": 2, "uniqueItems": True}}}},
        {"$jsonSchema": {"not": {"required": ["a"]}}}, {"$jsonSchema": {"nope": 1}}, {"$jsonSchema": {"minProperties": 2}},
        {"$jsonSchema": {"properties": {"a": {"multipleOf": 2}}}}, {"$jsonSchema": {"additionalProperties": False}},
        {"$jsonSchema": {"anyOf": [{"required": ["a"]}]}}, {"$jsonSchema": {"dependencies": {"a": ["b"]}}},
        {"$jsonSchema": {"properties": {"a": {"type": "nope"}}}}, {"$jsonSchema": {"properties": 1}},
        {"$jsonSchema": {"properties": {"a": {"bsonType": ["int", "string"]}}}}, {"$jsonSchema": {"type": "array"}},
        {"$jsonSchema": {"patternProperties": {"^a": {"type": "string"}}}}, {"$jsonSchema": {"title": 5}},
        {"a": {"$gte": MinKey()}}, {"a": {"$lt": MaxKey()}}, {"a": {"$gt": MinKey(), "$lt": 5}},
        {"a": {"$gt": DatetimeMS(0)}}, {"a": {"$gt": Code("f()")}}, {"a": {"$gte": None}}, {"a": {"$lte": None}},
        {"a": {"$gt": None}}, {"a": {"$gte": {"$literal": 1}}}, {"a": {"$regex": "[", "$options": ""}},
        {"a": {"$regex": "a", "$options": "z"}}, {"a": {"$options": "i"}}, {"a": {"$options": "i", "$regex": "ABC"}},
        {"a": {"$regex": Regex("a", "i"), "$options": "m"}}, {"a": {"$regex": "a\0b"}}, {"a": {"$gt": Regex("a")}},
        {"a": {"$ne": Regex("a")}}, {"$text": {"$search": "x"}}, {"a": {"$text": 1}}, {"$comment": "x", "a": 1},
        {"a": {"$comment": "x"}}, {"a": {"$gt": 1, "$comment": 5}}, {"a": 1, "_id": {"$gt": 3}},
        {"_id": {"$in": [1, 2, 3, 99]}}, {"_id": {"$gt": 5, "$lt": 9}}, {"_id": {"$ne": 5}}, {"_id": "x"},
        {"_id": {"$exists": False}}, {"_id": None}, {"_id": {"$type": "int"}}, {"_id": 5.0}, {"_id": Int64(5)},
        {"_id": Decimal128("5")}, {"_id": {"$gte": -3, "$lte": -1}, "a.b": {"$exists": True}},
    )  # fmt: skip
