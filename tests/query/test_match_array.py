"""`$all`, `$elemMatch`, `$size`, and the array position of an update's `$`."""

from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId, Regex

from tailrace.errors import CommandError
from tailrace.query.match import compile_match

ID = ObjectId()

# (filter, document, expected)
CASES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    # $all
    ({"a": {"$all": [1, 2]}}, {"a": [2, 3, 1]}, True),
    ({"a": {"$all": [{"$x": 1}]}}, {"a": [{"$x": 1}]}, True),
    ({"a": {"$all": [1, 2]}}, {"a": [1]}, False),
    ({"a": {"$all": [1]}}, {"a": 1}, True),
    ({"a": {"$all": [1, 1]}}, {"a": 1}, True),
    ({"a": {"$all": [1, 2]}}, {"a": 1}, False),
    ({"a": {"$all": []}}, {"a": []}, False),
    ({"a": {"$all": []}}, {}, False),
    ({"a": {"$all": [None]}}, {}, True),
    ({"a": {"$all": [None]}}, {"a": [1, None]}, True),
    ({"a": {"$all": [[1, 2]]}}, {"a": [1, 2]}, True),
    ({"a": {"$all": [[1, 2]]}}, {"a": [[1, 2], 3]}, True),
    ({"a": {"$all": [[1, 2]]}}, {"a": [2, 1]}, False),
    ({"a": {"$all": [{"x": 1}]}}, {"a": [{"x": 1}, {"x": 2}]}, True),
    ({"a": {"$all": [{"x": 1}]}}, {"a": [{"x": 1, "y": 1}]}, False),
    ({"a": {"$all": [Regex("^f"), Regex("^b")]}}, {"a": ["foo", "bar"]}, True),
    ({"a": {"$all": [Regex("^f"), Regex("^b")]}}, {"a": ["foo"]}, False),
    ({"a.b": {"$all": [1, 2]}}, {"a": [{"b": 1}, {"b": 2}]}, True),
    ({"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"x": 2}}]}}, {"a": [{"x": 1}]}, False),
    ({"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"x": 2}}]}},
     {"a": [{"x": 1}, {"x": 2}]}, True),
    ({"a": {"$all": [{"$elemMatch": {"$gt": 5}}]}}, {"a": [9]}, True),
    ({"a": {"$not": {"$all": [1, 2]}}}, {"a": [1]}, True),
    # $elemMatch on values
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, {"a": [0, 3]}, True),
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, {"a": [0, 7]}, False),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": 3}, False),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": []}, False),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {}, False),
    ({"a": {"$elemMatch": {"$gt": 1}}}, {"a": [[3]]}, False),
    ({"a": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}}, {"a": [[3]]}, True),
    ({"a": {"$elemMatch": {"$elemMatch": {"$gt": 5}}}}, {"a": [[3]]}, False),
    ({"a": {"$elemMatch": {"$size": 1}}}, {"a": [[3]]}, True),
    ({"a": {"$elemMatch": {"$size": 1}}}, {"a": [3]}, False),
    ({"a": {"$elemMatch": {"$in": [1, 2]}}}, {"a": [2]}, True),
    ({"a": {"$elemMatch": {"$in": [[2]]}}}, {"a": [[2]]}, True),
    ({"a": {"$elemMatch": {"$all": [1]}}}, {"a": [[1]]}, False),
    ({"a": {"$elemMatch": {"$eq": None}}}, {"a": [1, None]}, True),
    ({"a": {"$elemMatch": {"$eq": None}}}, {"a": [1]}, False),
    ({"a": {"$elemMatch": {"$ne": None}}}, {"a": [None, 1]}, True),
    ({"a": {"$elemMatch": {"$ne": None}}}, {"a": [None]}, False),
    ({"a": {"$elemMatch": {"$not": {"$gt": 5}}}}, {"a": [9, 3]}, True),
    ({"a": {"$elemMatch": {"$not": {"$gt": 5}}}}, {"a": [9]}, False),
    ({"a": {"$elemMatch": {"$exists": True}}}, {"a": [None]}, True),
    ({"a": {"$elemMatch": {"$type": "string"}}}, {"a": [1, "x"]}, True),
    ({"a": {"$elemMatch": {"$regex": "^f"}}}, {"a": ["foo"]}, True),
    ({"a": {"$elemMatch": {"$regex": "^F", "$options": "i"}}}, {"a": ["foo"]}, True),
    ({"a": {"$elemMatch": {"$mod": [3, 0]}}}, {"a": [4, 6]}, True),
    ({"a.b": {"$elemMatch": {"$gt": 1}}}, {"a": [{"b": [0]}, {"b": [2]}]}, True),
    ({"a.b": {"$elemMatch": {"$gt": 1}}}, {"a": [{"b": 2}]}, False),
    # $elemMatch on documents
    ({"a": {"$elemMatch": {"x": 1, "y": 2}}}, {"a": [{"x": 1, "y": 2}]}, True),
    ({"a": {"$elemMatch": {"x": 1, "y": 2}}}, {"a": [{"x": 1}, {"y": 2}]}, False),
    ({"a": {"$elemMatch": {"x": 1}}}, {"a": {"x": 1}}, False),
    ({"a": {"$elemMatch": {}}}, {"a": [1]}, False),
    ({"a": {"$elemMatch": {}}}, {"a": [{}]}, True),
    ({"a": {"$elemMatch": {}}}, {"a": [[]]}, True),
    ({"a": {"$elemMatch": {"0": 5}}}, {"a": [[5]]}, True),
    ({"a": {"$elemMatch": {"x": None}}}, {"a": [[5]]}, True),
    ({"a": {"$elemMatch": {"x": None}}}, {"a": [5]}, False),
    ({"a": {"$elemMatch": {"0.x": 1}}}, {"a": [[{"x": 1}]]}, True),
    ({"a": {"$elemMatch": {"x": {"$gt": 1}}}}, {"a": [{"x": 2}]}, True),
    ({"a": {"$elemMatch": {"x.y": 1}}}, {"a": [{"x": {"y": 1}}]}, True),
    ({"a": {"$elemMatch": {"x": {"$elemMatch": {"y": 1}}}}}, {"a": [{"x": [{"y": 1}]}]}, True),
    ({"a": {"$elemMatch": {"$or": [{"x": 1}, {"x": 2}]}}}, {"a": [{"x": 2}]}, True),
    ({"a": {"$elemMatch": {"$and": [{"x": 1}, {"y": 2}]}}}, {"a": [{"x": 1}]}, False),
    ({"a": {"$elemMatch": {"$nor": [{"x": 1}]}}}, {"a": [{"x": 1}]}, False),
    ({"a": {"$elemMatch": {"$nor": [{"x": 1}]}}}, {"a": [{"x": 2}]}, True),
    ({"a": {"$elemMatch": {"$nor": [{"x": 1}]}}}, {"a": [1, 2]}, False),
    ({"a": {"$elemMatch": {"x": 1, "$comment": "c"}}}, {"a": [{"x": 1}]}, True),
    ({"a": {"$elemMatch": {"$ref": "c", "$id": ID}}}, {"a": [{"$ref": "c", "$id": ID}]}, True),
    ({"a": {"$elemMatch": {"$id": ID, "$ref": "c"}}}, {"a": [{"$ref": "c", "$id": ID, "x": 1}]}, True),
    ({"a": {"$elemMatch": {"$id": ID}}}, {"a": [{"$ref": "c", "$id": ID}]}, True),
    ({"a": {"$elemMatch": {"$eq": {"$ref": "c", "$id": 1}}}}, {"a": [{"$ref": "c", "$id": 1}]}, True),
    # $size
    ({"a": {"$size": 2}}, {"a": [1, 2]}, True),
    ({"a": {"$size": 2}}, {"a": [1]}, False),
    ({"a": {"$size": 2}}, {"a": [[1, 2]]}, False),
    ({"a": {"$size": 0}}, {"a": []}, True),
    ({"a": {"$size": 0}}, {}, False),
    ({"a": {"$size": 1}}, {"a": 1}, False),
    ({"a": {"$size": 2}}, {"a": {"0": 1, "1": 2}}, False),
    ({"a": {"$size": 2.0}}, {"a": [1, 2]}, True),
    ({"a": {"$size": -0.0}}, {"a": []}, True),
    ({"a": {"$size": Int64(2)}}, {"a": [1, 2]}, True),
    ({"a": {"$size": Decimal128("2")}}, {"a": [1, 2]}, True),
    ({"a.b": {"$size": 1}}, {"a": [{"b": []}, {"b": [1]}]}, True),
    ({"a.0": {"$size": 2}}, {"a": [[1, 2]]}, True),
]  # fmt: skip


@pytest.mark.parametrize(("filter_", "document", "expected"), CASES)
def test_arrays(filter_: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert compile_match(filter_)(document) == expected


@pytest.mark.parametrize(
    "operators",
    [
        {"$all": 1},
        {"$all": {"a": 1}},
        {"$all": None},
        {"$all": [{"$gt": 1}]},
        {"$all": [1, {"$elemMatch": {"x": 1}}]},
        {"$all": [{"$elemMatch": {"x": 1}}, 5]},
        {"$all": [{"$elemMatch": {"x": 1}}, {"x": 5}]},
        {"$all": [{"$elemMatch": 5}]},
        {"$elemMatch": 5},
        {"$elemMatch": [1]},
        {"$elemMatch": None},
        {"$elemMatch": {"$gt": 1, "x": 1}},
        {"$elemMatch": {"x": 1, "$gt": 1}},
        {"$elemMatch": {"$nope": 1}},
        {"$elemMatch": {"$or": []}},
        {"$elemMatch": {"$expr": True}},
        {"$elemMatch": {"x": 1, "$expr": True}},
        {"$elemMatch": {"x": 1, "$jsonSchema": {}}},
        {"$elemMatch": {"$or": [{"$expr": True}]}},
        {"$elemMatch": {"x": 1, "$sampleRate": 0.5}},
        {"$size": "2"},
        {"$size": None},
        {"$size": True},
        {"$size": [2]},
        {"$size": {"$gt": 1}},
        {"$size": -1},
        {"$size": 2.5},
        {"$size": float("nan")},
        {"$size": float("inf")},
        {"$size": Int64(2**40)},
    ],
)
def test_refused(operators: dict[str, Any]) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"a": operators})
    assert caught.value.code == 2


# (filter, document, position)
POSITIONS: list[tuple[dict[str, Any], dict[str, Any], int | None]] = [
    ({"a": 2}, {"a": [1, 2, 2]}, 1),
    ({"a": 2}, {"a": 2}, None),
    ({"a": 9}, {"a": [1, 2]}, None),
    ({"a": [1, 2]}, {"a": [1, 2]}, None),
    ({"a": [1, 2]}, {"a": [0, [1, 2]]}, 1),
    ({"a": {"$gt": 1}}, {"a": [1, 5, 9]}, 1),
    ({"a": {"$in": [9, 5]}}, {"a": [1, 5, 9]}, 1),
    ({"a": Regex("^b")}, {"a": ["a", "b"]}, 1),
    ({"a.b": 2}, {"a": [{"b": 1}, {"b": 2}]}, 1),
    ({"a.b": 2}, {"a": [{"b": [1]}, {"b": [3, 2]}]}, 1),
    ({"a.b": None}, {"a": [{"b": 1}, {}]}, 1),
    ({"a.b": 2}, {"a": {"b": [0, 1, 2]}}, 2),
    ({"a.0": 5}, {"a": [5]}, 0),
    ({"a.0.b": 3}, {"a": [{"b": [2, 3]}]}, 1),
    ({"a": {"$elemMatch": {"$gt": 1, "$lt": 6}}}, {"a": [9, 5]}, 1),
    ({"a": {"$elemMatch": {"x": 1, "y": 2}}}, {"a": [{"x": 1}, {"y": 2}, {"x": 1, "y": 2}]}, 2),
    ({"a.b": {"$elemMatch": {"$gt": 1}}}, {"a": {"b": [0, 2]}}, 1),
    ({"a.b": {"$elemMatch": {"$gt": 1}}}, {"a": [{"b": [0]}, {"b": [0, 2]}]}, 1),
    ({"a": {"$all": [1, 3]}}, {"a": [1, 2, 3]}, 2),
    ({"a": {"$size": 2}}, {"a": [1, 2]}, None),
    ({"a": {"$exists": True}}, {"a": [1, 2]}, 0),
    ({"a": {"$ne": 9}}, {"a": [1, 2]}, None),
    ({"a": {"$not": {"$gt": 9}}}, {"a": [1, 2]}, None),
    ({"$nor": [{"a": 9}]}, {"a": [1, 2]}, None),
    ({"a": 2, "b": 1}, {"a": [1, 2], "b": 1}, 1),
    ({"a": 2, "b": 3}, {"a": [1, 2], "b": [3]}, 0),
    ({"$and": [{"b": 3}, {"a": 2}]}, {"a": [1, 2], "b": [3]}, 1),
    ({"$or": [{"a": 9}, {"a": 2}]}, {"a": [1, 2]}, 1),
    ({"$expr": True, "a": 2}, {"a": [1, 2]}, 1),
    ({}, {"a": [1]}, None),
]


@pytest.mark.parametrize(("filter_", "document", "position"), POSITIONS)
def test_array_position(filter_: dict[str, Any], document: dict[str, Any], position: int | None) -> None:
    assert compile_match(filter_).array_position(document) == position
