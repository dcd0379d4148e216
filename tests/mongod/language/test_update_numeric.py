"""`$inc`, `$mul`, `$min`, `$max`, `$bit`: result types, no-ops, errors."""

from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey

from tests.mongod.language.update_helpers import NO_CHANGE, check_error, check_modifiers

MAX32, MAX64 = 2**31 - 1, 2**63 - 1

VALUES: list[tuple[Any, Any, Any]] = [
    # (value before, operator with argument, value after); None before means that the field is missing
    (1, {"$inc": 2}, 3),
    (1, {"$inc": Int64(2)}, Int64(3)),
    (1, {"$inc": 2.5}, 3.5),
    (1, {"$inc": Decimal128("2.50")}, Decimal128("3.50")),
    (Int64(1), {"$inc": 1}, Int64(2)),
    (1.5, {"$inc": Int64(1)}, 2.5),
    (0.1, {"$inc": Decimal128("0.1")}, Decimal128("0.200000000000000")),
    (MAX32, {"$inc": 1}, Int64(2**31)),
    (-(2**31), {"$inc": -1}, Int64(-(2**31) - 1)),
    (Int64(MAX64), {"$inc": 1.0}, float(2**63)),
    (Int64(MAX64), {"$inc": -1}, Int64(MAX64 - 1)),
    (1.0, {"$inc": float("inf")}, float("inf")),
    (1, {"$inc": 0}, NO_CHANGE),
    (1.5, {"$inc": 0}, NO_CHANGE),
    (-0.0, {"$inc": 0}, NO_CHANGE),
    (Decimal128("1.0"), {"$inc": Decimal128("0.00")}, NO_CHANGE),
    (Decimal128("NaN"), {"$inc": 1}, Decimal128("NaN")),
    (float("nan"), {"$mul": 1}, float("nan")),
    (1, {"$inc": Int64(0)}, Int64(1)),
    (None, {"$inc": 5}, 5),
    (None, {"$inc": Decimal128("5")}, Decimal128("5")),
    (3, {"$mul": 2}, 6),
    (3, {"$mul": Int64(2)}, Int64(6)),
    (3, {"$mul": 0.5}, 1.5),
    (MAX32, {"$mul": MAX32}, Int64(MAX32 * MAX32)),
    (Decimal128("1.1"), {"$mul": 2}, Decimal128("2.2")),
    (Int64(MAX64), {"$mul": 2.0}, float(2**64)),
    (3, {"$mul": 1}, NO_CHANGE),
    (None, {"$mul": 5}, 0),
    (None, {"$mul": Int64(5)}, Int64(0)),
    (None, {"$mul": 5.5}, 0.0),
    (None, {"$mul": Decimal128("5")}, Decimal128("0")),
    (5, {"$min": 4}, 4),
    (5, {"$min": 6}, NO_CHANGE),
    (5, {"$min": 5.0}, NO_CHANGE),
    (5, {"$min": None}, None),
    (5, {"$min": "a"}, NO_CHANGE),
    (5, {"$min": MinKey()}, MinKey()),
    (None, {"$min": 7}, 7),
    (5, {"$max": 6}, 6),
    (5, {"$max": 5.5}, 5.5),
    (5, {"$max": 4}, NO_CHANGE),
    (5, {"$max": "a"}, "a"),
    ({"a": 1}, {"$max": {"a": 2}}, {"a": 2}),
    ([1], {"$max": [0, 5]}, NO_CHANGE),
    (DatetimeMS(5), {"$max": DatetimeMS(6)}, DatetimeMS(6)),
    (DatetimeMS(5), {"$max": MaxKey()}, MaxKey()),
    (None, {"$max": 7}, 7),
    (13, {"$bit": {"and": 10}}, 8),
    (3, {"$bit": {"or": 5}}, 7),
    (1, {"$bit": {"xor": 5}}, 4),
    (-1, {"$bit": {"and": 255}}, 255),
    (1, {"$bit": {"or": Int64(2)}}, Int64(3)),
    (Int64(1), {"$bit": {"xor": -1}}, Int64(-2)),
    (5, {"$bit": {"and": 4, "or": 8}}, 12),
    (5, {"$bit": {"or": 8, "and": 4}}, 4),
    (5, {"$bit": {"and": 5}}, NO_CHANGE),
    (None, {"$bit": {"or": 5}}, 5),
    (None, {"$bit": {"and": 5}}, 0),
    (None, {"$bit": {"xor": Int64(5)}}, Int64(5)),
]


@pytest.mark.parametrize(("before", "operation", "after"), VALUES, ids=[str(case) for case in VALUES])
def test_values(before: Any, operation: dict[str, Any], after: Any) -> None:
    ((name, argument),) = operation.items()
    spec = {name: {"d.v": argument}}
    if before is None:
        check_modifiers({"d": {}}, spec, {"d": {"v": after}}, {"sd": {"i": {"v": after}}})
    else:
        expected = after if after is NO_CHANGE else {"d": {"v": after}}
        check_modifiers({"d": {"v": before}}, spec, expected, {"sd": {"u": {"v": after}}})


def test_collation_decides_min_and_max() -> None:
    class IgnoringCase:
        @staticmethod
        def string_key(text: str) -> str:
            return text.lower()

    check_modifiers({"a": "b"}, {"$max": {"a": "A"}}, NO_CHANGE, None, collation=IgnoringCase)
    check_modifiers({"a": "b"}, {"$min": {"a": "A"}}, {"a": "A"}, {"u": {"a": "A"}}, collation=IgnoringCase)
    check_modifiers({"a": "B"}, {"$min": {"a": "a"}}, {"a": "a"}, {"u": {"a": "a"}}, collation=IgnoringCase)


ERRORS: list[tuple[int, Any, Any]] = [
    (14, 1, {"$inc": "1"}),
    (14, 1, {"$inc": None}),
    (14, 1, {"$inc": True}),
    (14, 1, {"$mul": {"a": 1}}),
    (14, "1", {"$inc": 1}),
    (14, None, {"$inc": 1}),
    (14, True, {"$mul": 1}),
    (14, [1], {"$inc": 1}),
    (2, Int64(MAX64), {"$inc": 1}),
    (2, Int64(-(2**63)), {"$inc": -1}),
    (2, Int64(MAX64), {"$mul": 2}),
    (2, 1.0, {"$bit": {"and": 1}}),
    (2, "1", {"$bit": {"and": 1}}),
    (2, 1, {"$bit": {"and": 1.0}}),
    (2, 1, {"$bit": {"and": True}}),
    (2, 1, {"$bit": {"nand": 1}}),
    (2, 1, {"$bit": {}}),
    (2, 1, {"$bit": 1}),
]


@pytest.mark.parametrize(("code", "before", "operation"), ERRORS, ids=[str(case) for case in ERRORS])
def test_errors(code: int, before: Any, operation: dict[str, Any]) -> None:
    ((name, argument),) = operation.items()
    check_error(code, {"v": before}, {name: {"v": argument}})
