"""Arithmetic, rounding, powers, bits and trigonometry: values, result types, nulls and error codes."""

import math
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.values import Undefined
from tests.query.expr_helpers import assert_code, assert_value, evaluate

D = Decimal128
INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
LONG_MAX, LONG_MIN = Int64(2**63 - 1), Int64(-(2**63))
NAN, INF = math.nan, math.inf
T = DatetimeMS

DOC: dict[str, Any] = {"i": 7, "l": Int64(7), "d": 7.0, "n": None, "u": Undefined(), "s": "x", "t": T(1000)}

VALUES: list[tuple[Any, Any]] = [
    # $add
    ({"$add": []}, 0),
    ({"$add": [1, 2, 3]}, 6),
    ({"$add": "$i"}, 7),
    ({"$add": [1, Int64(2)]}, Int64(3)),
    ({"$add": [1, 2.5]}, 3.5),
    ({"$add": [INT_MAX, 1]}, Int64(2**31)),
    ({"$add": [INT_MAX, 1, -5]}, INT_MAX - 4),
    ({"$add": [LONG_MAX, 1]}, 9.223372036854775807e18),
    ({"$add": [LONG_MIN, Int64(-1)]}, -9.223372036854775808e18),
    ({"$add": [0.1, 0.2, 0.3]}, 0.1 + 0.2 + 0.3),
    ({"$add": [D("1.10"), D("2.20")]}, D("3.30")),
    ({"$add": [D("1"), 2]}, D("3")),
    ({"$add": [D("1"), 2.5]}, D("3.50000000000000")),
    ({"$add": [D("9.999999999999999999999999999999999"), D("1E-40")]},
     D("9.999999999999999999999999999999999")),
    ({"$add": [INF, -INF]}, NAN),
    ({"$add": [1, "$n"]}, None),
    ({"$add": [1, "$absent"]}, None),
    ({"$add": [1, "$u"]}, None),
    ({"$add": ["$n", "text"]}, None),
    ({"$add": ["$t", 5]}, T(1005)),
    ({"$add": [5, "$t", Int64(2)]}, T(1007)),
    ({"$add": ["$t", 1.5]}, T(1002)),
    ({"$add": ["$t", D("2.4")]}, T(1002)),
    ({"$add": ["$t"]}, T(1000)),
    # $subtract
    ({"$subtract": [5, 3]}, 2),
    ({"$subtract": [INT_MIN, 1]}, Int64(-(2**31) - 1)),
    ({"$subtract": [Int64(5), 3]}, Int64(2)),
    ({"$subtract": [LONG_MIN, 1]}, -9.223372036854775808e18),
    ({"$subtract": [5, 2.5]}, 2.5),
    ({"$subtract": [D("5"), 2.5]}, D("2.50000000000000")),
    ({"$subtract": ["$t", 1]}, T(999)),
    ({"$subtract": ["$t", 1.5]}, T(998)),
    ({"$subtract": ["$t", T(400)]}, Int64(600)),
    ({"$subtract": ["$n", "text"]}, None),
    # $multiply
    ({"$multiply": []}, 1),
    ({"$multiply": [3, 4]}, 12),
    ({"$multiply": [INT_MAX, 2]}, Int64(4294967294)),
    ({"$multiply": [INT_MAX, 4, 0]}, 0),
    ({"$multiply": [Int64(2**62), 4]}, 2.0**64),
    ({"$multiply": [2, 1.5]}, 3.0),
    ({"$multiply": [D("1.5"), 2]}, D("3.0")),
    ({"$multiply": [2, "$n"]}, None),
    # $divide
    ({"$divide": [6, 3]}, 2.0),
    ({"$divide": [Int64(7), 2]}, 3.5),
    ({"$divide": [12.5, D("2.5")]}, D("5.000000000000")),
    ({"$divide": [D("12.5"), 2.5]}, D("5")),
    ({"$divide": [D("1"), 3]}, D("0.3333333333333333333333333333333333")),
    ({"$divide": ["$n", 0]}, None),
    ({"$divide": [1, "$absent"]}, None),
    # $mod
    ({"$mod": [8, 3]}, 2),
    ({"$mod": [-8, 3]}, -2),
    ({"$mod": [8, -3]}, 2),
    ({"$mod": [8, 3.0]}, 2),
    ({"$mod": [8, 3.25]}, 1.5),
    ({"$mod": [8, Int64(3)]}, Int64(2)),
    ({"$mod": [Int64(8), 3.0]}, Int64(2)),
    ({"$mod": [Int64(500000000000), 450000000000.0]}, 50000000000.0),
    ({"$mod": [138.5, 3]}, 0.5),
    ({"$mod": [D("10.5"), 3]}, D("1.5")),
    ({"$mod": [10, NAN]}, NAN),
    ({"$mod": [10, INF]}, 10.0),
    ({"$mod": [INF, 10]}, NAN),
    ({"$mod": ["$n", 3]}, None),
    # $abs
    ({"$abs": -5}, 5),
    ({"$abs": INT_MIN}, Int64(2**31)),
    ({"$abs": Int64(-5)}, Int64(5)),
    ({"$abs": -5.5}, 5.5),
    ({"$abs": D("-5.50")}, D("5.50")),
    ({"$abs": "$u"}, None),
    # $ceil $floor
    ({"$ceil": 1.2}, 2.0),
    ({"$ceil": -0.5}, -0.0),
    ({"$ceil": 4}, 4),
    ({"$ceil": Int64(4)}, Int64(4)),
    ({"$ceil": D("1.2")}, D("2")),
    ({"$ceil": INF}, INF),
    ({"$floor": -1.2}, -2.0),
    ({"$floor": D("-1.2")}, D("-2")),
    ({"$floor": NAN}, NAN),
    ({"$floor": "$n"}, None),
    # $round $trunc
    ({"$round": 2.5}, 2.0),
    ({"$round": 3.5}, 4.0),
    ({"$round": [1.298, 1]}, 1.3),
    ({"$round": [23.298, -1]}, 20.0),
    ({"$round": [1.298, 100]}, 1.298),
    ({"$round": [1e300, 2]}, 1e300),
    ({"$round": [15, -1]}, 20),
    ({"$round": [25, -1]}, 20),
    ({"$round": [INT_MAX, -1]}, Int64(2147483650)),
    ({"$round": [Int64(15), -1]}, Int64(20)),
    ({"$round": [7, 3]}, 7),
    ({"$round": D("-1.6")}, D("-2")),
    ({"$round": [D("1.298912343250054252245154325"), Int64(20)]}, D("1.29891234325005425225")),
    ({"$round": [D("1.298"), D("100")]}, D("1.298000000000000000000000000000000")),
    ({"$round": [D("0"), 2]}, D("0.00")),
    ({"$round": INF}, INF),
    ({"$round": "$n"}, None),
    ({"$round": [1.5, "$n"]}, None),
    ({"$trunc": 0.9}, 0.0),
    ({"$trunc": -1.2}, -1.0),
    ({"$trunc": [1.298, 1]}, 1.2),
    ({"$trunc": [D("23.298"), -1]}, D("2E+1")),
    ({"$trunc": [19, -1]}, 10),
    # $exp $ln $log $log10 $sqrt
    ({"$exp": 0}, 1.0),
    ({"$exp": D("1")}, D("2.718281828459045235360287471352662")),
    ({"$exp": 1000}, INF),
    ({"$ln": 1}, 0.0),
    ({"$ln": D("10")}, D("2.302585092994045684017991454684364")),
    ({"$ln": NAN}, NAN),
    ({"$log": [8, 2]}, 3.0),
    ({"$log": [D("1"), 8]}, D("0E+33")),
    ({"$log": [2.5, D("8")]}, D("0.4406426982957874492901064764964633")),
    ({"$log": ["$n", 10]}, None),
    ({"$log10": 1000}, 3.0),
    ({"$log10": D("100")}, D("2")),
    ({"$sqrt": 25}, 5.0),
    ({"$sqrt": D("2")}, D("1.414213562373095048801688724209698")),
    ({"$sqrt": "$n"}, None),
    ({"$sigmoid": 0}, 0.5),
    ({"$sigmoid": D("1")}, D("0.7310585786300048792511592418218362")),
    ({"$sigmoid": "$n"}, None),
    # $pow
    ({"$pow": [4, 2]}, 16),
    ({"$pow": [4, Int64(2)]}, Int64(16)),
    ({"$pow": [3, 35]}, Int64(50031545098999707)),
    ({"$pow": [-2, Int64(63)]}, LONG_MIN),
    ({"$pow": [2, 63]}, 2.0**63),
    ({"$pow": [2, 100]}, 2.0**100),
    ({"$pow": [4, -1]}, 0.25),
    ({"$pow": [1, Int64(-2)]}, Int64(1)),
    ({"$pow": [-1, -3]}, -1),
    ({"$pow": [0, 0]}, 1),
    ({"$pow": [0.5, -1]}, 2.0),
    ({"$pow": [-8, 0.5]}, NAN),
    ({"$pow": [10, 1000.5]}, INF),
    ({"$pow": [D("10.0"), -2]}, D("0.01000000000000000000000000000000000")),
    ({"$pow": [5, D("-112")]}, D("5.192296858534827628530496329220096E-79")),
    ({"$pow": [D("7"), 0]}, D("1.000000000000000000000000000000000")),
    ({"$pow": [D("2"), NAN]}, D("NaN")),
    ({"$pow": ["$n", 2]}, None),
    # bits
    ({"$bitAnd": []}, -1),
    ({"$bitOr": []}, 0),
    ({"$bitAnd": [6, 3]}, 2),
    ({"$bitAnd": [6, Int64(3)]}, Int64(2)),
    ({"$bitOr": [6, 1]}, 7),
    ({"$bitXor": [6, 3]}, 5),
    ({"$bitXor": [6, "$n"]}, None),
    ({"$bitNot": 5}, -6),
    ({"$bitNot": Int64(5)}, Int64(-6)),
    ({"$bitNot": "$n"}, None),
    # trigonometry
    ({"$sin": 0}, 0.0),
    ({"$cos": Int64(0)}, 1.0),
    ({"$tan": NAN}, NAN),
    ({"$acos": 1}, 0.0),
    ({"$atan2": [0, -1]}, math.pi),
    ({"$atanh": 1}, INF),
    ({"$atanh": -1.0}, -INF),
    ({"$cosh": 1000}, INF),
    ({"$cosh": -1000.0}, INF),
    ({"$sinh": -1000}, -INF),
    ({"$acosh": INF}, INF),
    ({"$tanh": INF}, 1.0),
    ({"$degreesToRadians": 180}, math.pi),
    ({"$radiansToDegrees": math.pi}, 180.0),
    ({"$sin": D("1")}, D("0.8414709848078965066525023216302990")),
    ({"$cos": D("1")}, D("0.5403023058681397174009366074429766")),
    ({"$tan": D("1")}, D("1.557407724654902230506974807458360")),
    ({"$sin": D("-4")}, D("0.7568024953079282513726390945118291")),
    ({"$sin": D("3.141592653589793238462643383279503")}, D("-1.158028306006248941790250554076922E-34")),
    ({"$sin": D("1E+22")}, D("-0.8522008497671888017727058937530294")),
    ({"$round": [{"$add": [{"$pow": [{"$sin": D("1E+400")}, 2]}, {"$pow": [{"$cos": D("1E+400")}, 2]}]}, 30]},
     D("1.000000000000000000000000000000")),
    ({"$asin": D("0.5")}, D("0.5235987755982988730771072305465838")),
    ({"$acos": D("-1")}, D("3.141592653589793238462643383279503")),
    ({"$atan": D("2")}, D("1.107148717794090503017065460178537")),
    ({"$atan": D("Infinity")}, D("1.570796326794896619231321691639751")),
    ({"$atan2": [D("-Infinity"), D("Infinity")]}, D("-0.7853981633974483096156608458198757")),
    ({"$atan2": [D("NaN"), 1]}, D("NaN")),
    ({"$sinh": D("1")}, D("1.175201193643801456882381850595601")),
    ({"$sinh": D("1E-40")}, D("1.000000000000000000000000000000000E-40")),
    ({"$cosh": D("1")}, D("1.543080634815243778477905620757062")),
    ({"$cosh": D("-Infinity")}, D("Infinity")),
    ({"$tanh": D("1")}, D("0.7615941559557648881194582826047936")),
    ({"$asinh": D("1")}, D("0.8813735870195430252326093249797923")),
    ({"$acosh": D("2")}, D("1.316957896924816708625046347307968")),
    ({"$atanh": D("0.5")}, D("0.5493061443340548456976226184612629")),
    ({"$atanh": D("1")}, D("Infinity")),
    ({"$degreesToRadians": D("180")}, D("3.141592653589793238462643383279503")),
    ({"$sin": "$n"}, None),
    ({"$atan2": ["$n", 1]}, None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), VALUES)
def test_value(spec: Any, expected: Any) -> None:
    assert_value(spec, DOC, expected)


ERRORS: list[tuple[Any, int]] = [
    ({"$add": [1, "$s"]}, 14),
    ({"$add": ["$s", None]}, 14),
    ({"$add": [True]}, 14),
    ({"$add": [Timestamp(1, 1)]}, 14),
    ({"$add": ["$t", "$t"]}, 16612),
    ({"$add": ["$t", 1e30]}, 15),
    ({"$add": ["$t", NAN]}, 15),
    ({"$subtract": ["$s", 1]}, 14),
    ({"$subtract": [1, "$t"]}, 14),
    ({"$subtract": [1]}, 16020),
    ({"$multiply": [1, "$s"]}, 14),
    ({"$multiply": ["$t"]}, 14),
    ({"$divide": [1, 0]}, 2),
    ({"$divide": [1, 0.0]}, 2),
    ({"$divide": [1, D("0")]}, 2),
    ({"$divide": [1, "$s"]}, 14),
    ({"$divide": [1]}, 16020),
    ({"$mod": [1, 0]}, 16610),
    ({"$mod": [1, D("0.0")]}, 5733415),
    ({"$mod": ["$s", 1]}, 16611),
    ({"$abs": "$s"}, 28765),
    ({"$abs": LONG_MIN}, 28680),
    ({"$abs": [1, 2]}, 16020),
    ({"$ceil": "$s"}, 28765),
    ({"$floor": True}, 28765),
    ({"$round": "$s"}, 51081),
    ({"$round": [1, 1.5]}, 51082),
    ({"$round": [1, "$s"]}, 16004),
    ({"$round": [1, 101]}, 51083),
    ({"$trunc": [1, -21]}, 51083),
    ({"$round": [Int64(9223372036854775806), -1]}, 51080),
    ({"$round": [1, 2, 3]}, 28667),
    ({"$trunc": []}, 28667),
    ({"$exp": "$s"}, 28765),
    ({"$ln": 0}, 28766),
    ({"$ln": D("-1")}, 28766),
    ({"$log10": 0}, 28761),
    ({"$log": ["$s", 5]}, 28756),
    ({"$log": [5, "$s"]}, 28757),
    ({"$log": [0, 5]}, 28758),
    ({"$log": [5, 1]}, 28759),
    ({"$log": [5, -1]}, 28759),
    ({"$sqrt": -1}, 28714),
    ({"$sqrt": "$s"}, 28765),
    ({"$pow": [0, -1]}, 28764),
    ({"$pow": [D("0"), -1.5]}, 28764),
    ({"$pow": ["$s", 1]}, 28762),
    ({"$pow": [1, "$s"]}, 28763),
    ({"$sigmoid": "$s"}, 14),
    ({"$bitAnd": [1, 2.0]}, 14),
    ({"$bitOr": [D("1")]}, 14),
    ({"$bitXor": [True]}, 14),
    ({"$bitNot": 1.5}, 14),
    ({"$bitNot": [1, 2]}, 16020),
    ({"$sin": INF}, 50989),
    ({"$cos": D("-Infinity")}, 50989),
    ({"$acos": 1.1}, 50989),
    ({"$asin": -2}, 50989),
    ({"$acosh": 0.9}, 50989),
    ({"$atanh": D("1.00001")}, 50989),
    ({"$tan": "$s"}, 28765),
    ({"$atan2": ["$s", 1]}, 51044),
    ({"$atan2": [1, "$s"]}, 51045),
    ({"$rand": 1}, 10065),
    ({"$rand": {"seed": 1}}, 3040501),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_error(spec: Any, code: int) -> None:
    assert_code(spec, DOC, code)


def test_rand_differs_from_one_evaluation_to_the_next() -> None:
    numbers = [evaluate({"$rand": {}}) for _ in range(5)]
    assert len(set(numbers)) == 5
    assert all(0 <= number < 1 for number in numbers)


NUMBERS = (
    st.integers(INT_MIN, INT_MAX)
    | st.integers(-(2**63), 2**63 - 1).map(Int64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(-(10**9), 10**9, places=3).map(Decimal128)
)  # fmt: skip
LAWS = settings(derandomize=False, print_blob=True, max_examples=80)


@LAWS
@given(NUMBERS, NUMBERS)
def test_addition_and_multiplication_commute(a: Any, b: Any) -> None:
    for name in ("$add", "$multiply"):
        assert_value({name: ["$a", "$b"]}, {"a": a, "b": b}, evaluate({name: ["$b", "$a"]}, {"a": a, "b": b}))


@LAWS
@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX))
def test_integers_are_exact(a: int, b: int) -> None:
    document = {"a": a, "b": b}
    assert evaluate({"$subtract": [{"$add": ["$a", "$b"]}, "$b"]}, document) == a
    assert evaluate({"$multiply": ["$a", "$b"]}, document) == a * b
    if b:
        quotient = {"$trunc": {"$divide": [{"$subtract": ["$a", {"$mod": ["$a", "$b"]}]}, "$b"]}}
        assert evaluate({"$add": [{"$multiply": [quotient, "$b"]}, {"$mod": ["$a", "$b"]}]}, document) == a


@LAWS
@given(st.floats(-1e6, 1e6))
def test_decimal_trigonometry_agrees_with_doubles(x: float) -> None:
    exact = Decimal128(f"{x:.17e}")
    for name in ("$sin", "$cos", "$atan", "$asinh"):
        wide = evaluate({name: exact}).to_decimal()
        assert float(wide) == pytest.approx(evaluate({name: x}), rel=1e-9, abs=1e-9)
    sine, cosine = (evaluate({name: exact}).to_decimal() for name in ("$sin", "$cos"))
    assert abs(float(sine * sine + cosine * cosine - 1)) < 1e-27


@LAWS
@given(st.integers(INT_MIN, INT_MAX), st.integers(INT_MIN, INT_MAX))
def test_bits(a: int, b: int) -> None:
    document = {"a": a, "b": b}
    both = {"$bitAnd": [{"$bitNot": "$a"}, {"$bitNot": "$b"}]}
    assert evaluate({"$bitNot": {"$bitOr": ["$a", "$b"]}}, document) == evaluate(both, document)
    assert evaluate({"$bitXor": ["$a", "$b", "$b"]}, document) == a
