"""`describe`: vectors compared as bytes, duplicate names, errors."""

from typing import Any

import pytest
from bson import Int64

from tailrace.bson.documents import decode, encode
from tailrace.bson.raw import document, element, elements
from tailrace.errors import CommandError
from tailrace.events.update_diff import describe
from tests.events.update_vectors import CASES, nested_diff


def test_all_vectors_are_loaded() -> None:
    assert len(CASES) == 56


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("form", ["default", "expanded"])
def test_vectors(case: dict[str, Any], form: str) -> None:
    raw_diff = encode(case["oplogUpdate"]["diff"])
    expected = case["expectedUpdateDescription"][form]
    assert describe(raw_diff, expanded=form == "expanded") == encode(expected)


@pytest.mark.parametrize(
    ("diff", "disambiguated"),
    [
        ({"d": {"b": False}, "u": {"a": 1}}, {}),
        ({"sa": {"a": True, "l": 2, "u0": 9, "s1": {"i": {"k": 1}}}}, {}),
        ({"sa": {"u": {"0": 1}}}, {"a.0": ["a", "0"]}),
        ({"u": {"a.b": 1}}, {"a.b": ["a.b"]}),
        ({"u": {"0": 1}}, {}),
        ({"u": {"0": "1.2"}}, {}),
        ({"i": {"0": 1, "x.y": 2}, "b": {"p.q": {}}}, {"x.y": ["x.y"], "p.q": ["p.q"]}),
        ({"s0": {"a": True, "u1": 1}}, {}),
        ({"sa": {"a": True, "s0": {"u": {"1": 5}}}}, {"a.0.1": ["a", 0, "1"]}),
        ({"sa": {"u": {"01": 1}}}, {}),
        ({"sa": {"u": {"": 1, "-1": 1, "1x": 1, "1\u0661": 1}}}, {}),
        ({"s": {"u": {"0": 1}}}, {".0": ["", "0"]}),
        ({"s1.5": {"a": True, "l": 3}}, {"1.5": ["1.5"]}),
        ({"sa": {"s7": {"a": True, "l": 0, "u2": 1}}}, {"a.7": ["a", "7"], "a.7.2": ["a", "7", 2]}),
    ],
)
def test_disambiguated_paths(diff: dict[str, Any], disambiguated: dict[str, Any]) -> None:
    raw_diff = encode(diff)
    expanded = decode(describe(raw_diff, expanded=True))
    assert list(expanded) == ["updatedFields", "removedFields", "truncatedArrays", "disambiguatedPaths"]
    assert list(expanded.pop("disambiguatedPaths").items()) == list(disambiguated.items())
    assert expanded == decode(describe(raw_diff, expanded=False))


def test_paths_with_the_same_dotted_name_are_all_described() -> None:
    described = describe(encode({"u": {"a.b": 2}, "sa": {"u": {"b": 1}}}), expanded=True)
    fields = next(e for e in elements(described) if e[1] == b"updatedFields")
    pairs = [(name, described[start:end]) for _, name, start, end in elements(described, fields[2])]
    assert pairs == [(b"a.b", b"\2\0\0\0"), (b"a.b", b"\1\0\0\0")]


def test_only_the_first_letter_of_a_section_name_matters() -> None:
    described = decode(describe(encode({"deleted": {"x": False}, "updated": {"y": 1}}), expanded=False))
    assert described == {"updatedFields": {"y": 1}, "removedFields": ["x"], "truncatedArrays": []}


def test_more_than_ten_removals_are_described() -> None:
    names = [f"f{n}" for n in range(12)]
    described = decode(describe(encode({"d": dict.fromkeys(names, False)}), expanded=False))
    assert described["removedFields"] == names


def repeated(*names: bytes) -> bytes:
    empty = encode({"k": 1})
    return document(*(element(3, name, empty) for name in names))


INVALID: list[tuple[str, Any, int]] = [
    ("empty diff", {}, 4770500),
    ("empty sub-diff", {"sa": {}}, 4770500),
    ("empty array sub-diff", {"sa": {"a": True, "s0": {}}}, 4770500),
    ("unknown section", {"x": {}}, 4770503),
    ("array diff at the top", {"a": True, "u0": 1}, 4770503),
    ("unknown section after one", {"u": {}, "x": {}}, 4770503),
    ("out of order", {"u": {}, "d": {}}, 4770503),
    ("binary before insert", {"b": {}, "i": {}}, 4770503),
    ("repeated", repeated(b"u", b"u"), 4770503),
    ("repeated by first letter", {"u": {}, "upd": {}}, 4770503),
    ("unnamed section", {"": {}}, 4770505),
    ("unnamed section after one", {"d": {}, "": {}}, 4770505),
    ("section is a number", {"u": 1}, 4770507),
    ("section is an array", {"i": []}, 4770507),
    ("binary section is a bool", {"b": True}, 4770507),
    ("first sub-diff is no object", {"sa": 1}, 4770507),
    ("later sub-diff is no object", {"sa": {"u": {}}, "sb": 1}, 470510),
    ("unnamed section after a sub-diff", {"sa": {"u": {}}, "": {}}, 4770513),
    ("section after a sub-diff", {"sa": {"u": {}}, "u": {}}, 4770514),
    ("header is a number", {"sa": {"a": 1}}, 4770519),
    ("header is false", {"sa": {"a": False, "u0": 1}}, 4770520),
    ("length is int64", {"sa": {"a": True, "l": Int64(1)}}, 4770507),
    ("length is negative", {"sa": {"a": True, "l": -1}}, 4770507),
    ("length is not second", {"sa": {"a": True, "u0": 1, "l": 1}}, 4770521),
    ("short entry", {"sa": {"a": True, "u": 1}}, 4770521),
    ("unnamed entry", {"sa": {"a": True, "": 1}}, 4770521),
    ("index is no number", {"sa": {"a": True, "ux": 1}}, 4770512),
    ("index is negative", {"sa": {"a": True, "u-1": 1}}, 4770512),
    ("index is too large", {"sa": {"a": True, "u18446744073709551616": 1}}, 4770512),
    ("entry of unknown kind", {"sa": {"a": True, "d0": 1}}, 4770502),
    ("array sub-diff is no object", {"sa": {"a": True, "s0": 1}}, 4770501),
    ("array sub-diff is an array", {"sa": {"a": True, "s0": []}}, 4770501),
    ("error deep inside", {"sa": {"a": True, "s0": {"sb": {"u": {}, "d": {}}}}}, 4770503),
]


@pytest.mark.parametrize(("what", "diff", "code"), INVALID, ids=[case[0] for case in INVALID])
@pytest.mark.parametrize("expanded", [False, True])
def test_reader_errors(what: str, diff: Any, code: int, expanded: bool) -> None:
    with pytest.raises(CommandError) as caught:
        describe(diff if isinstance(diff, bytes) else encode(diff), expanded=expanded)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x05\0\0\0",
        encode({"u": {"a": 1}})[:-1],
        encode({"u": {"a": 1}})[:-2] + b"\1\0",
        encode({"u": {"a": 1}, "i": {"b": 1}})[:-2] + b"\1\0",
        document(element(3, b"u", b"\xff\0\0\0\0")),
        document(element(3, b"u", b"\xff\xff\xff\xff\0")),
        document(element(3, b"sa", b"\x09\0\0\0\x03u\0\0\0")),
        document(element(3, b"sa", encode({"u": {"b": "text"}})[:-3] + b"\0")),
    ],
)
def test_damaged_bytes_are_invalid_bson(raw: bytes) -> None:
    for expanded in (False, True):
        with pytest.raises(CommandError) as caught:
            describe(raw, expanded=expanded)
        assert caught.value.code == 22


def test_a_diff_that_nests_too_deeply_is_refused() -> None:
    deep = decode(describe(nested_diff(150), expanded=True))
    assert deep["updatedFields"] == {".".join("a" * 151): 1}
    with pytest.raises(CommandError) as caught:
        describe(nested_diff(5000), expanded=True)
    assert caught.value.code == 15
