"""What a validator refuses, and how the error explains it, beside the real server."""

from typing import Final

import pytest
from bson import Regex

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins
from tests.oracle.writing import Writer

VALIDATORS: Final[tuple[Document, ...]] = (
    {"a": {"$gt": 1}}, {"a": 1, "b": {"$exists": True}}, {"$or": [{"a": 1}, {"b": {"$in": [1, 2]}}]},
    {"$nor": [{"a": 1}]}, {"$nor": [{"a": 1, "b": 3}]}, {"$nor": [{"$or": [{"a": 1}, {"b": 9}]}]},
    {"a": {"$ne": 1}},
    {"a": {"$not": {"$gt": 0, "$lt": 5}}}, {"a": {"$not": Regex("x")}}, {"a": {"$nin": [1, 2]}},
    {"a": Regex("^y")},
    {"a": {"$type": ["string", "bool"]}}, {"a": {"$exists": False}}, {"b.c": 1},
    {"a": {"$not": {"$not": {"$gt": 9}}}},
    {"$nor": [{"$nor": [{"a": 99}]}]}, {"$nor": [{"$expr": True}]}, {"a": {"$not": {"$in": [1, None]}}},
    {"a": {"$not": {"$nin": [99]}}}, {"a": {"$not": {"$ne": 99}}}, {"a": {"$not": {"$exists": True}}},
    {"a": {"$not": {"$mod": [1, 0]}}}, {"a": {"$not": {"$bitsAllClear": 64}}}, {"l": {"$not": {"$size": 3}}},
    {"l": {"$not": {"$all": [1]}}}, {"l": {"$not": {"$elemMatch": {"$gt": 0}}}},
    {"a": {"$not": {"$type": "int"}}}, {"a": {"$not": {"$eq": 1}}}, {"$expr": {"$gt": ["$a", 1]}},
    {"a": {"$type": "string"}},
    {"a": {"$regex": "^x"}}, {"l": {"$size": 2}}, {"l": {"$elemMatch": {"$gt": 5}}}, {"l": {"$all": [1, 9]}},
    {"a": {"$mod": [2, 0]}}, {"a": {"$bitsAllSet": 6}}, {"$and": [{"a": {"$gt": 0}}, {"b": {"$lt": 0}}]},
    {"$jsonSchema": {"required": ["a", "z"], "properties": {"a": {"bsonType": "string"},
    "l": {"minItems": 3}}}},
    {"$jsonSchema": {"additionalProperties": False, "properties": {"_id": {}, "a": {"minimum": 5}}}},
    {"$jsonSchema": {"anyOf": [{"required": ["q"]}, {"properties": {"a": {"enum": [7]}}}]}},
    {"$jsonSchema": {"properties": {"l": {"items": [{"type": "string"}], "additionalItems": False,
    "maxItems": 1}}}},
    {"$jsonSchema": {"properties": {"l": {"bsonType": "array", "minLength": 9, "uniqueItems": True,
    "minItems": 4}}}},
    {"$jsonSchema": {"patternProperties": {"^a": {"type": "string"}}, "not": {"required": ["b"]},
    "minProperties": 3}},
    {"$jsonSchema": {"dependencies": {"a": ["z"], "b": {"required": ["y"]}},
    "additionalProperties": {"type": "int"}}},
    {"$jsonSchema": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "maxProperties": 1}},
)  # fmt: skip


@pytest.mark.parametrize("validator", VALIDATORS, ids=str)
def test_validators(twins: Twins, validator: Document) -> None:
    documents: list[Document] = [
        {"_id": 1, "a": 1, "b": 3, "l": [1, 2, 3]}, {"_id": 2}, {"_id": 3, "a": "x", "l": 5},
        {"_id": 4, "a": [1, 2]},
        {"_id": 5, "a": [], "b": [{"c": 2}, {"c": 3}]}, {"_id": 6, "a": [5]},
        {"_id": 7, "a": ["y", None, 2.5]},
    ]  # fmt: skip
    writer = Writer(twins, "validated")
    twins.run({"drop": "validated"})
    twins.run({"create": "validated", "validator": validator})
    for document in documents:
        command = {"insert": "validated", "documents": [document]}
        writer.run(command)
        writer.run({**command, "bypassDocumentValidation": True})
        change = {"q": {"_id": document["_id"]}, "u": {"$set": {"c": 1}}}
        writer.run({"update": "validated", "updates": [change]})
        writer.run({"findAndModify": "validated", "query": change["q"], "update": {"d": 1}})
    writer.finish()
