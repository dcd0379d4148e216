"""The positional `$`, `$[]` and `$[<identifier>]` with array filters."""

from typing import Any

import pytest

from tests.mongod.language.update_helpers import NO_CHANGE, check_error, check_modifiers

POSITIONAL: list[tuple[dict[str, Any], Any, int, Any, Any]] = [
    # (before, update, position, after, diff)
    ({"a": [1, 2]}, {"$set": {"a.$": 9}}, 1, {"a": [1, 9]}, {"sa": {"a": True, "u1": 9}}),
    (
        {"a": [{"b": 1}, {"b": 2}]},
        {"$inc": {"a.$.b": 1}, "$set": {"x": 1}},
        0,
        {"a": [{"b": 2}, {"b": 2}], "x": 1},
        {"i": {"x": 1}, "sa": {"a": True, "s0": {"u": {"b": 2}}}},
    ),
    (
        {"a": [{"b": 1}, {"b": 2}]},
        {"$set": {"a.$.b": 5, "a.1.b": 6}},
        0,
        {"a": [{"b": 5}, {"b": 6}]},
        {"sa": {"a": True, "s0": {"u": {"b": 5}}, "s1": {"u": {"b": 6}}}},
    ),
    (
        {"a": [{"b": 1}]},
        {"$set": {"a.$.c": 5, "a.0.b": 6}},
        0,
        {"a": [{"b": 6, "c": 5}]},
        {"sa": {"a": True, "s0": {"u": {"b": 6}, "i": {"c": 5}}}},
    ),
    ({"a": [1, 2]}, {"$unset": {"a.$": 9}}, 0, {"a": [None, 2]}, {"sa": {"a": True, "u0": None}}),
    (
        {"a": [[1], [2]]},
        {"$push": {"a.$": 9}},
        1,
        {"a": [[1], [2, 9]]},
        {"sa": {"a": True, "s1": {"a": True, "u1": 9}}},
    ),
    (
        {"a": [0] * 11},
        {"$set": {"a.$": 1, "a.9": 2}},
        10,
        {"a": [*[0] * 9, 2, 1]},
        {"sa": {"a": True, "u9": 2, "u10": 1}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "spec", "position", "after", "diff"), POSITIONAL, ids=[str(c[:3]) for c in POSITIONAL]
)
def test_positional(before: dict[str, Any], spec: Any, position: int, after: Any, diff: Any) -> None:
    check_modifiers(before, spec, after, diff, array_position=position)


FILTERED: list[tuple[dict[str, Any], Any, list[Any], Any, Any]] = [
    # (before, update, array filters, after, diff)
    ({"a": [1, 2]}, {"$inc": {"a.$[]": 1}}, [], {"a": [2, 3]}, {"u": {"a": [2, 3]}}),
    ({"a": [1]}, {"$inc": {"a.$[]": 1}}, [], {"a": [2]}, {"sa": {"a": True, "u0": 2}}),
    ({"a": [1, 5]}, {"$max": {"a.$[]": 3}}, [], {"a": [3, 5]}, {"sa": {"a": True, "u0": 3}}),
    ({"a": []}, {"$set": {"a.$[]": 3}}, [], NO_CHANGE, None),
    ({"a": [3]}, {"$set": {"a.$[]": 3}}, [], NO_CHANGE, None),
    (
        {"a": [{"b": 1, "c": 2}, {"b": 5}]},
        {"$set": {"a.$[e].c": 9}},
        [{"e.b": {"$gte": 5}}],
        {"a": [{"b": 1, "c": 2}, {"b": 5, "c": 9}]},
        {"sa": {"a": True, "s1": {"i": {"c": 9}}}},
    ),
    (
        {"a": [{"b": 1, "c": 9}, {"b": 5}]},
        {"$set": {"a.$[].c": 9}},
        [],
        {"a": [{"b": 1, "c": 9}, {"b": 5, "c": 9}]},
        {"sa": {"a": True, "u1": {"b": 5, "c": 9}}},
    ),
    (
        {"d": {"a": [{"b": 1}, {"b": 5}]}},
        {"$set": {"d.a.$[].b": 9}},
        [],
        {"d": {"a": [{"b": 9}, {"b": 9}]}},
        {"sd": {"u": {"a": [{"b": 9}, {"b": 9}]}}},
    ),
    ({"a": [1, 5, 9]}, {"$set": {"a.$[e]": 0}}, [{"e": {"$gt": 10}}], NO_CHANGE, None),
    ({"a": [1, 5]}, {"$unset": {"a.$[e]": 0}}, [{"e": 5}], {"a": [1, None]}, {"sa": {"a": True, "u1": None}}),
    (
        {"a": [1, 5, 9]},
        {"$inc": {"a.$[low]": 1, "a.$[high]": -1}},
        [{"low": {"$lt": 3}}, {"high": {"$gt": 7}}],
        {"a": [2, 5, 8]},
        {"u": {"a": [2, 5, 8]}},
    ),
    (
        {"a": [{"b": 1}]},
        {"$set": {"a.$[].x": 1, "a.$[e].y": 2}},
        [{"$or": [{"e.b": 1}, {"e.c": 1}]}],
        {"a": [{"b": 1, "x": 1, "y": 2}]},
        {"sa": {"a": True, "s0": {"i": {"x": 1, "y": 2}}}},
    ),
    (
        {"a": [{"b": [1, 2]}, {"b": [2, 3]}]},
        {"$mul": {"a.$[].b.$[e]": 10}},
        [{"e": 2}],
        {"a": [{"b": [1, 20]}, {"b": [20, 3]}]},
        {"u": {"a": [{"b": [1, 20]}, {"b": [20, 3]}]}},
    ),
    (
        {"a": [{"b": [1, 2]}, {"b": [1, 3]}]},
        {"$push": {"a.$[e].b": 10}},
        [{"e.b": 3}],
        {"a": [{"b": [1, 2]}, {"b": [1, 3, 10]}]},
        {"sa": {"a": True, "s1": {"sb": {"a": True, "u2": 10}}}},
    ),
    (
        {"a": [[1, 2], [3]]},
        {"$set": {"a.0.$[e]": 0}},
        [{"e": {"$gt": 1}}],
        {"a": [[1, 0], [3]]},
        {"sa": {"a": True, "s0": {"a": True, "u1": 0}}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "spec", "filters", "after", "diff"), FILTERED, ids=[str(c[:3]) for c in FILTERED]
)
def test_filtered(before: dict[str, Any], spec: Any, filters: list[Any], after: Any, diff: Any) -> None:
    check_modifiers(before, spec, after, diff, array_filters=filters)


ERRORS: list[tuple[int, dict[str, Any], Any, list[Any]]] = [
    # paths
    (2, {"a": [1]}, {"$set": {"a.$": 1}}, []),
    (2, {"a": [1]}, {"$set": {"$": 1}}, []),
    (2, {"a": [1]}, {"$set": {"$[]": 1}}, []),
    (2, {"a": [1]}, {"$set": {"$[e].a": 1}}, [{"e": 1}]),
    (2, {"a": [1]}, {"$set": {"a.$.b.$": 1}}, []),
    # values that are not arrays
    (2, {}, {"$set": {"a.$[]": 1}}, []),
    (2, {}, {"$unset": {"a.$[].b": 1}}, []),
    (2, {"a": 1}, {"$set": {"a.$[]": 1}}, []),
    (2, {"a": {"b": 1}}, {"$set": {"a.$[e]": 1}}, [{"e": 1}]),
    (28, {"a": [1]}, {"$set": {"a.$[].b": 1}}, []),
    # filters
    (2, {"a": [1]}, {"$set": {"a.$[e]": 1}}, []),
    (2, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"f": 1}]),
    (9, {"a": [1]}, {"$set": {"a.$[]": 1}}, [{"e": 1}]),
    (9, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"e": 1}, {"e": 2}]),
    (9, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"e": 1, "f": 2}]),
    (9, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"$or": [{"e": 1}, {"f": 2}]}]),
    (9, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{}]),
    (2, {"a": [1]}, {"$set": {"a.$[E]": 1}}, [{"E": 1}]),
    (2, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"e_1": 1}]),
    (14, {"a": [1]}, {"$set": {"a.$[e]": 1}}, ["e"]),
    (224, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"$expr": "$e"}]),
    (2, {"a": [1]}, {"$set": {"a.$[e]": 1}}, [{"e": {"$frobnicate": 1}}]),
    (9, {"a": [1]}, [{"$set": {"a": 1}}], [{"e": 1}]),
    # conflicts
    (40, {"a": [1]}, {"$set": {"a.$[]": 1, "a.0": 2}}, []),
    (40, {"a": [1]}, {"$set": {"a.0": 1}, "$inc": {"a.$[].b": 2}}, []),
    (40, {"a": [1]}, {"$set": {"a.$[]": 1}, "$inc": {"a.$[]": 2}}, []),
    (40, {"a": [1]}, {"$set": {"a.$[]": 1, "a.$[e]": 2}}, [{"e": 1}]),
    (40, {"a": [{"b": 1}]}, {"$set": {"a.$[].b": 1, "a.$[e].b.c": 2}}, [{"e.b": 1}]),
]


@pytest.mark.parametrize(("code", "document", "spec", "filters"), ERRORS, ids=[str(case) for case in ERRORS])
def test_errors(code: int, document: dict[str, Any], spec: Any, filters: list[Any]) -> None:
    check_error(code, document, spec, array_filters=filters)


def test_positional_and_explicit_conflict() -> None:
    check_error(40, {"a": [1, 2]}, {"$set": {"a.$": 1, "a.1": 2}}, array_position=1)
    check_error(40, {"a": [{"b": 1}]}, {"$set": {"a.$.b": 1, "a.0": 2}}, array_position=0)
