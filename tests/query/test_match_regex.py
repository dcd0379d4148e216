"""`$regex` and `$options`; test_pcre tests the syntax of patterns."""

from typing import Any

import pytest
from bson import Code, Regex

from tailrace.bson.values import Symbol
from tailrace.errors import CommandError
from tailrace.query.match import compile_match

# (operators on a, value of a, expected)
CASES: list[tuple[dict[str, Any], Any, bool]] = [
    ({"$regex": "^f"}, "foo", True),
    ({"$regex": "^f"}, "of", False),
    ({"$regex": ""}, "", True),
    ({"$regex": "o$"}, ["x", "foo"], True),
    ({"$regex": "o"}, [["foo"]], False),
    ({"$regex": "f"}, Symbol("foo"), True),
    ({"$regex": "f"}, Code("foo"), False),
    ({"$regex": "f"}, None, False),
    ({"$regex": "1"}, 1, False),
    ({"$regex": "f"}, {"f": "f"}, False),
    ({"$regex": "F", "$options": "i"}, "foo", True),
    ({"$options": "i", "$regex": "F"}, "foo", True),
    ({"$regex": "F", "$options": ""}, "foo", False),
    ({"$regex": Regex("F", "i")}, "foo", True),
    ({"$regex": Regex("F"), "$options": "i"}, "foo", True),
    ({"$regex": Regex("F"), "$options": ""}, "F", True),
    ({"$options": "si", "$regex": Regex("F.O")}, "f\no", True),
    ({"$regex": "^a b$", "$options": "xu"}, "ab", True),
    ({"$regex": "f"}, Regex("f"), True),
    ({"$regex": "f", "$options": "im"}, Regex("f", "mi"), True),
    ({"$regex": "f"}, Regex("g"), False),
    ({"$regex": "^f", "$ne": "foo"}, "far", True),
    ({"$regex": "^f", "$ne": "foo"}, "foo", False),
    ({"$regex": "^é", "$options": "i"}, "Été", True),
    ({"$in": [Regex("^f"), 5]}, "foo", True),
    ({"$in": [Regex("^f"), 5]}, 5, True),
    ({"$in": [Regex("^f")]}, Regex("^f"), True),
    ({"$in": [Regex("^F", "i")]}, ["x", "foo"], True),
    ({"$nin": [Regex("^f")]}, "foo", False),
    ({"$nin": [Regex("^f")]}, "bar", True),
]


@pytest.mark.parametrize(("operators", "value", "expected"), CASES)
def test_regex(operators: dict[str, Any], value: Any, expected: bool) -> None:
    assert compile_match({"a": operators})({"a": value}) == expected


@pytest.mark.parametrize("operators", [{"$regex": "."}, {"$in": [Regex("")]}, {"$regex": Regex("")}])
def test_a_regex_never_finds_a_missing_field(operators: dict[str, Any]) -> None:
    assert not compile_match({"a": operators})({})


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"$regex": 5}, 2),
        ({"$regex": None}, 2),
        ({"$regex": {"a": 1}}, 2),
        ({"$regex": "a", "$options": 5}, 2),
        ({"$regex": "a", "$options": None}, 2),
        ({"$options": "i"}, 2),
        ({"$regex": "a\0b"}, 2),
        ({"$regex": "a", "$options": "g"}, 51108),
        ({"$regex": "a", "$options": "\0i"}, 51108),
        ({"$regex": Regex("a", "l")}, 51108),
        (Regex("a", "l"), 51108),
        ({"$regex": Regex("a", "i"), "$options": "s"}, 51075),
        ({"$regex": Regex("a", "i"), "$options": ""}, 51075),
        ({"$options": "s", "$regex": Regex("a", "i")}, 51074),
        ({"$regex": "["}, 51091),
        (Regex("(?<=a+)b"), 51091),
        ({"$in": [Regex("*")]}, 51091),
        ({"$all": [Regex("*")]}, 51091),
        ({"$not": Regex("*")}, 51091),
    ],
)
def test_refused(condition: Any, code: int) -> None:
    with pytest.raises(CommandError) as caught:
        compile_match({"a": condition})
    assert caught.value.code == code
