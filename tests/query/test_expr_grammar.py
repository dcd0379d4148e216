"""The grammar of expressions: literals, paths, objects, arrays, variables."""

from typing import Any

import pytest
from bson import DatetimeMS, Int64, MinKey, Timestamp

from tailrace.bson.values import Undefined
from tailrace.errors import CommandError
from tailrace.query.expressions import environment, parse_expression
from tailrace.query.missing import MISSING
from tests.query.expr_helpers import CaseInsensitive
from tests.query.expr_helpers import evaluate as evaluate_with

NOW = DatetimeMS(1_700_000_000_000)
DOCUMENT: dict[str, Any] = {
    "_id": 1,
    "a": {"b": {"c": 5}, "0": "zero"},
    "items": [{"x": 1}, {"y": 2}, 7, [{"x": 9}], {"x": [{"z": 3}, {"z": 4}]}],
    "numbers": [10, 20],
    "n": None,
    "u": Undefined(),
}


def evaluate(spec: Any, document: dict[str, Any] = DOCUMENT, **variables: Any) -> Any:
    return evaluate_with(spec, document, **{"NOW": NOW, "CLUSTER_TIME": Timestamp(5, 1), **variables})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (5, 5),
        ("text", "text"),
        (None, None),
        (Int64(3), Int64(3)),
        ("$_id", 1),
        ("$a.b.c", 5),
        ("$a.0", "zero"),
        ("$n", None),
        ("$n.x", MISSING),
        ("$absent", MISSING),
        ("$absent.x", MISSING),
        ("$_id.x", MISSING),
        ("$items.x", [1, [{"z": 3}, {"z": 4}]]),
        ("$items.x.z", [[3, 4]]),
        ("$items.absent", []),
        ("$numbers.0", []),
        ("$$ROOT", DOCUMENT),
        ("$$CURRENT", DOCUMENT),
        ("$$ROOT.a.b", {"c": 5}),
        ("$$CURRENT.items.y", [2]),
        ("$$NOW", NOW),
        ("$$CLUSTER_TIME", Timestamp(5, 1)),
        ("$$REMOVE", MISSING),
        ("$$REMOVE.x", MISSING),
        ({"x": "$a.b.c", "y": {"z": "$absent"}, "w": 1}, {"x": 5, "y": {}, "w": 1}),
        ({}, {}),
        ({"x": {"$literal": "$a"}}, {"x": "$a"}),
        ([], []),
        (["$a.b.c", "$absent", [1, "$n"]], [5, None, [1, None]]),
        ({"$literal": {"$add": [1, 2]}}, {"$add": [1, 2]}),
        ({"$const": "$a"}, "$a"),
        ({"$let": {"vars": {"x": "$a.b"}, "in": "$$x.c"}}, 5),
        ({"$let": {"vars": {"x": 1},
                   "in": {"$let": {"vars": {"x": 2, "y": "$$x"}, "in": ["$$x", "$$y"]}}}}, [2, 1]),
        ({"$let": {"vars": {"CURRENT": "$a"}, "in": "$b.c"}}, 5),
        ({"$let": {"vars": {"CURRENT": "$a"}, "in": "$$ROOT._id"}}, 1),
        ({"$let": {"vars": {}, "in": "$_id"}}, 1),
        ({"$let": {"vars": {"x": "$absent"}, "in": "$$x"}}, MISSING),
        ({"$let": {"vars": {"é_1": 3}, "in": "$$é_1"}}, 3),
    ],
)  # fmt: skip
def test_value(spec: Any, expected: Any) -> None:
    result = evaluate(spec)
    assert result == expected
    assert type(result) is type(expected)


def test_user_variables() -> None:
    assert evaluate("$$limit.low", limit={"low": 3}) == 3
    assert evaluate({"$gt": ["$_id", "$$limit"]}, limit=0) is True


def test_objects_have_the_field_order_of_the_specification() -> None:
    assert list(evaluate({"z": 1, "b": "$absent", "a": "$_id"})) == ["z", "a"]


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("$", 16872),
        ("$$", 9),
        ("$$$x", 9),
        ("$$1x", 9),
        ("$$x-y", 9),
        ("$$nobody", 17276),
        ("$$nobody.x", 17276),
        ("$$KEEP", 17276),
        ("$a.", 40353),
        ("$.", 40353),
        ("$.a", 15998),
        ("$a..b", 15998),
        ("$a.$b", 16410),
        ("$a\0b", 16411),
        ("$" + ".".join("a" * 201), 15),
        ({"$nothing": 1}, 168),
        ({"$function": {}}, 168),
        ({"$add": [1], "$abs": 1}, 15983),
        ({"$add": [1], "x": 1}, 15983),
        ({"x": 1, "$add": [1]}, 16410),
        ({"a.b": 1}, 16412),
        ({"": 1}, 15998),
        ({"a": {"b": {"$nothing": 1}}}, 168),
        ([{"$nothing": 1}], 168),
        ({"$let": 1}, 16874),
        ({"$let": {"vars": {}, "in": 1, "more": 1}}, 16875),
        ({"$let": {"in": 1}}, 16876),
        ({"$let": {"vars": {}}}, 16877),
        ({"$let": {"vars": {"": 1}, "in": 1}}, 9),
        ({"$let": {"vars": {"Upper": 1}, "in": 1}}, 9),
        ({"$let": {"vars": {"ROOT": 1}, "in": 1}}, 9),
        ({"$let": {"vars": {"a-b": 1}, "in": 1}}, 9),
        ({"$let": {"vars": {"x": 1, "y": "$$x"}, "in": 1}}, 17276),
    ],
)  # fmt: skip
def test_specification_error(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        parse_expression(spec)
    assert caught.value.code == code


def test_the_error_names_an_unknown_operator() -> None:
    with pytest.raises(CommandError, match=r"'\$where'"):
        parse_expression({"$where": "1"})


def test_a_builtin_variable_without_a_value_is_an_error() -> None:
    with pytest.raises(CommandError) as caught:
        parse_expression("$$CLUSTER_TIME")(environment({}, {}))
    assert caught.value.code == 51144


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"$eq": [1, 1.0]}, True),
        ({"$eq": ["$absent", None]}, False),
        ({"$eq": ["$absent", "$u"]}, True),
        ({"$lt": ["$absent", None]}, True),
        ({"$gt": ["$absent", MinKey()]}, True),
        ({"$cmp": ["a", 5]}, 1),
        ({"$cmp": [[1, 2], [1, 3]]}, -1),
        ({"$cmp": [{"a": 1}, {"a": Int64(1)}]}, 0),
        ({"$ne": ["a", "A"]}, True),
        ({"$gte": [DatetimeMS(5), DatetimeMS(5)]}, True),
        ({"$lte": [True, False]}, False),
        ({"$and": []}, True),
        ({"$or": []}, False),
        ({"$and": [1, "x", [], {}]}, True),
        ({"$and": [1, "$n"]}, False),
        ({"$and": "$absent"}, False),
        ({"$or": ["$absent", "$u", 0, 0.0]}, False),
        ({"$or": [0, "x"]}, True),
        ({"$not": [0]}, True),
        ({"$not": "$a"}, False),
        ({"$not": [[False]]}, False),
        ({"$cond": [True, 1, 2]}, 1),
        ({"$cond": {"if": "$absent", "else": "no", "then": "yes"}}, "no"),
        ({"$cond": [True, "$absent", 2]}, MISSING),
        ({"$ifNull": ["$absent", "$n", 3]}, 3),
        ({"$ifNull": ["$n", "$absent"]}, MISSING),
        ({"$ifNull": ["$u", 0, 3]}, 0),
        ({"$switch": {"branches": [{"case": 0, "then": 1}, {"case": 1, "then": 2}], "default": 3}}, 2),
        ({"$switch": {"branches": [{"case": 0, "then": 1}], "default": 3}}, 3),
        ({"$switch": {"branches": [{"case": 0, "then": 1}], "default": None}}, None),
    ],
)  # fmt: skip
def test_logic(spec: Any, expected: Any) -> None:
    result = evaluate(spec)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"$eq": [1]}, 16020),
        ({"$cmp": [1, 2, 3]}, 16020),
        ({"$not": []}, 16020),
        ({"$not": [1, 2]}, 16020),
        ({"$cond": [1, 2]}, 16020),
        ({"$cond": {"then": 1, "else": 2}}, 17080),
        ({"$cond": {"if": 1, "else": 2}}, 17081),
        ({"$cond": {"if": 1, "then": 2}}, 17082),
        ({"$cond": {"if": 1, "then": 2, "else": 3, "x": 1}}, 17083),
        ({"$ifNull": [1]}, 1257300),
        ({"$ifNull": []}, 1257300),
        ({"$switch": 1}, 40060),
        ({"$switch": {"branches": 1}}, 40061),
        ({"$switch": {"branches": [1]}}, 40062),
        ({"$switch": {"branches": [{"case": 1, "then": 1, "x": 1}]}}, 40063),
        ({"$switch": {"branches": [{"then": 1}]}}, 40064),
        ({"$switch": {"branches": [{"case": 1}]}}, 40065),
        ({"$switch": {"branches": [], "x": 1}}, 40067),
        ({"$switch": {"branches": []}}, 40068),
        ({"$switch": {}}, 40068),
    ],
)  # fmt: skip
def test_logic_specification_error(spec: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        parse_expression(spec)
    assert caught.value.code == code


def test_no_matching_branch() -> None:
    with pytest.raises(CommandError) as caught:
        evaluate({"$switch": {"branches": [{"case": "$absent", "then": 1}]}})
    assert caught.value.code == 40066
    with pytest.raises(CommandError) as caught:
        evaluate({"$switch": {"branches": [{"case": False, "then": 1}]}})
    assert caught.value.code == 40069


def test_collation_decides_how_strings_compare() -> None:
    expression = parse_expression({"$eq": ["$a", "ABC"]}, collation=CaseInsensitive())
    assert expression(environment({"a": "abc"}, {})) is True
    assert evaluate({"$eq": ["$a", "ABC"]}, {"a": "abc"}) is False


def test_a_constant_is_computed_once() -> None:
    first, second = (parse_expression({"$concatArrays": [[1], [2]]})(environment({}, {})) for _ in range(2))
    assert first == second == [1, 2]
    expression = parse_expression({"$concatArrays": [[1], {"$reverseArray": [[2, 1]]}]})
    assert expression(environment({}, {})) is expression(environment({}, {}))


def test_some_operators_are_computed_for_each_document() -> None:
    expression = parse_expression({"$not": [{"$regexMatch": {"input": 1, "regex": "a"}}]})
    with pytest.raises(CommandError) as caught:
        expression(environment({}, {}))
    assert caught.value.code == 51104


@pytest.mark.parametrize(
    "spec", [{"$divide": [1, 0]}, {"$cond": [{"$eq": ["$_id", 1]}, 1, {"$divide": [1, 0]}]}]
)
def test_a_constant_that_fails_raises_while_parsing(spec: Any) -> None:
    with pytest.raises(CommandError) as caught:
        parse_expression(spec)
    assert caught.value.code == 2


def test_a_branch_that_is_not_taken_never_fails() -> None:
    document = {"zero": 0}
    failing = {"$divide": [1, "$zero"]}
    assert evaluate({"$cond": [{"$eq": ["$zero", 0]}, "fine", failing]}, document) == "fine"
    assert evaluate({"$or": [True, failing]}, document) is True
    assert evaluate({"$and": ["$zero", failing]}, document) is False
    assert evaluate({"$ifNull": ["$zero", failing]}, document) == 0
    assert evaluate({"$switch": {"branches": [{"case": True, "then": 1}], "default": failing}}, document) == 1


def test_too_deep_nesting_is_refused() -> None:
    spec: Any = 1
    for _ in range(100):
        spec = {"$abs": [spec]}
    assert evaluate(spec) == 1
    for _ in range(5000):
        spec = {"$abs": [spec]}
    with pytest.raises(CommandError) as caught:
        parse_expression(spec)
    assert caught.value.code == 15


def test_errors_of_form_come_before_errors_of_constants() -> None:
    with pytest.raises(CommandError) as caught:
        parse_expression([{"$divide": [1, 0]}, {"$nope": 1}])
    assert caught.value.code == 168
    with pytest.raises(CommandError) as caught:
        parse_expression([{"$divide": [1, 0]}, "$a"])
    assert caught.value.code == 2
