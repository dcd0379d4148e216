"""`apply_diff`: vectors compared as bytes, repeated application, errors."""

from typing import Any

import pytest
from bson import Binary, Int64

from tailrace.bson.documents import encode
from tailrace.bson.raw import INT32, document, element
from tailrace.errors import CommandError
from tailrace.events.update_diff import apply_diff, parse
from tests.events.update_vectors import CASES, nested_diff


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_vectors(case: dict[str, Any]) -> None:
    raw_diff = encode(case["oplogUpdate"]["diff"])
    assert apply_diff(encode(case["preImage"]), raw_diff) == encode(case["postImage"])


@pytest.mark.parametrize(
    ("pre", "diff", "post"),
    [
        ({"a": 1, "b": 2}, {"i": {"a": 3}}, {"b": 2, "a": 3}),
        ({"a": 1}, {"u": {"b": 2, "c": 3}, "i": {"d": 4}}, {"a": 1, "b": 2, "c": 3, "d": 4}),
        ({"a": 1}, {"d": {"b": False}}, {"a": 1}),
        ({"a": 1}, {"sb": {"u": {"c": 1}}}, {"a": 1}),
        ({"a": [1]}, {"sa": {"u": {"c": 1}}}, {"a": None}),
        ({"a": {"b": 1}}, {"sa": {"a": True, "u0": 1}}, {"a": None}),
        ({"a": [1, 2]}, {"sa": {"a": True, "s0": {"u": {"b": 1}}}}, {"a": [None, 2]}),
        ({"a": []}, {"sa": {"a": True, "u0": 1, "u1": 2}}, {"a": [1, 2]}),
        ({"a": [1]}, {"sa": {"a": True, "l": 3, "u2": 9}}, {"a": [1, None, 9]}),
        ({"a": [1, 2, 3]}, {"sa": {"a": True, "l": 1, "u0": 9}}, {"a": [9]}),
        ({"a": [1, 2, 3]}, {"sa": {"a": True}}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"sa": {"a": True, "u00": 2}}, {"a": [2]}),
        ({"": {"": 1}}, {"s": {"u": {"": 2}}}, {"": {"": 2}}),
        ({"a": 1, "b": b"xy"}, {"b": {"a": {"o": 0, "d": b"z"}}}, {"a": 1, "b": b"xy"}),
        ({"b": b"xy"}, {"b": {"c": {"o": 0, "d": b"z"}}}, {"b": b"xy"}),
        ({"b": Binary(b"xyz", 9)}, {"b": {"b": {"o": Int64(1), "d": b""}}}, {"b": Binary(b"x", 9)}),
    ],
)
def test_cases(pre: dict[str, Any], diff: dict[str, Any], post: dict[str, Any]) -> None:
    assert apply_diff(encode(pre), encode(diff)) == encode(post)


def test_elements_after_the_hundredth_are_numbered() -> None:
    pre, post = {"a": list(range(100))}, {"a": [*range(99), "x", *[None] * 10, "y"]}
    diff = {"sa": {"a": True, "u99": "x", "u110": "y"}}
    assert apply_diff(encode(pre), encode(diff)) == encode(post)


def twice(section: bytes) -> bytes:
    return document(element(3, section, document(*[element(INT32, b"a", b"\0\0\0\0")] * 2)))


INVALID: list[tuple[str, Any, int]] = [
    ("deleted and updated", {"d": {"a": False}, "u": {"a": 1}}, 4728000),
    ("updated and inserted", {"u": {"a": 1}, "i": {"a": 1}}, 4728000),
    ("inserted and patched", {"i": {"a": 1}, "b": {"a": {"o": 0, "d": b""}}}, 4728000),
    ("deleted and descended", {"d": {"a": False}, "sa": {"u": {"b": 1}}}, 4728000),
    ("updated twice", twice(b"u"), 4728000),
    ("deleted twice", twice(b"d"), 4728000),
    ("nested", {"sa": {"a": True, "s0": {"u": {"b": 1}, "sb": {"u": {"c": 1}}}}}, 4728000),
    ("element twice", {"sa": {"a": True, "u0": 1, "s0": {"u": {"b": 1}}}}, 4728000),
    ("element at the new length", {"sa": {"a": True, "l": 1, "u1": 1}}, 12495901),
    ("sub-diff beyond the new length", {"sa": {"a": True, "l": 0, "s3": {"u": {"b": 1}}}}, 12495901),
    ("patch is no object", {"b": {"a": 1}}, 12262900),
    ("patch without offset", {"b": {"a": {"d": b""}}}, 12262900),
    ("patch with a negative offset", {"b": {"a": {"o": -1, "d": b""}}}, 12262900),
    ("patch with a string offset", {"b": {"a": {"o": "1", "d": b""}}}, 12262900),
    ("patch without data", {"b": {"a": {"o": 0}}}, 12262901),
    ("patch with text", {"b": {"a": {"o": 0, "d": "x"}}}, 12262901),
    ("reader error", {"u": {}, "d": {}}, 4770503),
    ("reader error below a missing field", {"sx": {"sy": {}}}, 4770500),
    ("array larger than any document", {"sa": {"a": True, "u2000000000": 1}}, 10334),
]


@pytest.mark.parametrize(("what", "diff", "code"), INVALID, ids=[case[0] for case in INVALID])
def test_applier_errors(what: str, diff: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        apply_diff(encode({"a": [1]}), diff if isinstance(diff, bytes) else encode(diff))
    assert caught.value.code == code


def test_parsing_preserves_the_order_of_sections() -> None:
    node = parse(encode({"u": {"z": 1, "a": 2}, "i": {"y": 1, "b": 2}}))
    assert (list(node.updates), list(node.inserts)) == ([b"z", b"a"], [b"y", b"b"])


def test_a_diff_that_nests_too_deeply_is_refused() -> None:
    assert apply_diff(encode({"b": 1}), nested_diff(150)) == encode({"b": 1})
    with pytest.raises(CommandError) as caught:
        apply_diff(encode({"b": 1}), nested_diff(5000))
    assert caught.value.code == 15
