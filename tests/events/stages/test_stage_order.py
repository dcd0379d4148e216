"""The order of the user's stages, exactly: which part of a filter moves, and under which names."""

from typing import Any

import pytest
from bson import Regex

from tailrace.events.stages.rewrites.reordering import reordered

Document = dict[str, Any]
Stage = tuple[str, Any]
SET: Stage = ("$set", {"a": 1})
REDACT: Stage = ("$redact", "$$KEEP")


def match(condition: Document | None) -> list[Stage]:
    return [] if condition is None else [("$match", condition)]


@pytest.mark.parametrize(
    ("stage", "condition", "moved", "left"),
    [
        (SET, {"b": 2}, {"b": 2}, None),
        (SET, {"a": 2}, None, {"a": 2}),
        (SET, {"a.x": 2}, None, {"a.x": 2}),
        (("$set", {"a.x": 1}), {"a": 2}, None, {"a": 2}),
        (("$set", {"a.x": 1}), {"a.y": 2}, {"a.y": 2}, None),
        (("$set", {"a": {"x": 1}}), {"a.y": 2}, {"a.y": 2}, None),
        (("$set", {"a": {"$add": [1]}}), {"ab": 2}, {"ab": 2}, None),
        (SET, {"a": 1, "b": 2}, {"b": 2}, {"a": 1}),
        (SET, {"$and": [{"a": 1}, {"b": 2}, {"$and": [{"c": 3}]}]}, {"$and": [{"b": 2}, {"c": 3}]}, {"a": 1}),
        (SET, {"$or": [{"a": 1}, {"b": 2}]}, None, {"$or": [{"a": 1}, {"b": 2}]}),
        (SET, {"$or": [{"c": 1}, {"b": 2}]}, {"$or": [{"c": 1}, {"b": 2}]}, None),
        (SET, {"$nor": [{"a": 1}, {"b": 2}]}, {"$nor": [{"b": 2}]}, {"$nor": [{"a": 1}]}),
        (SET, {"b": {"$gt": 1, "$lt": 3}}, {"b": {"$gt": 1, "$lt": 3}}, None),
        (SET, {"b": {"$regex": "x", "$options": "i"}}, {"b": {"$regex": "x", "$options": "i"}}, None),
        (SET, {"b": {"$size": 1}}, None, {"b": {"$size": 1}}),
        (SET, {"b": {"$elemMatch": {"c": 1}}}, None, {"b": {"$elemMatch": {"c": 1}}}),
        (SET, {"b": {"$all": []}}, None, {"$alwaysFalse": 1}),
        (SET, {"b": {"$all": [1]}}, {"b": {"$all": [1]}}, None),
        (SET, {"b": {"$all": [{"$elemMatch": {"c": 1}}]}}, None, {"b": {"$all": [{"$elemMatch": {"c": 1}}]}}),
        (SET, {"b": {"$not": {"$size": 1}}}, None, {"b": {"$not": {"$size": 1}}}),
        (SET, {"b": {"$not": {"$gt": 1}}}, {"b": {"$not": {"$gt": 1}}}, None),
        (SET, {"$or": [{"b": {"$size": 1}}]}, None, {"b": {"$size": 1}}),
        (SET, {"$comment": "x"}, {}, None),
        (SET, {"$sampleRate": 0.5}, {"$sampleRate": 0.5}, None),
        (SET, {"$where": "1"}, None, {"$where": "1"}),
        (SET, {"$jsonSchema": {"properties": {"b": {}}}}, {}, None),
        (SET, {"$jsonSchema": {"properties": {"a": {}}}}, {}, None),
        (SET, {"$jsonSchema": {"required": ["a"]}}, None, {"a": {"$exists": True}}),
        (
            SET,
            {"$jsonSchema": {"required": ["b"], "title": "x", "bsonType": "object", "description": "y"}},
            {"b": {"$exists": True}},
            None,
        ),
        (SET, {"$jsonSchema": {"minProperties": 1}}, None, {"$jsonSchema": {"minProperties": 1}}),
        (SET, {"$expr": {"$eq": ["$b", 1]}}, {"$expr": {"$eq": ["$b", 1]}}, None),
        (SET, {"$expr": {"$eq": ["$a", 1]}}, None, {"$expr": {"$eq": ["$a", 1]}}),
        (SET, {"$expr": {"$eq": ["$$ROOT.b", 1]}}, {"$expr": {"$eq": ["$$ROOT.b", 1]}}, None),
        (SET, {"$expr": {"$eq": ["$$ROOT", 1]}}, None, {"$expr": {"$eq": ["$$ROOT", 1]}}),
        (SET, {"$expr": {"$eq": ["$$CURRENT.a", 1]}}, None, {"$expr": {"$eq": ["$$CURRENT.a", 1]}}),
        (
            SET,
            {"$expr": {"$eq": [{"$literal": "$a"}, "$b"]}},
            {"$expr": {"$eq": [{"$literal": "$a"}, "$b"]}},
            None,
        ),
        (SET, {"$expr": {"$getField": "b"}}, None, {"$expr": {"$getField": "b"}}),
        (SET, {"$expr": {"$eq": ["$$NOW", "$b"]}}, {"$expr": {"$eq": ["$$NOW", "$b"]}}, None),
        (
            SET,
            {"$expr": {"$and": [{"$eq": ["$a", 1]}, {"$gt": ["$b", 2]}]}},
            {"$expr": {"$gt": ["$b", 2]}},
            {
                "$and": [
                    {"$expr": {"$and": [{"$eq": ["$a", 1]}, {"$gt": ["$b", 2]}]}},
                    {"$expr": {"$eq": ["$a", 1]}},
                ]
            },
        ),
        (
            SET,
            {"$expr": {"$and": [{"$eq": ["$b", "$c"]}, {"$ne": ["$b", 2]}, {"$lt": ["$b", 2, 3]}, "$b"]}},
            {"$expr": {"$and": [{"$eq": ["$b", "$c"]}, {"$ne": ["$b", 2]}, {"$lt": ["$b", 2, 3]}, "$b"]}},
            None,
        ),
        (
            SET,
            {"$expr": {"$or": [{"$eq": ["$b", 1]}, {"$eq": ["$a", 1]}]}},
            None,
            {"$expr": {"$or": [{"$eq": ["$b", 1]}, {"$eq": ["$a", 1]}]}},
        ),
        (("$set", {"a": "$b"}), {"a": 1}, {"b": 1}, None),
        (("$set", {"a": "$b"}), {"a.x": 1}, {"b.x": 1}, None),
        (("$set", {"a": "$b.c"}), {"a": 1}, None, {"a": 1}),
        (("$set", {"a": "$$NOW"}), {"a": 1}, None, {"a": 1}),
        (("$set", {"a.x": "$b"}), {"a": 1}, None, {"a": 1}),
        (("$set", {"a.x": "$b"}), {"a.x": 1}, {"b": 1}, None),
        (("$set", {"a": "$b"}), {"$or": [{"a": 1}, {"c": 2}]}, {"$or": [{"b": 1}, {"c": 2}]}, None),
        (("$set", {"a": "$b"}), {"$nor": [{"a": 1}]}, {"$nor": [{"b": 1}]}, None),
        (("$set", {"a": "$b"}), {"$expr": {"$eq": ["$a", 1]}}, {"$expr": {"$eq": ["$b", 1]}}, None),
        (
            ("$set", {"a": "$b"}),
            {"$expr": {"$eq": ["$$ROOT.a.x", {"$literal": "$a"}]}},
            {"$expr": {"$eq": ["$$ROOT.b.x", {"$literal": "$a"}]}},
            None,
        ),
        (
            ("$set", {"a": "$b"}),
            {"$expr": {"$in": ["$$CURRENT.a", ["$a", "x", 5]]}},
            {"$expr": {"$in": ["$$CURRENT.b", ["$b", "x", 5]]}},
            None,
        ),
        (("$set", {"a": "$b"}), {"$comment": "x", "a": 1}, {"b": 1}, None),
        (("$addFields", {"a": 1}), {"b": 1}, {"b": 1}, None),
        (("$unset", "a"), {"a": 1, "b": 1}, {"b": 1}, {"a": 1}),
        (("$unset", ["a", "b"]), {"a": 1, "b": 1, "c": 1}, {"c": 1}, {"$and": [{"a": 1}, {"b": 1}]}),
        (("$unset", ["a.x"]), {"a": 1, "a.y": 1}, {"a.y": 1}, {"a": 1}),
        (("$project", {"a": 1}), {"a": 1, "b": 1, "_id": 1}, {"$and": [{"a": 1}, {"_id": 1}]}, {"b": 1}),
        (("$project", {"a": 1, "_id": 0}), {"_id": 1}, None, {"_id": 1}),
        (("$project", {"a": 0}), {"a": 1, "b": 1}, {"b": 1}, {"a": 1}),
        (("$project", {"_id": 0}), {"_id": 1, "b": 1}, {"b": 1}, {"_id": 1}),
        (("$project", {"_id": 1}), {"_id": 1, "b": 1}, {"_id": 1}, {"b": 1}),
        (("$project", {"a": "$b"}), {"a": 1, "b": 1}, {"b": 1}, {"b": 1}),
        (
            ("$project", {"a": {"x": 1}}),
            {"a.x": 1, "a.y": 1, "a": 1},
            {"a.x": 1},
            {"$and": [{"a.y": 1}, {"a": 1}]},
        ),
        (("$project", {"a": True, "b": False}), {"a": 1}, {"a": 1}, None),
        (("$project", {"a": {"$add": [1, 2]}, "b": 1.0}), {"a": 1, "b": 1}, {"b": 1}, {"a": 1}),
        (("$project", {"a": 0, "_id": 1}), {"_id": 1, "a": 2}, {"_id": 1}, {"a": 2}),
        (("$replaceWith", "$x"), {"a": 1}, None, {"a": 1}),
    ],
)
def test_a_filter_after_a_stage(
    stage: Stage, condition: Document, moved: Document | None, left: Document | None
) -> None:
    assert reordered([stage, *match(condition)]) == [*match(moved), stage, *match(left)]


@pytest.mark.parametrize(
    ("condition", "copied"),
    [
        ({"b": 2}, {"b": {"$eq": 2}}),
        ({"b": None}, None),
        ({"b": {"$ne": 1}}, None),
        ({"b": {"$in": [1, Regex("x")]}}, {"b": {"$in": [1, Regex("x")]}}),
        ({"b": {"$in": [1, None]}}, None),
        ({"b": Regex("x")}, {"b": Regex("x")}),
        ({"b.0": 1}, None),
        ({"b": {"$all": [1, None]}}, {"b": {"$all": [1]}}),
        ({"b": {"$all": [None]}}, None),
        ({"b": {"$elemMatch": {"c": 1, "d": None}}}, {"b": {"$elemMatch": {"c": {"$eq": 1}}}}),
        ({"b": {"$elemMatch": {"$gt": 1, "$ne": 3}}}, {"b": {"$elemMatch": {"$gt": 1}}}),
        ({"b": {"$elemMatch": {"$ne": 3}}}, None),
        ({"b": {"$mod": [2, 0], "$type": "int", "$exists": True}}, {"b": {"$mod": [2, 0], "$type": "int"}}),
        ({"b": {"$regex": "x", "$options": "i"}}, {"b": {"$regex": "x", "$options": "i"}}),
        (
            {"b": {"$bitsAllSet": 1, "$bitsAnySet": 1, "$bitsAllClear": 1, "$bitsAnyClear": 1}},
            {"b": {"$bitsAllSet": 1, "$bitsAnySet": 1, "$bitsAllClear": 1, "$bitsAnyClear": 1}},
        ),
        ({"$and": [{"b": 1}, {"c": None}]}, {"b": {"$eq": 1}}),
        ({"$or": [{"b": 1}, {"c": None}]}, None),
        ({"$or": [{"b": 1}, {"c": 2}]}, {"$or": [{"b": {"$eq": 1}}, {"c": {"$eq": 2}}]}),
        ({"$nor": [{"b": 1}]}, None),
        ({"$expr": "$b"}, None),
        ({"b": {"x": 1}}, None),
        ({"b": [1]}, None),
        ({"b": {"$gte": 1, "$lt": [1]}}, {"b": {"$gte": 1}}),
    ],
)
def test_the_part_of_a_filter_that_is_copied_before_redact(
    condition: Document, copied: Document | None
) -> None:
    stages = [REDACT, *match(condition)]
    assert reordered(stages) == [*match(copied), *match(copied), *stages]
    assert reordered(stages, copies_filters=False) == stages


@pytest.mark.parametrize(
    ("stages", "order"),
    [
        ([("$match", {"a": 1}), ("$match", {"b": 2})], [("$match", {"$and": [{"a": 1}, {"b": 2}]})]),
        (
            [SET, ("$match", {"b": 1}), ("$match", {"c": 1})],
            [("$match", {"$and": [{"b": 1}, {"c": 1}]}), SET],
        ),
        ([SET, ("$set", {"b": 1}), ("$match", {"c": 1})], [("$match", {"c": 1}), SET, ("$set", {"b": 1})]),
        ([SET, ("$set", {"b": 1}), ("$match", {"b": 1})], [SET, ("$set", {"b": 1}), ("$match", {"b": 1})]),
        (
            [SET, ("$unset", "b"), ("$set", {"z": "$y"}), ("$match", {"z": 1})],
            [("$match", {"y": 1}), SET, ("$unset", "b"), ("$set", {"z": "$y"})],
        ),
        (
            [SET, REDACT, ("$match", {"b": 1})],
            [("$match", {"b": {"$eq": 1}}), SET, ("$match", {"b": {"$eq": 1}}), REDACT, ("$match", {"b": 1})],
        ),
    ],
)
def test_several_stages(stages: list[Stage], order: list[Stage]) -> None:
    assert reordered(stages) == order
