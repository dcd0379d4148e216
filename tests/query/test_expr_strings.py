"""String and regex operators: values, nulls and error codes."""

from typing import Any

import pytest
from bson import Code, DatetimeMS, Decimal128, Int64, Regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.values import Symbol, Undefined
from tests.query.expr_helpers import assert_code, assert_value, evaluate

DOC: dict[str, Any] = {
    "s": "Hello",
    "e": "cafétéria",
    "n": None,
    "u": Undefined(),
    "i": 5,
    "code": Code("x"),
    "re": Regex("l+", "i"),
    "t": DatetimeMS(1500),
}

VALUES: list[tuple[Any, Any]] = [
    ({"$concat": ["a", "b", "$s"]}, "abHello"),
    ({"$concat": []}, ""),
    ({"$concat": ["a", "$n"]}, None),
    ({"$concat": ["$absent", 5]}, None),
    ({"$toLower": "$s"}, "hello"),
    ({"$toUpper": "éa"}, "éA"),
    ({"$toUpper": "$n"}, ""),
    ({"$toLower": 5}, "5"),
    ({"$toLower": "$t"}, "1970-01-01t00:00:01.500z"),
    ({"$toUpper": Symbol("abc")}, "ABC"),
    ({"$strcasecmp": ["a", "B"]}, -1),
    ({"$strcasecmp": ["HELLO", "$s"]}, 0),
    ({"$strcasecmp": ["b", "$absent"]}, 1),
    ({"$strLenBytes": "$e"}, 11),
    ({"$strLenCP": "$e"}, 9),
    ({"$strLenCP": ""}, 0),
    ({"$substrBytes": ["$s", 1, 3]}, "ell"),
    ({"$substrBytes": ["$s", 1, -1]}, "ello"),
    ({"$substrBytes": ["$s", 9, 2]}, ""),
    ({"$substr": ["$s", 0.9, 2.9]}, "He"),
    ({"$substr": [12345, 1, 2]}, "23"),
    ({"$substr": ["$n", 0, 1]}, ""),
    ({"$substrBytes": ["$e", 3, 2]}, "é"),
    ({"$substrCP": ["$e", 3, 3]}, "été"),
    ({"$substrCP": ["$e", 9, 3]}, ""),
    ({"$substrCP": ["$n", 0, 3]}, ""),
    ({"$indexOfBytes": ["$e", "té"]}, 5),
    ({"$indexOfCP": ["$e", "té"]}, 4),
    ({"$indexOfCP": ["$s", "l", 3]}, 3),
    ({"$indexOfCP": ["$s", "o", 0, 4]}, -1),
    ({"$indexOfCP": ["$s", ""]}, 0),
    ({"$indexOfBytes": ["$s", "z"]}, -1),
    ({"$indexOfBytes": ["$n", "z"]}, None),
    ({"$split": ["a-b-c", "-"]}, ["a", "b", "c"]),
    ({"$split": ["aa", "a"]}, ["", "", ""]),
    ({"$split": ["", "a"]}, [""]),
    ({"$split": ["$n", "-"]}, None),
    ({"$split": ["a", "$absent"]}, None),
    ({"$trim": {"input": " \t\u2003x y\n\0"}}, "x y"),
    ({"$ltrim": {"input": "  x "}}, "x "),
    ({"$rtrim": {"input": " x\u00a0 "}}, " x"),
    ({"$trim": {"input": "ggoodbyeeeee", "chars": "ge"}}, "oodby"),
    ({"$trim": {"input": "x", "chars": ""}}, "x"),
    ({"$trim": {"input": "$n"}}, None),
    ({"$trim": {"input": "x", "chars": "$n"}}, None),
    ({"$replaceOne": {"input": "aXbX", "find": "X", "replacement": "-"}}, "a-bX"),
    ({"$replaceAll": {"input": "aXbX", "find": "X", "replacement": "-"}}, "a-b-"),
    ({"$replaceAll": {"input": "abc", "find": "z", "replacement": "-"}}, "abc"),
    ({"$replaceOne": {"input": "$n", "find": "z", "replacement": "-"}}, None),
    ({"$replaceAll": {"input": "a", "find": "$absent", "replacement": "-"}}, None),
    # regular expressions
    ({"$regexMatch": {"input": "$s", "regex": "^h", "options": "i"}}, True),
    ({"$regexMatch": {"input": "$s", "regex": "^h"}}, False),
    ({"$regexMatch": {"input": "$s", "regex": "$re"}}, True),
    ({"$regexMatch": {"input": "$n", "regex": "x"}}, False),
    ({"$regexMatch": {"input": "x", "regex": "$absent"}}, False),
    ({"$regexFind": {"input": "$s", "regex": "(l)(l)|(z)"}},
     {"match": "ll", "idx": 2, "captures": ["l", "l", None]}),
    ({"$regexFind": {"input": "$e", "regex": "té"}}, {"match": "té", "idx": 4, "captures": []}),
    ({"$regexFind": {"input": "$s", "regex": "z"}}, None),
    ({"$regexFind": {"input": "$u", "regex": "z"}}, None),
    ({"$regexFindAll": {"input": "aaaaa aaaa", "regex": "(aa)+"}},
     [{"match": "aaaa", "idx": 0, "captures": ["aa"]}, {"match": "aaaa", "idx": 6, "captures": ["aa"]}]),
    ({"$regexFindAll": {"input": "ab", "regex": "()"}},
     [{"match": "", "idx": 0, "captures": [""]}, {"match": "", "idx": 1, "captures": [""]}]),
    ({"$regexFindAll": {"input": "", "regex": ""}}, [{"match": "", "idx": 0, "captures": []}]),
    ({"$regexFindAll": {"input": "x", "regex": "y"}}, []),
    ({"$regexFindAll": {"input": "$absent", "regex": "y"}}, []),
    ({"$regexFindAll": {"input": "a\nb", "regex": "^.", "options": "m"}},
     [{"match": "a", "idx": 0, "captures": []}, {"match": "b", "idx": 2, "captures": []}]),
    ({"$regexMatch": {"input": "abc", "regex": "a b c # comment", "options": "x"}}, True),
    ({"$regexMatch": {"input": "a\nb", "regex": "a.b", "options": "s"}}, True),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), VALUES)
def test_value(spec: Any, expected: Any) -> None:
    assert_value(spec, DOC, expected)


ERRORS: list[tuple[Any, int]] = [
    ({"$concat": ["a", 1]}, 16702),
    ({"$concat": ["a", "$code"]}, 16702),
    ({"$toLower": True}, 16007),
    ({"$toUpper": {"$literal": [1]}}, 16007),
    ({"$strLenBytes": "$n"}, 34473),
    ({"$strLenCP": 1}, 34471),
    ({"$substrBytes": ["x", "a", 1]}, 16034),
    ({"$substrBytes": ["x", 1, "a"]}, 16035),
    ({"$substrBytes": ["x", -1, 1]}, 50752),
    ({"$substrBytes": ["$e", 4, 1]}, 28656),
    ({"$substrBytes": ["$e", 0, 4]}, 28657),
    ({"$substr": ["x", 1]}, 16020),
    ({"$substrCP": ["x", "a", 1]}, 34450),
    ({"$substrCP": ["x", 1.5, 1]}, 34451),
    ({"$substrCP": ["x", 1, "a"]}, 34452),
    ({"$substrCP": ["x", 1, 1.5]}, 34453),
    ({"$substrCP": ["x", 1, -1]}, 34454),
    ({"$substrCP": ["x", -1, 1]}, 34455),
    ({"$indexOfBytes": [1, "x"]}, 40091),
    ({"$indexOfBytes": ["x", None]}, 40092),
    ({"$indexOfCP": [1, "x"]}, 40093),
    ({"$indexOfCP": ["x", 1]}, 40094),
    ({"$indexOfCP": ["x", "x", 1.5]}, 40096),
    ({"$indexOfCP": ["x", "x", 0, -1]}, 40097),
    ({"$indexOfCP": ["x"]}, 28667),
    ({"$split": [1, "x"]}, 40085),
    ({"$split": ["x", 1]}, 40086),
    ({"$split": ["x", ""]}, 40087),
    ({"$split": ["x"]}, 16020),
    ({"$trim": " x "}, 50696),
    ({"$trim": {"input": "x", "x": 1}}, 50694),
    ({"$trim": {"chars": "x"}}, 50695),
    ({"$trim": {"input": 4}}, 50699),
    ({"$ltrim": {"input": "x", "chars": 4}}, 50700),
    ({"$replaceOne": 1}, 51751),
    ({"$replaceOne": {"input": "a", "find": "a", "replacement": "a", "x": 1}}, 51750),
    ({"$replaceOne": {"find": "a", "replacement": "a"}}, 51749),
    ({"$replaceOne": {"input": "a", "replacement": "a"}}, 51748),
    ({"$replaceAll": {"input": "a", "find": "a"}}, 51747),
    ({"$replaceAll": {"input": 1, "find": "a", "replacement": "a"}}, 51746),
    ({"$replaceAll": {"input": "a", "find": 1, "replacement": "a"}}, 51745),
    ({"$replaceAll": {"input": "a", "find": "a", "replacement": 1}}, 51744),
    ({"$replaceAll": {"input": None, "find": 1, "replacement": "a"}}, 51745),
    ({"$regexFind": None}, 51103),
    ({"$regexFind": {"input": "a", "regex": "a", "x": 1}}, 31024),
    ({"$regexFind": {"regex": "a"}}, 31022),
    ({"$regexFind": {"input": "a"}}, 31023),
    ({"$regexMatch": {"input": 1, "regex": "a"}}, 51104),
    ({"$regexMatch": {"input": "a", "regex": ["a"]}}, 51105),
    ({"$regexMatch": {"input": "a", "regex": "a", "options": 1}}, 51106),
    ({"$regexMatch": {"input": "a", "regex": Regex("a", "i"), "options": "i"}}, 51107),
    ({"$regexMatch": {"input": "a", "regex": Regex("a", "m"), "options": ""}}, 51107),
    ({"$regexMatch": {"input": "a", "regex": "a", "options": "I"}}, 51108),
    ({"$regexMatch": {"input": "a", "regex": "a\0"}}, 51109),
    ({"$regexMatch": {"input": "a", "regex": "a", "options": "i\0"}}, 51110),
    ({"$regexFindAll": {"input": "a", "regex": "[0-9"}}, 51111),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "code"), ERRORS)
def test_error(spec: Any, code: int) -> None:
    assert_code(spec, DOC, code)


def test_numbers_are_written_as_mongodb_does() -> None:
    texts = {
        "5": Int64(5), "2.5": 2.5, "3": 3.0, "1e+21": 1e21, "1e-07": 1e-7, "0.3": 0.1 + 0.2, "-0": -0.0,
        "1.50": Decimal128("1.50"), "1e+3": Decimal128("1E+3"),
    }  # fmt: skip
    for text, number in texts.items():
        assert evaluate({"$toLower": "$x"}, {"x": number}) == text


LAWS = settings(derandomize=False, print_blob=True, max_examples=60)
TEXTS = st.text("ab é∎\n", max_size=8)


@LAWS
@given(TEXTS, st.text("ab ", min_size=1, max_size=2))
def test_joined_parts_of_a_split_equal_the_text(text: str, separator: str) -> None:
    document = {"t": text, "s": separator}
    assert separator.join(evaluate({"$split": ["$t", "$s"]}, document)) == text
    assert_value({"$replaceAll": {"input": "$t", "find": "$s", "replacement": "$s"}}, document, text)


@LAWS
@given(TEXTS, st.integers(0, 8))
def test_substrings_concatenate_to_the_text(text: str, n: int) -> None:
    document = {"t": text, "n": n}
    halves = [{"$substrCP": ["$t", 0, "$n"]}, {"$substrCP": ["$t", "$n", {"$strLenCP": "$t"}]}]
    assert_value({"$concat": halves}, document, text)
    assert_value({"$substrBytes": ["$t", 0, {"$strLenBytes": "$t"}]}, document, text)
