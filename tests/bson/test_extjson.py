"""Extended JSON: a table of cases in both directions, refusals, and round trips of all BSON values."""

import json
import struct
from typing import Any

import bson
import pytest
from bson import json_util
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import documents, extjson
from tailrace.bson import raw as rawbson
from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import BsonError, CommandError

OID = bson.ObjectId("0123456789abcdef01234567")

CASES: list[tuple[str, Any, str]] = [
    ("double", 1.0, '{"$numberDouble": "1.0"}'),
    ("double that is whole and large", 1e100, '{"$numberDouble": "1e+100"}'),
    ("double minus zero", -0.0, '{"$numberDouble": "-0.0"}'),
    ("double infinity", float("inf"), '{"$numberDouble": "Infinity"}'),
    ("double minus infinity", float("-inf"), '{"$numberDouble": "-Infinity"}'),
    ("double not a number", float("nan"), '{"$numberDouble": "NaN"}'),
    ("string", "a", '"a"'),
    ("string empty", "", '""'),
    ("string beyond ASCII", "Grüße 🌊", '"Grüße 🌊"'),
    ("string escapes", 'a"\\\n\x00\x1f/', '"a\\"\\\\\\n\\u0000\\u001f/"'),
    ("document empty", {}, "{}"),
    ("document", {"b": 1, "a": {"c": None}}, '{"b": {"$numberInt": "1"}, "a": {"c": null}}'),
    ("array", [1, "x", []], '[{"$numberInt": "1"}, "x", []]'),
    ("binary", b"\xff\xff", '{"$binary": {"base64": "//8=", "subType": "00"}}'),
    ("binary old", bson.Binary(b"\xff\xff", 2), '{"$binary": {"base64": "//8=", "subType": "02"}}'),
    (
        "uuid",
        bson.Binary(bytes(16), 4),
        '{"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAAAA==", "subType": "04"}}',
    ),
    ("binary user-defined", bson.Binary(b"", 0x80), '{"$binary": {"base64": "", "subType": "80"}}'),
    ("undefined", Undefined(), '{"$undefined": true}'),
    ("object id", OID, '{"$oid": "0123456789abcdef01234567"}'),
    ("true", True, "true"),
    ("false", False, "false"),
    ("date", bson.DatetimeMS(1356351330501), '{"$date": {"$numberLong": "1356351330501"}}'),
    ("date before 1970", bson.DatetimeMS(-1), '{"$date": {"$numberLong": "-1"}}'),
    ("date beyond 9999", bson.DatetimeMS(2**62), '{"$date": {"$numberLong": "4611686018427387904"}}'),
    ("null", None, "null"),
    ("regex", bson.Regex("^a/", "im"), '{"$regularExpression": {"pattern": "^a/", "options": "im"}}'),
    (
        "pointer",
        DBPointer("db.c", OID),
        '{"$dbPointer": {"$ref": "db.c", "$id": {"$oid": "0123456789abcdef01234567"}}}',
    ),
    ("code", bson.Code("f()"), '{"$code": "f()"}'),
    ("symbol", Symbol("s"), '{"$symbol": "s"}'),
    (
        "code with scope",
        bson.Code("f()", {"x": Symbol("y")}),
        '{"$code": "f()", "$scope": {"x": {"$symbol": "y"}}}',
    ),
    ("int32", -(2**31), '{"$numberInt": "-2147483648"}'),
    ("timestamp", bson.Timestamp(2**32 - 1, 7), '{"$timestamp": {"t": 4294967295, "i": 7}}'),
    ("int64", bson.Int64(1), '{"$numberLong": "1"}'),
    ("decimal", bson.Decimal128("1.50E+10"), '{"$numberDecimal": "1.50E+10"}'),
    ("decimal infinity", bson.Decimal128("-Infinity"), '{"$numberDecimal": "-Infinity"}'),
    ("min key", bson.MinKey(), '{"$minKey": 1}'),
    ("max key", bson.MaxKey(), '{"$maxKey": 1}'),
    ("database reference", {"$ref": "c", "$id": 1}, '{"$ref": "c", "$id": {"$numberInt": "1"}}'),
    ("query operator", {"$regex": "a", "$options": "i"}, '{"$regex": "a", "$options": "i"}'),
    ("type operator", {"$type": "string"}, '{"$type": "string"}'),
    ("wrapper key that is not first", {"a": "x", "$oid": "y"}, '{"a": "x", "$oid": "y"}'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_canonical_form_both_ways(value: Any, text: str) -> None:
    # PyMongo's encoder has no symbol inside a code's scope, so these bytes are built by hand.
    raw = (
        code_with_scope(value)
        if isinstance(value, bson.Code) and value.scope
        else documents.encode({"v": value})
    )
    assert extjson.dumps_canonical(raw) == f'{{"v": {text}}}'
    assert extjson.loads(f'{{"v": {text}}}') == raw
    assert extjson.loads(f'{{"v":{json.dumps(json.loads(text), separators=(",", ":"))}}}') == raw


def code_with_scope(code: bson.Code) -> bytes:
    text = str(code).encode()
    value = rawbson.INT32_LE.pack(len(text) + 1) + text + b"\0" + documents.encode(dict(code.scope or {}))
    return rawbson.document(
        rawbson.element(rawbson.CODE_WITH_SCOPE, b"v", rawbson.INT32_LE.pack(len(value) + 4) + value)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("2147483647", 2147483647),
        ("2147483648", bson.Int64(2147483648)),
        ("-2147483648", -2147483648),
        ("-2147483649", bson.Int64(-2147483649)),
        ("9223372036854775807", bson.Int64(9223372036854775807)),
        ("-9223372036854775808", bson.Int64(-9223372036854775808)),
        ("-9223372036854775809", -9223372036854775808.0),
        ("9223372036854775808", 9223372036854775808.0),
        ("1.5", 1.5),
        ("1e2", 100.0),
        ('{"$date": "2012-12-24T12:15:30.5Z"}', bson.DatetimeMS(1356351330500)),
        ('{"$date": "2012-12-24T14:15:30.500+02:00"}', bson.DatetimeMS(1356351330500)),
        ('{"$date": "2012-12-24T10:45:30.500-0130"}', bson.DatetimeMS(1356351330500)),
        ('{"$date": "1960-12-24T12:15:30.500Z"}', bson.DatetimeMS(-284643869500)),
        ('{"$date": "0001-01-01T00:00:00+14:00"}', bson.DatetimeMS(-62135647200000)),
        ('{"$date": 1356351330500}', bson.DatetimeMS(1356351330500)),
        ('{"$binary": "//8=", "$type": "80"}', bson.Binary(b"\xff\xff", 0x80)),
        ('{"$type": "00", "$binary": "//8="}', b"\xff\xff"),
        ('{"$type": "5", "$binary": ""}', bson.Binary(b"", 5)),
        ('{"$date": "2012-12-24T12:15Z"}', bson.DatetimeMS(1356351300000)),
        ('{"$date": "2012-12-24T12:15:30,123456789Z"}', bson.DatetimeMS(1356351330123)),
        ('{"$date": "2012-12-24T14:15:30+02"}', bson.DatetimeMS(1356351330000)),
        ('{"$scope": {}, "$code": "f"}', bson.Code("f", {})),
        ('{"$uuid": "73ffd264-44b3-4c69-90e8-e7d1dfc035d4"}',
         bson.Binary(bytes.fromhex("73ffd26444b34c6990e8e7d1dfc035d4"), 4)),
        ('{"$timestamp": {"i": 1, "t": 2}}', bson.Timestamp(2, 1)),
        ('{"$numberDecimal": "+inf"}', bson.Decimal128("Infinity")),
    ],
)  # fmt: skip
def test_relaxed_and_older_forms(text: str, value: Any) -> None:
    assert extjson.loads(f'{{"v": {text}}}') == documents.encode({"v": value})


@pytest.mark.parametrize(
    "text",
    [
        '{"$oid": 42}',
        '{"$oid": "0123456789abcdef0123456"}',
        '{"$oid": "0123456789abcdef01234567", "x": 1}',
        '{"$numberInt": 42}',
        '{"$numberInt": "2147483648"}',
        '{"$numberInt": "1_0"}',
        '{"$numberLong": "9223372036854775808"}',
        '{"$numberLong": ""}',
        '{"$numberDouble": "inf"}',
        '{"$numberDecimal": "1_0"}',
        '{"$numberDecimal": "1E+7000"}',
        '{"$binary": "abcdefg"}',
        '{"$binary": {"base64": "?", "subType": "00"}}',
        '{"$binary": {"base64": "", "subType": "100"}}',
        '{"$binary": {"base64": ""}}',
        '{"$binary": {"base64": "", "base64": ""}}',
        '{"$binary": "", "$type": 0}',
        '{"$uuid": "73ffd26444b34c6990e8e7d1dfc035d4"}',
        '{"$code": 1}',
        '{"$code": "", "$scope": 1}',
        '{"$code": "", "$scope": []}',
        '{"$timestamp": 1}',
        '{"$timestamp": [["t", 1], ["i", 1]]}',
        '{"$timestamp": {"t": "1", "i": 1}}',
        '{"$timestamp": {"t": -1, "i": 1}}',
        '{"$timestamp": {"t": true, "i": 1}}',
        '{"$regularExpression": {"pattern": "a"}}',
        '{"$regularExpression": {"pattern": "a\\u0000", "options": ""}}',
        '{"$dbPointer": {"$ref": "a", "$id": 1}}',
        '{"$date": true}',
        '{"$date": "2012-02-30T00:00:00Z"}',
        '{"$date": "2012-02-03 00:00:00Z"}',
        '{"$date": "2012-02-03T00:00:00"}',
        '{"$date": {"$numberInt": "1"}}',
        '{"$undefined": 1}',
        '{"$minKey": true}',
        '{"$maxKey": 0}',
        '{"a\\u0000b": 1}',
        '"\\ud800"',
        "NaN",
        "Infinity",
        "1" + "0" * 400,
        "[" * 100_000,
        "{",
        "1 2",
        "",
    ],
)
def test_invalid_extended_json_is_refused(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        extjson.loads(f'{{"v": {text}}}')
    assert caught.value.code == ErrorCode.FailedToParse
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "1", '{"$oid": "0123456789abcdef01234567"}', "null"])
def test_a_document_is_an_object(text: str) -> None:
    with pytest.raises(CommandError, match="a document"):
        extjson.loads(text)


def test_any_value_can_be_parsed() -> None:
    assert extjson.loads_value('[{"$oid": "0123456789abcdef01234567"}]') == documents.encode_value([OID])
    assert extjson.loads_value('"x"') == documents.encode_value("x")


def test_repeated_keys_are_preserved() -> None:
    text = '{"a": {"$numberInt": "1"}, "b": null, "a": "x"}'
    assert extjson.dumps_canonical(extjson.loads(text)) == text


def test_regex_options_are_not_sorted() -> None:
    raw = rawbson.document(rawbson.element(rawbson.REGEX, b"a", b"x\0mi\0"))
    text = extjson.dumps_canonical(raw)
    assert text == '{"a": {"$regularExpression": {"pattern": "x", "options": "mi"}}}'
    assert extjson.loads(text) == raw


@pytest.mark.parametrize(
    "hexadecimal",
    [
        "",
        "05000000",
        "0500000001",
        "0600000000",
        "07000000800000",  # no such type
        "1000000002610004000000616200 00",  # string longer than its document
        "0e00000002610003000000616263",  # string without final NUL
        "0d00000003610006000000000000",  # inner document longer than the outer
        "0f000000056100060000000001",  # binary past the end
        "13000000057800060000000203000000ffff00",  # old binary that contradicts itself
        "0e00000002610002000000ff0000",  # not UTF-8
        "0a0000000b6100616200",  # regex without an end
        "0e000000026100020000006162" + "00",  # string that ends with another byte than NUL
        "0c0000000261000000000000",  # string without room for its NUL
    ],
)
def test_invalid_bson_is_refused(hexadecimal: str) -> None:
    with pytest.raises(BsonError):
        extjson.dumps_canonical(bytes.fromhex(hexadecimal))


def test_excessive_depth_is_refused() -> None:
    raw = rawbson.EMPTY
    for _ in range(5000):
        raw = rawbson.document(rawbson.element(rawbson.DOCUMENT, b"a", raw))
    with pytest.raises(BsonError, match="deeply"):
        extjson.dumps_canonical(raw)


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6).filter(
    lambda name: not name.startswith("$")
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
c_strings = texts.map(lambda text: text.replace("\0", ""))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(bson.Int64),
    st.floats(allow_nan=False),
    texts,
    st.binary(max_size=9),
    st.builds(bson.Binary, st.binary(max_size=9), st.sampled_from([1, 2, 5, 6, 7, 8, 9, 0x80, 0xFE])),
    st.builds(bson.Binary, st.binary(min_size=16, max_size=16), st.sampled_from([3, 4])),
    st.binary(min_size=12, max_size=12).map(bson.ObjectId),
    st.integers(-(2**63), 2**63 - 1).map(bson.DatetimeMS),
    st.builds(bson.Timestamp, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.decimals(allow_nan=False, places=4, min_value=-(10**20), max_value=10**20).map(bson.Decimal128),
    st.builds(bson.Regex, c_strings, st.sampled_from(["", "i", "imx"])),
    texts.map(bson.Code),
    st.just(bson.MinKey()),
    st.just(bson.MaxKey()),
)
deprecated = st.one_of(texts.map(Symbol), st.just(Undefined()), st.just(DBPointer("a.b", OID)))


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=8,
    )
    return st.dictionaries(names, values, max_size=4)


@settings(derandomize=False, print_blob=True)
@given(nested(scalars | deprecated))
def test_every_document_has_the_same_bytes_after_a_round_trip(document: dict[str, Any]) -> None:
    raw = documents.encode(document)
    text = extjson.dumps_canonical(raw)
    assert "\n" not in text
    assert extjson.loads(text) == raw


@settings(derandomize=False, print_blob=True)
@given(nested(scalars))
def test_the_canonical_form_equals_that_of_pymongo(document: dict[str, Any]) -> None:
    raw = documents.encode(document)
    options = json_util.CANONICAL_JSON_OPTIONS.with_options(
        datetime_representation=json_util.DatetimeRepresentation.NUMBERLONG
    )
    expected = json_util.dumps(documents.decode(raw), json_options=options, ensure_ascii=False)
    assert extjson.dumps_canonical(raw) == expected


@settings(derandomize=False, print_blob=True)
@given(nested(scalars | deprecated), st.data())
def test_damaged_bson_raises_no_other_error(document: dict[str, Any], data: st.DataObject) -> None:
    raw = bytearray(documents.encode(document))
    for _ in range(3):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        text = extjson.dumps_canonical(bytes(raw))
    except BsonError:
        return
    json.loads(text)


def test_a_uuid_of_the_wrong_length_is_still_a_value() -> None:
    raw = rawbson.document(rawbson.element(rawbson.BINARY, b"a", b"\x01\0\0\0\x04\xff"))
    text = extjson.dumps_canonical(raw)
    assert text == '{"a": {"$binary": {"base64": "/w==", "subType": "04"}}}'
    assert extjson.loads(text) == raw


def test_the_payload_of_nan_is_not_preserved() -> None:
    raw = rawbson.document(rawbson.element(rawbson.DOUBLE, b"a", struct.pack("<Q", 0x7FF8000000000012)))
    assert extjson.dumps_canonical(raw) == '{"a": {"$numberDouble": "NaN"}}'
