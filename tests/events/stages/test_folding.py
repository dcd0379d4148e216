"""Constant parts of expressions, as they are computed before filters are moved."""

from typing import Any

import pytest

from tailrace.events.stages.rewrites.constants import Folding
from tailrace.query.dialect import Dialect

Document = dict[str, Any]
FOLDING = Folding({"NOW": 5, "mine": "x"}, Dialect())


def literal(value: Any) -> Document:
    return {"$literal": value}


@pytest.mark.parametrize(
    ("spec", "folded"),
    [
        (1, 1),
        ("a", "a"),
        ("$a", "$a"),
        ("$$NOW", literal(5)),
        ("$$mine", literal("x")),
        ("$$ROOT", "$$ROOT"),
        ("$$NOW.x", "$$NOW.x"),
        ([], []),
        (["$$NOW", 1], [literal(5), 1]),
        ({}, {}),
        ({"a": "$$NOW", "b": {"$add": [1, 2]}}, {"a": literal(5), "b": literal(3)}),
        (literal("$$NOW"), literal("$$NOW")),
        ({"$add": [1, "$a"]}, {"$add": [1, "$a"]}),
        ({"$add": [1, {"$multiply": [2, 3]}]}, literal(7)),
        ({"$add": ["$a", {"$multiply": [2, 3]}]}, {"$add": ["$a", literal(6)]}),
        ({"$divide": [1, 0]}, {"$divide": [1, 0]}),
        ({"$add": ["$$NOW", 1]}, literal(6)),
        ({"$eq": [literal("$a"), "b"]}, literal(False)),
        ({"$size": [[1, "$a"]]}, {"$size": [[1, "$a"]]}),
        ({"$mergeObjects": [{"a": 1}, {"b": "$b"}]}, {"$mergeObjects": [{"a": 1}, {"b": "$b"}]}),
        ({"$mergeObjects": [{"a": 1}, {"b": 2}]}, literal({"a": 1, "b": 2})),
        # Inside, a name may be bound again.
        (
            {"$let": {"vars": {"NOW": "$a"}, "in": "$$NOW"}},
            {"$let": {"vars": {"NOW": "$a"}, "in": "$$NOW"}},
        ),
        (
            {"$map": {"input": "$a", "as": "mine", "in": "$$mine"}},
            {"$map": {"input": "$a", "as": "mine", "in": "$$mine"}},
        ),
        (
            {"$filter": {"input": "$a", "as": "mine", "cond": "$$mine"}},
            {"$filter": {"input": "$a", "as": "mine", "cond": "$$mine"}},
        ),
        (
            {"$reduce": {"input": "$a", "initialValue": {"$add": [1, 1]}, "in": "$$value"}},
            {"$reduce": {"input": "$a", "initialValue": literal(2), "in": "$$value"}},
        ),
        ({"$cond": [True, "$a", "$b"]}, "$a"),
        ({"$cond": [0, "$a", "$b"]}, "$b"),
        ({"$cond": [1, 7, "$b"]}, literal(7)),
        ({"$cond": [0, "$a", {"x": 1}]}, literal({"x": 1})),
        ({"$cond": {"if": {"$gt": [1, 2]}, "then": "$a", "else": "$b"}}, "$b"),
        ({"$cond": {"if": 1, "then": "$a", "else": "$b"}}, "$a"),
        ({"$cond": ["$a", 1, 2]}, {"$cond": ["$a", 1, 2]}),
        ({"$and": [1, "$a"]}, {"$and": ["$a"]}),
        ({"$and": ["$a", 0]}, literal(False)),
        ({"$and": ["$a", "$b", True]}, {"$and": ["$a", "$b"]}),
        ({"$or": [0, "$a"]}, {"$or": ["$a"]}),
        ({"$or": ["$a", 1]}, literal(True)),
        ({"$or": ["$a", "$b", None]}, {"$or": ["$a", "$b"]}),
        ({"$and": "$a"}, {"$and": "$a"}),
        ({"$ifNull": [None, "$a", "$b"]}, {"$ifNull": ["$a", "$b"]}),
        ({"$ifNull": [None, "$a", None]}, "$a"),
        ({"$ifNull": ["$a", 1, "$b"]}, {"$ifNull": ["$a", 1]}),
        ({"$ifNull": [None, 1, "$b"]}, literal(1)),
        ({"$ifNull": [None, None]}, literal(None)),
        (
            {"$switch": {"branches": [{"case": 0, "then": "$a"}], "default": "$b"}},
            "$b",
        ),
        (
            {"$switch": {"branches": [{"case": 0, "then": "$a"}, {"case": 1, "then": "$b"}]}},
            "$b",
        ),
        (
            {"$switch": {"branches": [{"case": 1, "then": 3}]}},
            literal(3),
        ),
        (
            {
                "$switch": {
                    "branches": [
                        {"case": "$c", "then": 1},
                        {"case": 0, "then": 2},
                        {"case": 1, "then": "$b"},
                        {"case": "$d", "then": 4},
                    ],
                    "default": 5,
                }
            },
            {"$switch": {"branches": [{"case": "$c", "then": 1}], "default": "$b"}},
        ),
        (
            {"$switch": {"branches": [{"case": "$c", "then": 1}, {"case": 0, "then": 2}], "default": 5}},
            {"$switch": {"branches": [{"case": "$c", "then": 1}], "default": 5}},
        ),
        (
            {"$switch": {"branches": [{"case": 0, "then": 2}]}},
            {"$switch": {"branches": [{"case": 0, "then": 2}]}},
        ),
    ],
)
def test_expressions(spec: Any, folded: Any) -> None:
    assert FOLDING.expression(spec) == folded


@pytest.mark.parametrize(
    ("stage", "folded"),
    [
        (
            ("$match", {"a": {"$gt": 1}, "$expr": {"$and": [1, "$a"]}}),
            {"a": {"$gt": 1}, "$expr": {"$and": ["$a"]}},
        ),
        (("$match", {"$and": [{"$expr": "$$NOW"}]}), {"$and": [{"$expr": literal(5)}]}),
        (("$match", {"$or": [{"$expr": "$$NOW"}]}), {"$or": [{"$expr": literal(5)}]}),
        (("$match", {"$nor": [{"$or": [{"$expr": "$$NOW"}]}]}), {"$nor": [{"$or": [{"$expr": literal(5)}]}]}),
        (("$set", {"a": "$$NOW", "b": 1}), {"a": literal(5), "b": 1}),
        (("$addFields", {"a": {"$add": [1, 1]}}), {"a": literal(2)}),
        (("$project", {"a": {"$cond": [1, "$b", 1]}, "b": 1}), {"a": "$b", "b": 1}),
        (("$replaceWith", {"a": {"$add": [1, 1]}}), {"a": {"$add": [1, 1]}}),
        (("$unset", "a"), "a"),
    ],
)
def test_stages(stage: tuple[str, Any], folded: Any) -> None:
    assert FOLDING.stage(stage) == (stage[0], folded)
