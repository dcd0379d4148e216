"""KeyString V1: the vectors in both directions, order, round trips, and errors of damaged keys."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import documents as bsondocuments
from tailrace.bson import raw as rawbson
from tailrace.bson.column import is_column
from tailrace.bson.compare import compare
from tailrace.bson.keystring import (
    KeyString,
    TypeBits,
    TypeBitsReader,
    append_value,
    decode,
    decode_value,
    encode,
)
from tailrace.bson.keystring.layout import LARGE
from tailrace.bson.keystring.numbers import Form, append_form, fraction_form
from tailrace.errors import BsonError, KeyStringError
from tests.bson.bson_strategies import documents, numbers, values

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "keystring-vectors.json").read_text())
DOCUMENTED_CODES = {15, 50615, 50810, 50811, 50813, 50814, 50815, 50816, 50818, 50819, *range(50821, 50827)}
DOCUMENTED_CODES |= {50829, 50830, 50831, 50833, 50845, 50846, 50850, 50910}

quick = settings(derandomize=False, print_blob=True, max_examples=300, deadline=None)


def encode_one(value: Any) -> KeyString:
    return encode(bsondocuments.encode({"": value}))


def rebuild(values: list[tuple[int, bytes]], names: list[bytes]) -> bytes:
    parts = [rawbson.element(kind, name, value) for (kind, value), name in zip(values, names, strict=True)]
    return rawbson.document(*parts)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_both_ways(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["bson_hex"])
    key = encode(raw)
    assert key.data.hex().upper() == vector["keystring_hex"]
    assert key.type_bits == bytes.fromhex(vector["typeBits_hex"] or "")
    assert rebuild(decode(key.data, key.type_bits), [b""]) == raw


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_truncated_vector_is_refused_or_a_shorter_key(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["keystring_hex"])
    type_bits = bytes.fromhex(vector["typeBits_hex"] or "")
    for end in range(1, len(data) - 1):
        if data[end - 1 : end + 1] == b"\0\xff":
            continue  # half of an escaped NUL is the end of a shorter string
        with pytest.raises(KeyStringError) as caught:
            decode(data[:end], type_bits)
        assert caught.value.code in (15, 50816)
    assert decode(data[:-1], type_bits) == decode(data, type_bits)


@quick
@given(documents)
def test_round_trip_is_byte_for_byte(document: dict[str, Any]) -> None:
    raw = bsondocuments.encode(document)
    key = encode(raw)
    assert rebuild(decode(key.data, key.type_bits), [name.encode() for name in document]) == raw


@settings(quick, max_examples=500)
@given(numbers)
def test_numbers_round_trip(number: Any) -> None:
    raw = bsondocuments.encode({"": number})
    key = encode(raw)
    assert rebuild(decode(key.data, key.type_bits), [b""]) == raw


@settings(quick, max_examples=500)
@given(numbers, numbers)
def test_numbers_order_like_bson(a: Any, b: Any) -> None:
    key, other = encode_one(a).data, encode_one(b).data
    assert (key > other) - (key < other) == compare(a, b)


@quick
@given(values, values)
def test_values_order_like_bson(a: Any, b: Any) -> None:
    key, other = encode_one(a).data, encode_one(b).data
    assert (key > other) - (key < other) == compare(a, b)


@quick
@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
def test_keys_of_several_values_order_like_arrays(a: list[Any], b: list[Any]) -> None:
    key, other = (
        encode(bsondocuments.encode({str(i): v for i, v in enumerate(side)})).data for side in (a, b)
    )
    assert (key > other) - (key < other) == compare(a, b)


@quick
@given(values)
def test_a_single_appended_value_equals_that_of_a_document(value: Any) -> None:
    out, bits = bytearray(b"prefix"), TypeBits()
    kind, raw = bsondocuments.encode_value(value)
    append_value(out, bits, b"!" + raw + b"!", kind, 1, 1 + len(raw))
    key = encode_one(value)
    assert bytes(out) == b"prefix" + key.data[:-1]
    assert bits.serialize() == key.type_bits


@settings(quick, max_examples=700)
@given(st.binary(max_size=40), st.binary(max_size=6))
def test_random_bytes_fail_only_as_documented(data: bytes, type_bits: bytes) -> None:
    assert_decodes_or_fails_as_documented(data, type_bits)


@settings(quick, max_examples=700)
@given(documents | numbers, st.data())
def test_damaged_keys_fail_only_as_documented(value: Any, data: st.DataObject) -> None:
    key = encode_one(value)
    damaged = bytearray(key.data)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    type_bits = data.draw(st.just(key.type_bits) | st.binary(max_size=6) | st.just(b"\x84\xff\xff\xff\xff"))
    assert_decodes_or_fails_as_documented(bytes(damaged), type_bits)


def assert_decodes_or_fails_as_documented(data: bytes, type_bits: bytes) -> None:
    decoded = []
    code = 15
    try:
        decoded = decode(data, type_bits)
    except KeyStringError as error:
        code = error.code
    assert code in DOCUMENTED_CODES
    raw = rebuild(decoded, [b""] * len(decoded))
    assert [element[0] for element in rawbson.elements(raw)] == [kind for kind, _ in decoded]
    encode(raw)


def hex_of(form: Form) -> str:
    out = bytearray()
    append_form(out, False, form)
    return out.hex()


# A number, and type bits that do not fit it.
DECIMAL_BITS, LONG_BITS, DOUBLE_BITS = "03", "02", "01"
REFUSED_NUMBERS = [
    ("1E", "", 50819),
    ("1E", LONG_BITS, 50819),
    ("2B0B80000000000000", "", 50810),
    ("2B0B80000000000000", LONG_BITS, 50810),
    ("2B033AE147AE147AE2", DOUBLE_BITS, 50831),
    ("2AFEE6666666666668", "", 50825),
    ("2AFEE666666666666A", DOUBLE_BITS, 50824),
    ("2A59A0000000000000", "", 50823),
    ("2A59A0000000000000", DECIMAL_BITS, 50823),
    ("2A59A0000000000001" + "00" * 8, DOUBLE_BITS, 50822),
    ("2A" + "00" * 16, DOUBLE_BITS, 50823),
    ("2A" + "00" * 16, DECIMAL_BITS, 50829),
    ("33082B5E3AF16B1880", "", 50826),
    ("33082B5E3AF16B1880", LONG_BITS, 50821),
    ("33082B5E3AF16B1881" + "00" * 8, DOUBLE_BITS, 50831),
    ("33FFFFFFFFFFFFFFFF", LONG_BITS, 50821),
    ("33FFFFFFFFFFFFFFFF", "", 50826),
    ("33" + "80" + "00" * 15, DOUBLE_BITS, 50818),
    ("33" + "7FFFFFFFFFFFFFFF" + "00" * 8, DECIMAL_BITS, 50850),
    ("2B00", DECIMAL_BITS, 50829),
    ("29", "8313" + "0000", 50846),
    ("2B0B80000000000001" + "FF" * 8, DECIMAL_BITS, 50813),
    ("2B02", "0F", 50814),
    (hex_of(fraction_form(9.999999999999998, 1)) + "FF" * 8, DECIMAL_BITS, 50815),
    (hex_of((LARGE, 1 << 127 | 12287 << 113 | 10**33, 16)), DECIMAL_BITS, 50845),
]  # fmt: skip


@pytest.mark.parametrize(("data", "type_bits", "code"), REFUSED_NUMBERS)
def test_type_bits_that_do_not_fit_the_number(data: str, type_bits: str, code: int) -> None:
    with pytest.raises(KeyStringError) as caught:
        decode(bytes.fromhex(data + "04"), bytes.fromhex(type_bits))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("data", "type_bits", "code"),
    [
        ("00", "", 50811),
        ("FF", "", 50811),
        ("3C37", "", 50816),
        ("461E61", "", 50816),
        ("826553F1", "", 15),
        ("01", "", 15),
        ("5A02", "", 15),
        ("5AFF7FFFFFFF00", "", 15),
        ("5A010700", "", None),
        ("5A010710", "", 50833),
        ("50" * 200 + "00" * 200, "", None),
        ("50" * 201 + "00" * 201, "", 15),
        ("50" * 199 + "AA6100" + "00" * 200, "", 15),
        ("50" * 198 + "AA6100" + "00" * 199, "", None),
        ("2B02" * 5, "40", 50615),
        ("2B02", "80", 15),
        ("2B02", "82FF", 15),
        ("2B02", "80" + "7F000000" + "00" * 127, 50910),
        ("2B02", "80" + "FF000000" + "00" * 127, 15),
    ],
)
def test_damage_outside_numbers(data: str, type_bits: str, code: int | None) -> None:
    if code is None:
        assert len(decode(bytes.fromhex(data), bytes.fromhex(type_bits))) == 1
        return
    with pytest.raises(KeyStringError, match="KeyString format error") as caught:
        decode(bytes.fromhex(data), bytes.fromhex(type_bits))
    assert caught.value.code == code


@pytest.mark.parametrize("data", ["2B0A04", "2B0A", "2B0A0455", "012B0A04", "FE2B0A", "2B0A0104"])
def test_accepted_irregularities(data: str) -> None:
    assert decode(bytes.fromhex(data)) == [(rawbson.INT32, b"\x05\0\0\0")]


@quick
@given(values)
def test_without_type_bits_a_value_with_the_same_key_is_found(value: Any) -> None:
    key = encode_one(value)
    assert encode(rebuild([decode_value(key.data)], [b""])).data == key.data


@pytest.mark.parametrize("value", [1, 2**31 - 1, 2**31, -(2**31) - 1, 2**62])
def test_whole_numbers_keep_their_value_without_type_bits(value: int) -> None:
    ((kind, raw),) = decode(encode_one(value).data)
    assert compare(bsondocuments.decode_value(raw, kind, 0, len(raw)), value) == 0


@pytest.mark.parametrize(
    "nest", [lambda value: [value], lambda value: {"a": value}], ids=["arrays", "objects"]
)
def test_values_nested_too_deeply_are_refused(nest: Callable[[Any], Any]) -> None:
    value: Any = nest(1)
    for _ in range(200):
        value = nest(value)
    with pytest.raises(KeyStringError) as caught:
        encode_one(value)
    assert caught.value.code == 15


def test_a_decimal_with_too_many_digits_is_a_zero() -> None:
    pattern = (6176 << 113 | 10**34).to_bytes(16, "little")
    assert encode_one(Decimal128.from_bid(pattern)) == encode_one(Decimal128("0"))


def test_an_unknown_bson_type_is_refused() -> None:
    with pytest.raises(BsonError):
        append_value(bytearray(), TypeBits(), b"", 0x20, 0, 0)


@pytest.mark.parametrize(
    ("appended", "stored"),
    [
        ([], ""),
        ([(0, 2)] * 40, ""),
        ([(0b10, 2)], "01"),
        ([(0, 6), (0b01, 2)], "8180"),
        ([(1, 1), (0, 2), (0, 6)], "820100"),
        ([(0, 8), (1, 1)], "820001"),
        ([(1, 1)] + [(0, 8)] * 126, "ff01" + "00" * 126),
        ([(1, 1)] + [(0, 8)] * 127, "8080000000" + "01" + "00" * 127),
    ],
)
def test_type_bits_as_stored(appended: list[tuple[int, int]], stored: str) -> None:
    bits = TypeBits()
    for value, count in appended:
        bits.append(value, count)
    assert bits.serialize().hex() == stored
    reader = TypeBitsReader(bytes.fromhex(stored))
    assert [reader.read(count) for _, count in appended] == [value for value, _ in appended]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("00", True),
        ("", False),
        ("0000", False),
        ("02000200000061 00 00", True),
        ("0261000200000061 00 00", False),
        ("0300 0500000000 00", True),
        ("0300 0600000000 00", False),
        ("10000100000081" + "00" * 16 + "00", True),
        ("10000100000081" + "00" * 15, False),
        ("F1 0500000000 80" + "00" * 8 + "00 00", True),
        ("F1 0500000000 80" + "00" * 8 + "00", False),
        ("F1 0500000000 F1 0500000000 00 00 00", False),
        ("E000", False),
        ("FF0000", True),
        ("1600 00", False),
    ],
)
def test_the_structure_of_a_column(data: str, expected: bool) -> None:
    assert is_column(bytes.fromhex(data)) is expected
