"""Resume tokens: vectors read and written, malformed tokens, order, and the comparison on resume."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import extjson
from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.resume_token import (
    EVENT,
    HIGH_WATER_MARK,
    Resume,
    ResumeToken,
    cluster_time_of,
    compare_for_resume,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "resume-token-vectors.json").read_text())
IDS = [vector["name"] for vector in VECTORS]
KEY_STRING_CODES = {15, 50615, 50810, 50811, 50813, 50814, 50815, 50816, 50818, 50819, *range(50821, 50827)}
KEY_STRING_CODES |= {50829, 50830, 50831, 50833, 50845, 50846, 50850, 50910}
COMPONENT_CODES = {9, 207, 40646, 40649, 50793, 50794, 50795, 50796, 50854, 50855, 50870, 50872, 51055, 51056}
COMPONENT_CODES |= {51057, 6189500, 6189501, 6189503, 6189504, 7182501}
DOCUMENTED_CODES = KEY_STRING_CODES | COMPONENT_CODES

TIME = 0x6553F100_00000001
UUID = bytes(range(16))
INSERT = encode({"operationType": "insert", "documentKey": {"_id": 1}})


def code_of(data: str, type_bits: str = "") -> int:
    with pytest.raises(CommandError) as caught:
        ResumeToken.parse_data(data, bytes.fromhex(type_bits))
    return caught.value.code


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_vectors_are_read_and_written(vector: dict[str, Any]) -> None:
    type_bits = bytes.fromhex(vector["typeBits"] or "")
    token = ResumeToken.parse_data(vector["token_hex"], type_bits)
    expected = vector["decoded"]
    assert token.cluster_time == expected["clusterTime"]["t"] << 32 | expected["clusterTime"]["i"]
    assert token.version == expected["version"]
    assert token.kind == (EVENT if expected["tokenType"] is None else expected["tokenType"])
    assert token.txn_op_index == expected["txnOpIndex"]
    assert token.from_invalidate == bool(expected["fromInvalidate"])
    assert token.uuid == (None if expected["uuid"] is None else bytes.fromhex(expected["uuid"]))
    assert token.fragment == expected["fragmentNum"]
    if expected["eventIdentifier"] is None:
        assert token.identifier is None
    else:
        assert token.identifier == extjson.loads(json.dumps(expected["eventIdentifier"]))
    written = decode(token.to_bson())
    assert list(written) == ["_data", "_typeBits"][: len(written)]
    assert written["_data"] == token.data == vector["token_hex"]
    assert written.get("_typeBits", b"") == type_bits
    assert cluster_time_of(vector["token_hex"]) == token.cluster_time


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_vectors_as_documents_in_lower_case(vector: dict[str, Any]) -> None:
    document: dict[str, Any] = {"other": 1, "_data": vector["token_hex"].lower()}
    if vector["typeBits"]:
        document["_typeBits"] = Binary(bytes.fromhex(vector["typeBits"]), 0)
    assert ResumeToken.parse(encode(document)).data == vector["token_hex"]


HEAD = "826553F10000000001"
UUID_HEX = "5A1004" + "00" * 16
DROP_HEX = "463C6F7065726174696F6E54797065003C64726F700000"


@pytest.mark.parametrize(
    ("data", "type_bits", "code"),
    [
        # the published examples, in their order
        ("", "", 40649),
        ("0000000000", "", 50811),
        ("A5554D56FF", "", 50811),
        ("3C37", "", 50816),
        ("nonsense", "", 9),
        ("826553F1000000", "", 15),
        (HEAD + "04", "", 50796),
        (HEAD + "2B0404", "02", 50854),
        (HEAD + "2B0604", "", 50795),
        (HEAD + "2B0404", "", 51055),
        (HEAD + "2B042B0A04", "", 51057),
        (HEAD + "2B042C010027FD04", "", 50794),
        (HEAD + "2B042C0100292904", "", 50870),
        (HEAD + "2B042C0100296E04", "", 6189500),
        (HEAD + "2B042C0100296E3C750004", "", 207),
        (HEAD + "2B0429296E14" + DROP_HEX + "04", "", 6189504),
        (HEAD + "2B042C0100296E" + UUID_HEX + "04", "", 6189501),
        (HEAD + "2B042C0100296E" + UUID_HEX + "2B0204", "", 6189503),
        (HEAD + "2B042C0100296E" + UUID_HEX + "461E5F6964002B0B800000000000000004", "", 50810),
        # the other malformed tokens
        ("8", "", 9),
        ("82 6553F10000000001", "", 9),
        ("\uff18\uff12", "", 9),
        ("04", "", 40649),
        (HEAD, "", 50796),
        (HEAD + "6E04", "", 50854),
        (HEAD + "27FD04", "", 50795),
        (HEAD + "2B02", "", 51055),
        (HEAD + "2B026E04", "", 51056),
        (HEAD + "2B042C010004", "", 50793),
        (HEAD + "2904", "", 50793),
        (HEAD + "2B042C01006E04", "", 50855),
        (HEAD + "2927FD04", "", 50794),
        (HEAD + "2B042C01002904", "", 50872),
        (HEAD + "2B042C0100296E5A1003" + "00" * 16 + "04", "", 207),
        (HEAD + "2B042C0100296E5A0F04" + "00" * 15 + "04", "", 207),
        (HEAD + "2B0229296E" + UUID_HEX + DROP_HEX + "04", "", 6189504),
        (HEAD + "2B022C0100296E" + UUID_HEX + "2B0204", "", 6189503),
        (HEAD + "2B042C0100296E14" + DROP_HEX + "27FD04", "", 7182501),
        (HEAD + "2B042C0100296E14" + DROP_HEX + "6E04", "", 7182501),
        (HEAD + "2B042C0100296E14" + DROP_HEX + "292904", "", 40646),
        (HEAD + "2B022C0100296E" + UUID_HEX + DROP_HEX + "2904", "", 40646),
        (HEAD + "2929" + UUID_HEX + DROP_HEX + "2904", "", 40646),
        (HEAD + "2B042C0100296E14" + DROP_HEX + "04", "08", 51056),
        (HEAD + "2B042C0100296E14" + DROP_HEX + "04", "82FF", 15),
        (HEAD + "2B042C0100296E14" + DROP_HEX + "04", "8001000000FF", 50910),
        (HEAD + "2B042C0100296E14" + "461E6100" + "50" * 201, "", 15),
        (HEAD + "2B042C0100296E14461E61001E0004", "", 50819),
    ],
)
def test_malformed(data: str, type_bits: str, code: int) -> None:
    assert code_of(data, type_bits) == code


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({}, 40647),
        ({"_data": None}, 40647),
        ({"_data": b"\x82"}, 40647),
        ({"_data": HEAD, "_typeBits": None}, 40648),
        ({"_data": HEAD, "_typeBits": "00"}, 40648),
        ({"_data": HEAD, "_typeBits": Binary(b"\0", 4)}, 40648),
        ({"_data": "ä"}, 9),
    ],
)
def test_malformed_documents(document: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as caught:
        ResumeToken.parse(encode(document))
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (ResumeToken(TIME, kind=HIGH_WATER_MARK, uuid=UUID), 6189505),
        (ResumeToken(TIME, kind=HIGH_WATER_MARK, identifier=INSERT), 6189505),
        (ResumeToken(TIME, kind=HIGH_WATER_MARK, txn_op_index=1), 6189505),
        (ResumeToken(TIME, kind=HIGH_WATER_MARK, from_invalidate=True), 6189505),
        (ResumeToken(TIME, kind=HIGH_WATER_MARK, fragment=0), 6189505),
        (ResumeToken(TIME, 1, identifier=INSERT), 50788),
        (ResumeToken(TIME, 0, identifier=INSERT), 50788),
        (ResumeToken(TIME, uuid=UUID), 6189502),
        (ResumeToken(TIME, 1, uuid=UUID, identifier=INSERT, fragment=0), 7182504),
    ],
)
def test_tokens_that_cannot_be_written(token: ResumeToken, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        token.to_bson()
    assert caught.value.code == code


MARK_V2 = HEAD + "2B0429296E14"


@pytest.mark.parametrize(
    "data", [MARK_V2, MARK_V2 + "04", MARK_V2 + "04FF", MARK_V2 + "0104", "01" + MARK_V2]
)
def test_incomplete_marks_that_are_accepted(data: str) -> None:
    token = ResumeToken.parse_data(data)
    assert token.is_high_water_mark
    assert token.data == MARK_V2 + "04"


def test_the_first_component_may_have_any_type() -> None:
    assert ResumeToken.parse_data("3C6100" + "2B0429296E1404").cluster_time == 0
    date = "78" + (TIME ^ 1 << 63).to_bytes(8, "big").hex()
    assert ResumeToken.parse_data(date + "2B0429296E1404").cluster_time == TIME
    with pytest.raises(CommandError):
        cluster_time_of(date)


def test_a_high_water_mark_with_a_uuid_is_read_but_counts_as_an_event() -> None:
    token = ResumeToken.parse_data(HEAD + "2B0429296E" + UUID_HEX + "04")
    assert not token.is_high_water_mark
    with pytest.raises(CommandError) as caught:
        token.to_bson()
    assert caught.value.code == 6189505


@pytest.mark.parametrize("version", [1, 2])
def test_high_water_marks(version: int) -> None:
    token = ResumeToken.high_water_mark(TIME, version)
    assert token.data == HEAD + {1: "2B0229296E04", 2: "2B0429296E1404"}[version]
    assert list(decode(token.to_bson())) == ["_data"]
    assert token.is_high_water_mark


@pytest.mark.parametrize("data", ["", HEAD[:17], "83" + HEAD[2:], "82zz53F10000000001", "82 553F10000000001"])
def test_the_fast_path_refuses_text_without_a_time(data: str) -> None:
    with pytest.raises(CommandError) as caught:
        cluster_time_of(data)
    assert caught.value.code == 9


def test_the_fast_path_reads_only_the_time() -> None:
    assert cluster_time_of(HEAD + "...") == TIME
    assert cluster_time_of(HEAD.lower()) == TIME


def test_equality_ignores_type_bits() -> None:
    token = ResumeToken(TIME, uuid=UUID, identifier=encode({"_id": Int64(5)}))
    same = replace(token, identifier=encode({"_id": 5.0}))
    other = replace(token, identifier=encode({"_id": 6}))
    assert token == same
    assert hash(token) == hash(same)
    assert token != other
    assert token.data == same.data
    assert token.to_bson() != same.to_bson()
    assert token != token.data


@pytest.mark.parametrize("identifier", [{"_id": Int64(2**40)}, {"_id": 7.0}, {"_id": Decimal128("3.00")}])
def test_a_token_without_type_bits_of_whole_numbers_finds_its_event(identifier: dict[str, Any]) -> None:
    token = ResumeToken(TIME, uuid=UUID, identifier=encode(identifier))
    assert compare_for_resume(token, ResumeToken.parse_data(token.data)) is Resume.FOUND


def event(**changes: Any) -> ResumeToken:
    return replace(ResumeToken(TIME, uuid=UUID, identifier=INSERT, txn_op_index=3), **changes)


def other_id(value: Any) -> bytes:
    return encode({"operationType": "insert", "documentKey": {"_id": value}})


@pytest.mark.parametrize(
    ("seen", "client", "outcome"),
    [
        (event(), event(), Resume.FOUND),
        (event(version=1), event(), Resume.FOUND),
        (event(cluster_time=TIME + 1, txn_op_index=0), event(), Resume.SURPASSED),
        (event(cluster_time=TIME - 1), event(), Resume.CHECK_NEXT),
        (event(), ResumeToken.high_water_mark(TIME), Resume.SURPASSED),
        (ResumeToken.high_water_mark(TIME), event(), Resume.CHECK_NEXT),
        (event(txn_op_index=2), event(), Resume.CHECK_NEXT),
        (event(txn_op_index=4), event(), Resume.SURPASSED),
        (event(from_invalidate=True), event(), Resume.SURPASSED),
        (event(), event(from_invalidate=True), Resume.CHECK_NEXT),
        (event(uuid=None), event(), Resume.CHECK_NEXT),
        (event(), event(uuid=None), Resume.SURPASSED),
        (event(uuid=b"\xff" * 16), event(), Resume.SURPASSED),
        (event(uuid=b"\0" * 16), event(), Resume.CHECK_NEXT),
        (event(identifier=other_id(1.0)), event(), Resume.FOUND),
        (event(identifier=other_id(0.5)), event(), Resume.CHECK_NEXT),
        (event(identifier=other_id(2)), event(), Resume.SURPASSED),
        (event(identifier=other_id("")), event(), Resume.SURPASSED),
        (event(identifier=None), event(), Resume.CHECK_NEXT),
        (event(), event(fragment=0), Resume.NEEDS_SPLIT),
        (event(), event(fragment=2), Resume.NEEDS_SPLIT),
        (event(fragment=2), event(fragment=2), Resume.FOUND),
        (event(fragment=1), event(fragment=2), Resume.CHECK_NEXT),
        (event(fragment=3), event(fragment=2), Resume.SURPASSED),
        (event(fragment=0), event(), Resume.SURPASSED),
    ],
)
def test_resume_comparison(seen: ResumeToken, client: ResumeToken, outcome: Resume) -> None:
    assert compare_for_resume(seen, client) is outcome


def test_order_within_one_cluster_time() -> None:
    ladder = [
        ResumeToken.high_water_mark(TIME, 1),
        ResumeToken(TIME, 1),
        ResumeToken(TIME, 1, uuid=UUID),
        ResumeToken(TIME, 1, uuid=UUID, identifier=encode({"_id": 1})),
        ResumeToken(TIME, 1, uuid=UUID, identifier=encode({"_id": "a"})),
        ResumeToken.high_water_mark(TIME),
        ResumeToken(TIME, identifier=INSERT),
        ResumeToken(TIME, uuid=UUID, identifier=INSERT),
        ResumeToken(TIME, uuid=UUID, identifier=INSERT, fragment=0),
        ResumeToken(TIME, uuid=UUID, identifier=INSERT, fragment=1),
        ResumeToken(TIME, uuid=UUID, identifier=INSERT, from_invalidate=True),
        ResumeToken(TIME, uuid=UUID, identifier=INSERT, txn_op_index=1),
        ResumeToken.high_water_mark(TIME + 1),
    ]
    for low, high in combinations(ladder, 2):
        assert low < high
        assert low.data < high.data


scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-300, 300),
    st.integers(-(2**63), 2**63 - 1).map(Int64),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.integers(-(2**63), 2**63 - 1).map(DatetimeMS),
    st.sampled_from([Decimal128("1.23"), Decimal128("-0"), Decimal128("1E-400")]),
)
keys = st.dictionaries(
    st.text("_abid", min_size=1, max_size=3), scalars | st.lists(scalars, max_size=2), max_size=3
)
identifiers = keys.map(encode)
times = st.integers(0, 2**64 - 1)
uuids = st.binary(min_size=16, max_size=16)
indexes = st.integers(0, 2**31 - 1) | st.integers(0, 2)


@st.composite
def tokens(draw: st.DrawFn) -> ResumeToken:
    version = draw(st.sampled_from([0, 1, 2]))
    if version and draw(st.integers(0, 4)) == 0:
        return ResumeToken.high_water_mark(draw(times), version)
    uuid = draw(uuids | st.none())
    identifier = draw(identifiers if version == 2 else st.none() | identifiers if uuid else st.none())
    return ResumeToken(
        draw(times),
        version,
        txn_op_index=draw(indexes),
        from_invalidate=bool(version) and draw(st.booleans()),
        uuid=uuid,
        identifier=identifier,
        fragment=draw(st.none() | indexes) if version == 2 else None,
    )


quick = settings(derandomize=False, print_blob=True, max_examples=300, deadline=None)


@quick
@given(tokens())
def test_round_trip(token: ResumeToken) -> None:
    parsed = ResumeToken.parse(token.to_bson())
    assert parsed == token
    assert parsed.identifier == token.identifier
    assert parsed.to_bson() == token.to_bson()
    assert cluster_time_of(token.data) == token.cluster_time


@quick
@given(tokens(), tokens())
def test_tokens_order_like_their_text(a: ResumeToken, b: ResumeToken) -> None:
    assert (a < b) == (a.data < b.data)
    assert (a == b) == (a.data == b.data)


def parse_code(data: str, type_bits: bytes) -> int | None:
    try:
        ResumeToken.parse_data(data, type_bits)
    except CommandError as error:
        return error.code
    return None


@settings(quick, max_examples=400)
@given(tokens(), st.data())
def test_damaged_tokens_fail_only_as_documented(token: ResumeToken, data: st.DataObject) -> None:
    key = token.key_string()
    damaged = bytearray(key.data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    type_bits = data.draw(st.just(key.type_bits) | st.binary(max_size=6))
    code = parse_code(damaged[: data.draw(st.integers(0, len(damaged)))].hex(), type_bits)
    assert code is None or code in DOCUMENTED_CODES


@settings(quick, max_examples=500)
@given(st.text(max_size=40) | st.text("0123456789ABCDEF", max_size=40), st.binary(max_size=4))
def test_random_text_fails_only_as_documented(data: str, type_bits: bytes) -> None:
    code = parse_code(data, type_bits)
    assert code is None or code in DOCUMENTED_CODES
