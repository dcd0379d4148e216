"""`$push`, `$addToSet`, `$pop`, `$pull`, `$pullAll`: arrays, diffs, errors."""

from typing import Any

import pytest
from bson import Int64, Regex

from tests.mongod.language.update_helpers import NO_CHANGE, check_error, check_modifiers

WHOLE = "the whole new array"

ARRAYS: list[tuple[Any, Any, Any, Any]] = [
    # (array before, operator with argument, array after, entries of the array's diff)
    ([1], {"$push": 2}, [1, 2], {"u1": 2}),
    ([1], {"$push": [2]}, [1, [2]], {"u1": [2]}),
    ([1], {"$push": {"a": 1}}, [1, {"a": 1}], {"u1": {"a": 1}}),
    ([1], {"$push": {"$slice": 1}}, [1, {"$slice": 1}], {"u1": {"$slice": 1}}),
    ([1], {"$push": {"$each": [2, 3]}}, [1, 2, 3], {"u1": 2, "u2": 3}),
    ([1], {"$push": {"$each": []}}, NO_CHANGE, None),
    ([], {"$push": 1}, [1], WHOLE),
    ([], {"$push": {"$each": []}}, NO_CHANGE, None),
    ([1, 2], {"$push": {"$each": [8, 9], "$position": 0}}, [8, 9, 1, 2], WHOLE),
    ([1, 2], {"$push": {"$each": [9], "$position": 1}}, [1, 9, 2], WHOLE),
    ([1, 2], {"$push": {"$each": [9], "$position": 7}}, [1, 2, 9], {"u2": 9}),
    ([1, 2], {"$push": {"$each": [9], "$position": 2}}, [1, 2, 9], WHOLE),
    ([1, 2], {"$push": {"$each": [9], "$position": -1}}, [1, 9, 2], WHOLE),
    ([1, 2], {"$push": {"$each": [9], "$position": -5}}, [9, 1, 2], WHOLE),
    ([1, 2], {"$push": {"$each": [9], "$position": 1.0}}, [1, 9, 2], WHOLE),
    ([1, 2], {"$push": {"$each": [3], "$slice": 2}}, [1, 2], WHOLE),
    ([1, 2], {"$push": {"$each": [3], "$slice": -2}}, [2, 3], WHOLE),
    ([1, 2], {"$push": {"$each": [3], "$slice": 5}}, [1, 2, 3], {"u2": 3}),
    ([1, 2], {"$push": {"$each": [], "$slice": 2}}, NO_CHANGE, None),
    ([], {"$push": {"$each": [3], "$slice": 0}}, [], WHOLE),
    ([1, 2], {"$push": {"$each": [3], "$slice": 0}}, [], WHOLE),
    ([1, 2], {"$push": {"$each": [], "$slice": 1}}, [1], WHOLE),
    ([3, 1], {"$push": {"$each": [2], "$sort": 1}}, [1, 2, 3], WHOLE),
    ([3, 1], {"$push": {"$each": [2], "$sort": -1}}, [3, 2, 1], WHOLE),
    ([1, 2], {"$push": {"$each": [], "$sort": 1}}, [1, 2], WHOLE),
    ([], {"$push": {"$each": [], "$sort": 1}}, NO_CHANGE, None),
    (["b", 5, None], {"$push": {"$each": [{}], "$sort": 1}}, [None, 5, "b", {}], WHOLE),
    ([3, 1], {"$push": {"$each": [2], "$sort": 1, "$slice": 2}}, [1, 2], WHOLE),
    ([5, 4], {"$push": {"$slice": -2, "$sort": -1, "$position": 0, "$each": [9]}}, [5, 4], WHOLE),
    (
        [{"a": 2, "b": 1}, {"a": 1, "b": 1}, {"b": 0}],
        {"$push": {"$each": [{"a": 1, "b": 2}], "$sort": {"a": 1, "b": -1}}},
        [{"b": 0}, {"a": 1, "b": 2}, {"a": 1, "b": 1}, {"a": 2, "b": 1}],
        WHOLE,
    ),
    (
        [{"a": {"x": 2}}, {"a": [{"x": 0}]}],
        {"$push": {"$each": [7, {"a": {"x": 1}}], "$sort": {"a.x": 1}}},
        [{"a": [{"x": 0}]}, 7, {"a": {"x": 1}}, {"a": {"x": 2}}],
        WHOLE,
    ),
    ([1], {"$addToSet": 2}, [1, 2], WHOLE),
    ([1], {"$addToSet": 1}, NO_CHANGE, None),
    ([1], {"$addToSet": 1.0}, NO_CHANGE, None),
    ([1], {"$addToSet": [1]}, [1, [1]], WHOLE),
    ([], {"$addToSet": 1}, [1], WHOLE),
    ([1], {"$addToSet": {"$each": [3, 1, 2, 3]}}, [1, 3, 2], WHOLE),
    ([1], {"$addToSet": {"$each": []}}, NO_CHANGE, None),
    ([{"a": 1, "b": 2}], {"$addToSet": {"a": 1, "b": 2}}, NO_CHANGE, None),
    ([{"a": 1}], {"$addToSet": {"a": 1, "$each": [1]}}, [{"a": 1}, {"a": 1, "$each": [1]}], WHOLE),
    ([1, 1], {"$addToSet": 2}, [1, 1, 2], WHOLE),
    ([1, 2, 3], {"$pop": 1}, [1, 2], WHOLE),
    ([1, 2, 3], {"$pop": -1}, [2, 3], WHOLE),
    ([1, 2, 3], {"$pop": Int64(-1)}, [2, 3], WHOLE),
    ([1], {"$pop": 1.0}, [], WHOLE),
    ([], {"$pop": 1}, NO_CHANGE, None),
    ([1, 2, 1], {"$pull": 1}, [2], WHOLE),
    ([1, 2], {"$pull": 1.0}, [2], WHOLE),
    ([1, 2], {"$pull": 3}, NO_CHANGE, None),
    ([None, 1], {"$pull": None}, [1], WHOLE),
    ([1, 5, 9], {"$pull": {"$gte": 5}}, [1], WHOLE),
    ([1, 5, 9], {"$pull": {"$in": [1, 9]}}, [5], WHOLE),
    (["ab", "b", 1], {"$pull": Regex("^a")}, ["b", 1], WHOLE),
    ([[1, 2], [2, 1]], {"$pull": [1, 2]}, [[2, 1]], WHOLE),
    ([{"a": 1, "b": 1}, {"a": 2}, 1], {"$pull": {"a": 1}}, [{"a": 2}, 1], WHOLE),
    ([{"a": 1}, {"a": 7}], {"$pull": {"a": {"$gt": 5}}}, [{"a": 1}], WHOLE),
    ([{"a": [{"b": 1}]}], {"$pull": {"a": {"$elemMatch": {"b": 1}}}}, [], WHOLE),
    ([{"a": 1}, {"b": 2}, {"c": 3}], {"$pull": {"$or": [{"a": 1}, {"b": 2}]}}, [{"c": 3}], WHOLE),
    ([{"a": 1}, 1], {"$pull": {}}, [1], WHOLE),
    ([1, 2, 1, 3], {"$pullAll": [1, 3.0]}, [2], WHOLE),
    ([{"a": 1}, {"a": 1, "b": 1}], {"$pullAll": [{"a": 1}]}, [{"a": 1, "b": 1}], WHOLE),
    ([1], {"$pullAll": []}, NO_CHANGE, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "operation", "after", "entries"), ARRAYS, ids=[str(c[:2]) for c in ARRAYS]
)
def test_arrays(before: Any, operation: dict[str, Any], after: Any, entries: Any) -> None:
    ((name, argument),) = operation.items()
    spec = {name: {"d.v": argument}}
    if NO_CHANGE in (after, entries):
        check_modifiers({"d": {"v": before}}, spec, NO_CHANGE, None)
        return
    diff = {"u": {"v": after}} if entries is WHOLE else {"sv": {"a": True, **entries}}
    check_modifiers({"d": {"v": before}}, spec, {"d": {"v": after}}, {"sd": diff})


@pytest.mark.parametrize(
    ("operation", "after"),
    [
        ({"$push": 1}, [1]),
        ({"$push": {"$each": []}}, []),
        ({"$push": {"$each": [3, 1, 2], "$sort": 1, "$slice": 2}}, [1, 2]),
        ({"$addToSet": 1}, [1]),
        ({"$addToSet": {"$each": [1, 1, 2]}}, [1, 2]),
        ({"$addToSet": {"$each": []}}, []),
        ({"$pop": 1}, NO_CHANGE),
        ({"$pull": 1}, NO_CHANGE),
        ({"$pullAll": [1]}, NO_CHANGE),
    ],
)
def test_missing_arrays(operation: dict[str, Any], after: Any) -> None:
    ((name, argument),) = operation.items()
    if after is NO_CHANGE:
        check_modifiers({"a": 1}, {name: {"v.w": argument}}, NO_CHANGE, None)
    else:
        spec, diff = {name: {"v.w": argument}}, {"i": {"v": {"w": after}}}
        check_modifiers({"a": 1}, spec, {"a": 1, "v": {"w": after}}, diff)


def test_an_array_in_an_array() -> None:
    check_modifiers(
        {"a": [[1], [2]]},
        {"$push": {"a.1": 3}, "$pop": {"a.0": 1}},
        {"a": [[], [2, 3]]},
        {"sa": {"a": True, "u0": [], "s1": {"a": True, "u1": 3}}},
    )


def test_collation_decides_what_is_equal() -> None:
    class IgnoringCase:
        @staticmethod
        def string_key(text: str) -> str:
            return text.lower()

    before = {"a": ["B", "c"]}
    check_modifiers(before, {"$addToSet": {"a": "b"}}, NO_CHANGE, None, collation=IgnoringCase)
    whole = {"a": ["a", "B", "c"]}
    push = {"$push": {"a": {"$each": ["a"], "$sort": 1}}}
    check_modifiers(before, push, whole, {"u": whole}, collation=IgnoringCase)
    check_modifiers(
        before, {"$pullAll": {"a": ["C"]}}, {"a": ["B"]}, {"u": {"a": ["B"]}}, collation=IgnoringCase
    )


ERRORS: list[tuple[int, Any, Any]] = [
    (2, 1, {"$push": 1}),
    (2, None, {"$push": 1}),
    (2, {"a": 1}, {"$addToSet": 1}),
    (14, 1, {"$pop": 1}),
    (2, 1, {"$pull": 1}),
    (2, "x", {"$pullAll": [1]}),
    (2, [], {"$push": {"$each": 1}}),
    (2, [], {"$push": {"$each": [], "$slices": 1}}),
    (2, [], {"$push": {"$each": [], "x": 1}}),
    (2, [], {"$push": {"$each": [], "$slice": 1.5}}),
    (2, [], {"$push": {"$each": [], "$slice": "1"}}),
    (2, [], {"$push": {"$each": [], "$position": None}}),
    (2, [], {"$push": {"$each": [], "$sort": 2}}),
    (2, [], {"$push": {"$each": [], "$sort": "a"}}),
    (2, [], {"$push": {"$each": [], "$sort": {}}}),
    (2, [], {"$push": {"$each": [], "$sort": {"a": 0}}}),
    (2, [], {"$push": {"$each": [], "$sort": {"": 1}}}),
    (2, [], {"$push": {"$each": [], "$sort": {"a..b": 1}}}),
    (14, [], {"$addToSet": {"$each": 1}}),
    (2, [], {"$addToSet": {"$each": [], "$slice": 1}}),
    (9, [], {"$pop": 2}),
    (9, [], {"$pop": 0}),
    (9, [], {"$pop": "1"}),
    (9, [], {"$pop": 1.5}),
    (2, [], {"$pullAll": 1}),
    (2, [], {"$pull": {"$frobnicate": 1}}),
]


@pytest.mark.parametrize(("code", "before", "operation"), ERRORS, ids=[str(case) for case in ERRORS])
def test_errors(code: int, before: Any, operation: dict[str, Any]) -> None:
    ((name, argument),) = operation.items()
    check_error(code, {"v": before}, {name: {"v": argument}})
