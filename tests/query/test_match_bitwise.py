"""The bit operators on numbers and binary data."""

from base64 import b64decode
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.errors import CommandError
from tailrace.query.match import compile_match

NAN, INF = float("nan"), float("inf")
MAX = Int64(2**63 - 1)

NUMBERS = [0, 1, 54, 88, 255, 1e18]
NEGATIVES = [-0.0, -1, -54, -1e18]
POSITIONS = list(range(64))

# (operators, values, how many match)
COUNTS: list[tuple[dict[str, Any], list[Any], int]] = [
    ({"$bitsAllSet": 0}, NUMBERS, 6),
    ({"$bitsAllSet": 1}, NUMBERS, 2),
    ({"$bitsAllSet": 16}, NUMBERS, 3),
    ({"$bitsAllSet": 54}, NUMBERS, 2),
    ({"$bitsAllSet": 55}, NUMBERS, 1),
    ({"$bitsAllClear": 0}, NUMBERS, 6),
    ({"$bitsAllClear": 129}, NUMBERS, 4),
    ({"$bitsAllClear": 255}, NUMBERS, 2),
    ({"$bitsAnySet": 0}, NUMBERS, 0),
    ({"$bitsAnySet": 9}, NUMBERS, 3),
    ({"$bitsAnyClear": 0}, NUMBERS, 0),
    ({"$bitsAnyClear": 18}, NUMBERS, 4),
    ({"$bitsAnyClear": 255}, NUMBERS, 5),
    ({"$bitsAllSet": []}, NUMBERS, 6),
    ({"$bitsAllSet": [1, 2, 4, 5]}, NUMBERS, 2),
    ({"$bitsAllClear": [1, 7]}, NUMBERS, 4),
    ({"$bitsAnySet": [1, 3]}, NUMBERS, 3),
    ({"$bitsAnyClear": [1, 4]}, NUMBERS, 4),
    ({"$bitsAllSet": 54, "$bitsAllClear": 201}, NUMBERS, 1),
    ({"$bitsAllSet": MAX}, [0, 1, MAX, Int64(6917529027641081856)], 1),
    ({"$bitsAnySet": MAX}, [0, 1, MAX, Int64(6917529027641081856)], 3),
    ({"$bitsAllSet": 2}, NEGATIVES, 2),
    ({"$bitsAllSet": 127}, NEGATIVES, 1),
    ({"$bitsAllClear": 53}, NEGATIVES, 3),
    ({"$bitsAnyClear": 127}, NEGATIVES, 3),
    ({"$bitsAllSet": POSITIONS}, NEGATIVES, 1),
    ({"$bitsAllSet": [1, 7, 6, 3, 100]}, NEGATIVES, 2),
    ({"$bitsAllClear": POSITIONS}, NEGATIVES, 1),
    ({"$bitsAnySet": POSITIONS}, NEGATIVES, 3),
    ({"$bitsAnyClear": [0, 2, 4, 5, 100]}, NEGATIVES, 3),
    # A number that is not a 64-bit integer has no bits
    ({"$bitsAllSet": 0},
     [NAN, 1.1, -1.1, INF, -INF, Decimal128("NaN"), Decimal128("Infinity"), Decimal128("1.1"), 1e300,
      float(2**63), Decimal128("9223372036854775808"), "1", True, None, {}, []], 0),
    ({"$bitsAllSet": 1}, [[1.1, 55], 1.0, Decimal128("3"), Int64(1)], 4),
]  # fmt: skip


@pytest.mark.parametrize(("operators", "values", "count"), COUNTS)
def test_numbers(operators: dict[str, Any], values: list[Any], count: int) -> None:
    matcher = compile_match({"a": operators})
    assert sum(matcher({"a": value}) for value in values) == count


BINARIES = [
    b64decode("AAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    b64decode("AANgAAAAAAAAAAAAAAAAAAAAAAAA"),
    b64decode("JANgqwetkqwklEWRbWERKKJREtbq"),
    b64decode("////////////////////////////"),
]


@pytest.mark.parametrize(
    ("operator", "counts"),
    [
        ("$bitsAllSet", [4, 3, 2, 1]),
        ("$bitsAllClear", [4, 1, 1, 1]),
        ("$bitsAnySet", [0, 3, 3, 3]),
        ("$bitsAnyClear", [0, 1, 2, 3]),
    ],
)
def test_binary_masks(operator: str, counts: list[int]) -> None:
    for mask, count in zip(BINARIES, counts, strict=True):
        matcher = compile_match({"a": {operator: mask}})
        assert sum(matcher({"a": value}) for value in BINARIES) == count


# (operators, value, expected)
CASES: list[tuple[dict[str, Any], Any, bool]] = [
    ({"$bitsAllSet": [0]}, b"\x01", True),
    ({"$bitsAllSet": [8]}, b"\x00\x01", True),
    ({"$bitsAllSet": [8]}, b"\x01", False),
    ({"$bitsAllClear": [8, 100000]}, b"\x01", True),
    ({"$bitsAnyClear": [2**31 - 1]}, b"\xff", True),
    ({"$bitsAllSet": [2**31 - 1]}, -1, True),
    ({"$bitsAllSet": [2**31 - 1]}, 1, False),
    ({"$bitsAllSet": 1}, Binary(b"\x01", 4), True),
    ({"$bitsAllSet": Binary(b"\x01", 7)}, 1, True),
    ({"$bitsAllSet": b"\x00\x00\x02"}, 2**17, True),
    ({"$bitsAllSet": b"\x01" + b"\x00" * 7 + b"\x01"}, -1, True),
    ({"$bitsAllSet": b"\x01" + b"\x00" * 7 + b"\x01"}, 1, False),
    ({"$bitsAllSet": b""}, 1, True),
    ({"$bitsAllSet": b""}, b"", True),
    ({"$bitsAnySet": b"\xff"}, b"", False),
    # Data of subtype 2 begins with its length: 04000000 31323334.
    ({"$bitsAllSet": [2]}, Binary(b"1234", 2), True),
    ({"$bitsAllSet": [32]}, Binary(b"1234", 2), True),
    ({"$bitsAllSet": Binary(b"1234", 2)}, Binary(b"1234", 2), True),
    ({"$bitsAllSet": [1, 1]}, [1, 2], True),
]


@pytest.mark.parametrize(("operators", "value", "expected"), CASES)
def test_bits(operators: dict[str, Any], value: Any, expected: bool) -> None:
    assert compile_match({"a": operators})({"a": value}) == expected


def test_missing_field() -> None:
    assert not compile_match({"a": {"$bitsAllClear": 1}})({})


@pytest.mark.parametrize("operator", ["$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"])
@pytest.mark.parametrize(
    ("mask", "code"),
    [
        (-1, 9),
        (Int64(-1), 9),
        (-1.0, 9),
        (1.2, 9),
        (NAN, 9),
        (INF, 9),
        (float(2**63), 9),
        (Decimal128("1.5"), 9),
        ("123", 2),
        (None, 2),
        (True, 2),
        ({}, 2),
        ([-1], 2),
        (["123"], 2),
        ([1.5], 2),
        ([Int64(2**31)], 2),
        ([0, None], 2),
    ],
)
def test_refused(operator: str, mask: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"a": {operator: mask}})
    assert caught.value.code == code


@settings(derandomize=False, print_blob=True)
@given(st.integers(-(2**63), 2**63 - 1), st.sets(st.integers(0, 63)))
def test_the_three_forms_of_a_mask_agree(value: int, positions: set[int]) -> None:
    number = sum(1 << position for position in positions if position < 63)
    low = sorted(position for position in positions if position < 63)
    forms: list[Any] = [low, Int64(number), number.to_bytes(8, "little")]
    for operator in ("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"):
        verdicts = {compile_match({"a": {operator: form}})({"a": Int64(value)}) for form in forms}
        assert len(verdicts) == 1


@settings(derandomize=False, print_blob=True)
@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 200), min_size=1))
def test_a_number_and_its_bytes_agree(value: int, positions: list[int]) -> None:
    for operator in ("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear"):
        matcher = compile_match({"a": {operator: positions}})
        assert matcher({"a": Int64(value)}) == matcher({"a": value.to_bytes(8, "little")})
