"""Logical operators, the grammar of filters, and what is refused."""

from typing import Any

import pytest
from bson import Regex

from tailrace.errors import CommandError
from tailrace.query.match import compile_match

# (filter, document, expected)
CASES: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"$and": [{"a": 1}, {"b": 2}]}, {"a": 1, "b": 2}, True),
    ({"$and": [{"a": 1}, {"b": 2}]}, {"a": 1, "b": 3}, False),
    ({"$and": [{"a": 1}]}, {"a": 1}, True),
    ({"$and": [{}]}, {}, True),
    ({"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 5}}, {"b": 1}]}, {"a": 3, "b": 1}, True),
    ({"$or": [{"a": 1}, {"b": 2}]}, {"a": 0, "b": 2}, True),
    ({"$or": [{"a": 1}, {"b": 2}]}, {"a": 0, "b": 0}, False),
    ({"$or": [{"a": 1}]}, {"a": 1}, True),
    ({"$nor": [{"a": 1}, {"b": 2}]}, {"a": 0, "b": 0}, True),
    ({"$nor": [{"a": 1}, {"b": 2}]}, {"a": 1, "b": 0}, False),
    ({"$nor": [{"a": 1}]}, {}, True),
    ({"$or": [{"$and": [{"a": 1}, {"b": 1}]}, {"$nor": [{"a": 1}]}]}, {"a": 1, "b": 2}, False),
    ({"$or": [{"$and": [{"a": 1}, {"b": 1}]}, {"$nor": [{"a": 1}]}]}, {"a": 2}, True),
    ({"a": 1, "$or": [{"b": 1}, {"b": 2}]}, {"a": 1, "b": 2}, True),
    ({"a": 1, "$or": [{"b": 1}, {"b": 2}]}, {"a": 2, "b": 2}, False),
    ({"a": {"$not": {"$gt": 5}}}, {"a": 3}, True),
    ({"a": {"$not": {"$gt": 5}}}, {"a": 7}, False),
    ({"a": {"$not": {"$gt": 5}}}, {}, True),
    ({"a": {"$not": {"$gt": 5}}}, {"a": "x"}, True),
    ({"a": {"$not": {"$gt": 5}}}, {"a": [3, 7]}, False),
    ({"a": {"$not": {"$gt": 5, "$lt": 9}}}, {"a": 7}, False),
    ({"a": {"$not": {"$gt": 5, "$lt": 9}}}, {"a": 10}, True),
    ({"a": {"$not": {"$not": {"$eq": 1}}}}, {"a": 1}, True),
    ({"a": {"$not": Regex("^f")}}, {"a": "foo"}, False),
    ({"a": {"$not": Regex("^f")}}, {"a": "bar"}, True),
    ({"a": {"$not": Regex("^f")}}, {"a": 5}, True),
    ({"a": {"$not": {"$regex": "^F", "$options": "i"}}}, {"a": "foo"}, False),
    ({"a": {"$not": {"$size": 2}}}, {"a": [1]}, True),
    ({"a": {"$not": {"$exists": True}}}, {}, True),
    ({"a": {"$not": {"$elemMatch": {"$gt": 5}}}}, {"a": [3]}, True),
    ({"a": {"$gt": 1, "$not": {"$gt": 5}}}, {"a": 3}, True),
    ({"$comment": "why", "a": 1}, {"a": 1}, True),
    ({"$comment": {"any": "thing"}}, {}, True),
    ({"$alwaysTrue": 1}, {}, True),
    ({"$alwaysTrue": 1.0, "a": 1}, {"a": 2}, False),
    ({"$alwaysFalse": 1}, {}, False),
    ({"$or": [{"$alwaysFalse": 1}, {"a": 1}]}, {"a": 1}, True),
    ({"$ref": "c", "$id": 5}, {"$ref": "c", "$id": 5}, True),
    ({"$ref": "c", "$id": 5}, {"$ref": "d", "$id": 5}, False),
    ({"$db": "x"}, {"$db": "x"}, True),
]


@pytest.mark.parametrize(("filter_", "document", "expected"), CASES)
def test_logic(filter_: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    assert compile_match(filter_)(document) == expected


# (filter, code, what the message names)
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"$and": []}, 2, "$and"),
    ({"$or": []}, 2, "$or"),
    ({"$nor": []}, 2, "$nor"),
    ({"$and": {"a": 1}}, 2, "$and"),
    ({"$or": None}, 2, "$or"),
    ({"$nor": "x"}, 2, "$nor"),
    ({"$and": [1]}, 2, "$and"),
    ({"$or": [{"a": 1}, None]}, 2, "$or"),
    ({"a": {"$not": 5}}, 2, "$not"),
    ({"a": {"$not": None}}, 2, "$not"),
    ({"a": {"$not": "x"}}, 2, "$not"),
    ({"a": {"$not": {}}}, 2, "$not"),
    ({"a": {"$not": {"b": 1}}}, 2, "unknown operator: b"),
    ({"a": {"$not": {"$nope": 1}}}, 2, "unknown operator: $nope"),
    ({"$not": {"a": 1}}, 2, "unknown top level operator: $not"),
    ({"$nope": 1}, 2, "unknown top level operator: $nope"),
    ({"$mod": [2, 0]}, 2, "unknown top level operator: $mod"),
    ({"$gt": 1}, 2, "unknown top level operator: $gt"),
    ({"$": 1}, 2, "unknown top level operator: $"),
    ({"a": {"$nope": 1}}, 2, "unknown operator: $nope"),
    ({"a": {"$gt": 1, "b": 2}}, 2, "unknown operator: b"),
    ({"a": {"$id": 1}}, 2, "unknown operator: $id"),
    ({"a": {"$and": [{"$gt": 1}]}}, 2, "unknown operator: $and"),
    ({"a": {"$or": []}}, 2, "unknown operator: $or"),
    ({"a": {"$expr": 1}}, 2, "unknown operator: $expr"),
    ({"a": {"$comment": "x"}}, 2, "unknown operator: $comment"),
    ({"a": {"$text": {}}}, 2, "unknown operator: $text"),
    ({"$or": [{"a": {"$nope": 1}}]}, 2, "unknown operator: $nope"),
    ({"$alwaysTrue": 0}, 9, "$alwaysTrue"),
    ({"$alwaysTrue": True}, 9, "$alwaysTrue"),
    ({"$alwaysFalse": 1.1}, 9, "$alwaysFalse"),
    ({"$alwaysFalse": ""}, 9, "$alwaysFalse"),
    ({"$where": "this.a == 1"}, 2, "$where"),
    ({"$or": [{"$where": "1"}]}, 2, "$where"),
    ({"a": {"$where": "1"}}, 2, "$where cannot be applied to a field"),
    ({"a": {"$elemMatch": {"$where": "1"}}}, 2, "$where can only be applied to the top-level document"),
    ({"$text": {"$search": "x"}}, 27, "$text"),
    ({"a": {"$elemMatch": {"b": 1, "$text": {}}}}, 2, "$text can only be applied to the top-level document"),
    ({"a": {"$near": [0, 0]}}, 5626500, "$near"),
    ({"a": {"$nearSphere": [0, 0]}}, 5626500, "$nearSphere"),
    ({"a": {"$geoNear": [0, 0]}}, 5626500, "$geoNear"),
    ({"a": {"$geoWithin": {}}}, 2, "$geoWithin"),
    ({"a": {"$geoIntersects": {}}}, 2, "$geoIntersects"),
    ({"a": {"$minDistance": 10}}, 2, "unknown operator: $minDistance"),
]


@pytest.mark.parametrize(("filter_", "code", "named"), REFUSED)
def test_refused(filter_: dict[str, Any], code: int, named: str) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match(filter_)
    assert caught.value.code == code
    assert named in caught.value.message
