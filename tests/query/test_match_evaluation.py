"""`$mod`, `$expr`, `$sampleRate`."""

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64

from tailrace.errors import CommandError
from tailrace.query.match import compile_match

NAN = float("nan")
INF = float("inf")
MAX = Int64(2**63 - 1)
MIN = Int64(-(2**63))

# (divisor and remainder, value, expected)
MOD: list[tuple[list[Any], Any, bool]] = [
    ([4, 0], 8, True),
    ([4, 0], 9, False),
    ([4, 1], 9, True),
    ([4000, 80], 4080, True),
    ([4.9, 0], 8, True),
    ([4, 1.9], 9, True),
    ([Int64(4), Decimal128("1.5")], 9, True),
    ([10, 4], 14.5, True),
    ([10, 4], 15.01, False),
    ([10, 4], Decimal128("14.5"), True),
    ([10, 4], Int64(34), True),
    ([10, -4], -14, True),
    ([10, 4], -14, False),
    ([-100, 89], 123456789, True),
    ([100, -89], -123456789, True),
    ([-100, -89], -123456789, True),
    ([2, -0.0], 0, True),
    ([5, 0], -0.5, True),
    ([MAX, 0], MAX, True),
    ([1, 0], MAX, True),
    ([-1, 0], MIN, True),
    ([922337203685477580, 7], MAX, True),
    ([-922337203685477580, -8], MIN, True),
    ([MIN, 0], MIN, True),
    ([1, 0], float(2**63), False),
    ([1, 0], -1e19, False),
    ([1, 0], Decimal128("1E19"), False),
    ([1, 0], NAN, False),
    ([1, 0], INF, False),
    ([1, 0], Decimal128("NaN"), False),
    ([1, 0], Decimal128("-Infinity"), False),
    ([1, 0], "5", False),
    ([1, 0], True, False),
    ([1, 0], None, False),
    ([4, 0], [1, 8], True),
    ([4, 0], [1, 9], False),
    ([4, 0], [[8]], False),
]


@pytest.mark.parametrize(("argument", "value", "expected"), MOD)
def test_mod(argument: list[Any], value: Any, expected: bool) -> None:
    assert compile_match({"a": {"$mod": argument}})({"a": value}) == expected


@pytest.mark.parametrize(
    "argument",
    [
        5, None, "x", {"a": 1, "b": 2}, [], [3], [3, 2, 4], ["q", 2], [2, "r"], [None, 3], [True, 1],
        [2, None], [0, 1], [0.5, 1], [-0.9, 0], [Decimal128("0"), 1], [5e-324, 1], [NAN, 1], [1, NAN],
        [INF, 0], [1, -INF], [1e19, 0], [1, 1e19], [float(2**63), 0], [Decimal128("NaN"), 1],
        [1, Decimal128("Infinity")],
        [Decimal128("1E19"), 1],
    ],
)  # fmt: skip
def test_mod_refused(argument: Any) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"a": {"$mod": argument}})
    assert caught.value.code == 2


def test_mod_of_a_missing_field() -> None:
    assert not compile_match({"a": {"$mod": [1, 0]}})({})


# (filter, document, expected)
EXPR: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"$expr": {"$gt": ["$a", "$b"]}}, {"a": 2, "b": 1}, True),
    ({"$expr": {"$gt": ["$a", "$b"]}}, {"a": 1, "b": 2}, False),
    ({"$expr": {"$eq": ["$a", 1]}}, {"a": [1]}, False),
    ({"$expr": "$a"}, {"a": 1}, True),
    ({"$expr": "$a"}, {"a": 0}, False),
    ({"$expr": "$a"}, {"a": "x"}, True),
    ({"$expr": "$a"}, {"a": None}, False),
    ({"$expr": "$a"}, {}, False),
    ({"$expr": True}, {}, True),
    ({"$expr": 0}, {}, False),
    ({"$expr": {"$literal": "$a"}}, {}, True),
    ({"$expr": {"$eq": ["$$ROOT.a", "$$CURRENT.a"]}}, {"a": 5}, True),
    ({"a": 1, "$expr": {"$eq": ["$b", 2]}}, {"a": 1, "b": 2}, True),
    ({"a": 1, "$expr": {"$eq": ["$b", 2]}}, {"a": 2, "b": 2}, False),
    ({"$or": [{"$expr": {"$eq": ["$b", 2]}}, {"a": 1}]}, {"b": 2}, True),
    ({"$nor": [{"$expr": "$a"}]}, {"a": 1}, False),
    ({"$expr": {"$eq": ["$$limit", "$a"]}}, {"a": 7}, True),
    ({"$expr": {"$lt": ["$at", "$$NOW"]}}, {"at": DatetimeMS(5)}, True),
    ({"$expr": {"$lt": ["$at", "$$NOW"]}}, {"at": DatetimeMS(2000)}, False),
    ({"$expr": {"$lt": [{"$rand": {}}, 2]}}, {}, True),
]


@pytest.mark.parametrize(("filter_", "document", "expected"), EXPR)
def test_expr(filter_: dict[str, Any], document: dict[str, Any], expected: bool) -> None:
    matcher = compile_match(filter_, variables={"limit": 7, "NOW": DatetimeMS(1000)})
    assert matcher(document) == expected


@pytest.mark.parametrize(
    ("expression", "code"),
    [({"$nope": 1}, 168), ("$$undefined", 17276), ({"$eq": [1]}, 16020), ({"$gt": 1, "$lt": 2}, 15983)],
)
def test_expr_refused_when_compiled(expression: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"$expr": expression})
    assert caught.value.code == code


def test_expr_can_fail_when_evaluated() -> None:
    matcher = compile_match({"$expr": {"$divide": ["$a", "$b"]}})
    assert matcher({"a": 1, "b": 2})
    with pytest.raises(CommandError):
        matcher({"a": 1, "b": 0})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"$expr": {"$divide": [1, "$b"]}, "a": 2}, False),
        ({"$and": [{"$and": [{"$expr": {"$divide": [1, "$b"]}}]}, {"a": 2}]}, False),
        ({"$or": [{"$expr": {"$divide": [1, "$b"]}}, {"a": 1}]}, True),
        ({"$nor": [{"$expr": {"$divide": [1, "$b"]}}, {"a": 1}]}, False),
    ],
)
def test_expr_is_evaluated_only_if_the_rest_leaves_it_open(query: dict[str, Any], expected: bool) -> None:
    assert compile_match(query)({"a": 1, "b": 0}) is expected


def test_sample_rate() -> None:
    assert all(compile_match({"$sampleRate": 1})({}) for _ in range(50))
    assert not any(compile_match({"$sampleRate": 0.0})({}) for _ in range(50))
    half = compile_match({"$sampleRate": Decimal128("0.5")})
    assert 300 < sum(half({}) for _ in range(1000)) < 700


@pytest.mark.parametrize("rate", ["0.5", None, True, -0.1, 1.1, NAN, INF, Decimal128("2"), [0.5]])
def test_sample_rate_refused(rate: Any) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"$sampleRate": rate})
    assert caught.value.code == 2
