"""Hypothesis strategies for BSON values of every type, as `bson.documents` decodes them."""

import math
import struct
from typing import Any

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import strategies as st

from tailrace.bson.decimal128 import join
from tailrace.bson.values import DBPointer, Symbol, Undefined

INT64_RANGE = (-(2**63), 2**63 - 1)


def decimal_near(value: float, steps: int, digits: int) -> Decimal128:
    """A decimal close to a double, where decimals and doubles alternate in the order."""
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = (math.floor(math.log10(abs(value))) if value else 0) - digits + 1
    exponent = max(exponent, -6176)
    if exponent >= 0:
        coefficient = numerator // (denominator * 10**exponent)
    else:
        coefficient = numerator * 10**-exponent // denominator
    coefficient = min(max(coefficient + steps, 0), 10**34 - 1)
    return Decimal128.from_bid(join(value < 0, coefficient, exponent))


finite_doubles = st.floats(allow_nan=False, allow_infinity=False) | st.builds(
    lambda bits: struct.unpack(">d", (bits % (0x7FF << 52)).to_bytes(8, "big"))[0], st.integers(0, 2**63 - 1)
)
any_decimals = st.builds(
    lambda negative, coefficient, exponent: Decimal128.from_bid(join(negative, coefficient, exponent)),
    st.booleans(),
    st.integers(0, 10**34 - 1) | st.integers(0, 1000),
    st.integers(-6176, 6111) | st.integers(-40, 40) | st.integers(-360, -300),
)
boundary_doubles = st.sampled_from(
    [1.0, 2.0**53, 2.0**55, 2.0**63, 2.0**-255, 2.0**-1022, 5e-324, 1.7976931348623157e308, 0.1, 4.5e15]
)
near_decimals = st.builds(
    decimal_near, finite_doubles | boundary_doubles, st.integers(-3, 3), st.integers(1, 34) | st.just(34)
)
finite_numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(-(2**31), 2**31 - 1),
    st.integers(*INT64_RANGE).map(Int64),
    st.integers(-200, 200).map(Int64),
    finite_doubles,
    boundary_doubles,
    st.integers(*INT64_RANGE).map(float),
    st.integers(-(2**56), 2**56).map(lambda n: n / 8),
    any_decimals,
    near_decimals,
)
special_numbers = st.sampled_from(
    [math.nan, math.inf, -math.inf, 0.0, -0.0]
    + [Decimal128(text) for text in ("NaN", "Infinity", "-Infinity", "0", "-0", "0E-6176", "-0E+6111")]
)
numbers = finite_numbers | special_numbers
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)
texts = st.text(st.sampled_from("ab\0\x01\xff\u0430\U0001f600"), max_size=4)
object_ids = st.binary(min_size=12, max_size=12).map(ObjectId)
subtypes = st.sampled_from([1, 2, 5, 6, 8, 128, 255])
binaries: st.SearchStrategy[Any] = st.binary(max_size=5) | st.builds(
    Binary, st.binary(max_size=20) | st.binary(min_size=250, max_size=260), subtypes
)
uuids = st.binary(min_size=16, max_size=16).map(lambda data: Binary(data, 4))
scalars: st.SearchStrategy[Any] = st.one_of(
    numbers,
    texts,
    texts.map(Symbol),
    object_ids,
    uuids,
    binaries,
    st.booleans(),
    st.sampled_from([None, Undefined(), MinKey(), MaxKey()]),
    st.integers(*INT64_RANGE).map(DatetimeMS),
    st.builds(Timestamp, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.builds(Regex, names, st.sampled_from(["", "i", "imsx", "x"])),
    st.builds(DBPointer, texts, object_ids),
    texts.map(Code),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(names, inner, max_size=3),
        st.builds(Code, texts, st.dictionaries(names, inner, max_size=2)),
    ),
    max_leaves=8,
)
documents = st.dictionaries(names, values, max_size=4)
