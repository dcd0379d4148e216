"""PCRE patterns: what they find, and which are refused."""

import itertools
import re

import pytest
from bson import Regex
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson.regex_parts import regex_options, regex_pattern
from tailrace.errors import CommandError
from tailrace.query.pcre import compile_pattern
from tailrace.query.pcre.limits import LimitedPattern

# (pattern, options, texts found, texts not found)
CASES: list[tuple[str, str, list[str], list[str]]] = [
    ("", "", ["", "a"], []),
    ("b", "", ["abc"], ["ac", "B"]),
    ("^b", "", ["bc"], ["abc", "a\nb"]),
    ("c$", "", ["abc", "abc\n"], ["abcd", "c\n\n"]),
    ("a.c", "", ["abc", "a\rc"], ["a\nc"]),
    ("a.c", "s", ["abc", "a\nc"], []),
    ("ABC", "i", ["abc", "xAbC"], ["ab"]),
    ("äÖ", "i", ["ÄÖ", "äö"], ["ao"]),
    ("^b$", "m", ["a\nb\nc", "b"], ["ab"]),
    ("^$", "m", ["", "a\n\nb"], ["a\n", "a"]),
    ("a b # c", "x", ["ab"], ["a b"]),
    ("a\\ b[ ]c", "x", ["a b c"], ["ab c"]),
    ("a #x\nb", "x", ["ab"], ["a"]),
    ("a +", "x", ["aa"], ["b"]),
    ("a", "u", ["a"], ["A"]),
    ("A b", "ix", ["aB"], ["a b"]),
    # Alternatives and groups
    ("a|b", "", ["a", "b"], ["c"]),
    ("^(a|)$", "", ["a", ""], ["b"]),
    ("(a)(b)\\2\\1", "", ["abba"], ["abab"]),
    ("(?<x>a)\\k<x>", "", ["aa"], ["ab"]),
    ("(?'x'a)\\k'x'", "", ["aa"], ["ab"]),
    ("(?P<x>a)(?P=x)", "", ["aa"], ["ab"]),
    ("(?<x>a)\\k{x}\\g{x}", "", ["aaa"], ["aa"]),
    ("(a)(b)\\g{-1}\\g1", "", ["abba"], ["abab"]),
    ("(?>a+)b", "", ["aab"], ["aa"]),
    ("^(?>a+)a", "", [], ["aaa"]),
    ("a(?#comment)b", "", ["ab"], ["a"]),
    ("(?:ab)+$", "", ["abab"], ["aba"]),
    ("a(?=b)", "", ["ab"], ["ac"]),
    ("a(?!b)", "", ["ac", "a"], ["ab"]),
    ("(?<=a|bc)d", "", ["ad", "bcd"], ["cd"]),
    ("(?<!a|bc)d", "", ["d", "cd"], ["ad", "bcd"]),
    ("(*pla:a)ab", "", ["ab"], ["b"]),
    ("(*nlb:a)b", "", ["b", "cb"], ["ab"]),
    ("(*atomic:a+)a", "", [], ["aaa"]),
    ("^(a)?(?(1)b|c)$", "", ["ab", "c"], ["b", "ac"]),
    ("^(?<n>a)?(?(<n>)b|c)$", "", ["ab", "c"], ["b"]),
    ("^(?<n>a)?(?(n)b)$", "", ["ab", ""], ["b"]),
    ("^(a)?(?(-1)b|c)$", "", ["ab", "c"], ["b"]),
    ("^(?(?=a)ab|c)$", "", ["ab", "c"], ["a", "b"]),
    ("(((((((((((a)))))))))))\\11", "", ["aa"], ["a"]),
    ("(((((((((a)))))))))\\101", "", ["aA"], ["aa"]),
    ("(?=a)*b", "", ["b"], ["a"]),
    # Options inside
    ("a(?i)b", "", ["ab", "aB"], ["AB"]),
    ("(?i)a", "", ["A"], ["b"]),
    ("a(?i)b|c", "", ["aB", "C"], ["AB"]),
    ("(?i:a)b", "", ["Ab", "ab"], ["aB"]),
    ("(?-i:a)b", "i", ["aB"], ["Ab"]),
    ("(a(?i)b)c", "", ["aBc"], ["aBC"]),
    ("a(?-i)b", "i", ["Ab"], ["AB"]),
    ("(?s)a.b", "", ["a\nb"], ["ab"]),
    ("(?s).(?-s).", "", ["\na"], ["\n\n"]),
    ("(?m)^b", "", ["a\nb"], ["ab"]),
    ("(?x) a b", "", ["ab"], ["a b"]),
    ("(?xx)[a b]c", "", ["ac", "bc"], [" c"]),
    ("(?n)(a)b", "", ["ab"], ["b"]),
    ("(?U)^(a+)(a*)$", "", ["aaa"], ["b"]),
    ("(?^)a", "i", ["a"], ["A"]),
    # Quantifiers
    ("^a{2}$", "", ["aa"], ["a", "aaa"]),
    ("^a{2,}$", "", ["aa", "aaaa"], ["a"]),
    ("^a{1,2}$", "", ["a", "aa"], ["", "aaa"]),
    ("^a{,2}$", "", ["a{,2}"], ["a", ""]),
    ("^a{x}$", "", ["a{x}"], ["a"]),
    ("^{$", "", ["{"], []),
    ("^a*+a", "", [], ["aaa"]),
    ("^a++b", "", ["aab"], ["aa"]),
    ("^a?+a", "", ["aa"], ["a"]),
    ("^a{1,2}+a", "", ["aaa"], ["aa"]),
    ("^a+?b", "", ["aab"], ["b"]),
    ("^(?:^)*a", "", ["a"], ["b"]),
    ("^*a", "", ["ba", "a"], ["b"]),
    # Escapes
    ("\\d", "", ["1"], ["a", "\u0662"]),
    ("^\\w+$", "", ["aZ_9"], ["\u00e9"]),
    ("^\\W$", "i", ["\u00e9", "\u212a"], ["k", "_"]),
    ("\\W", "", ["\u00e9", "a\u00e9"], ["k", "_"]),
    ("\\D", "", ["\u0662", "1\u0662"], ["1"]),
    ("\\S", "", ["\xa0", " \u2003"], [" "]),
    ("i", "i", ["I", "i"], ["\u0130", "\u0131"]),
    ("^[a-z]$", "i", ["I", "i", "\u212a"], ["\u0130", "\u0131"]),
    ("^[^i]$", "i", ["\u0130", "\u0131", "k"], ["I", "i"]),
    ("^[\u0130\u0131]$", "i", ["\u0130", "\u0131"], ["I", "i"]),
    ("^[\u1f80-\u1f82]$", "i", ["\u1f80", "\u1f89"], ["\u1f83"]),
    ("^\\s+$", "", [" \t\n\x0b\f\r"], ["\xa0", ""]),
    ("\\bfoo\\b", "", ["a foo.", "\u00e9foo"], ["afoo"]),
    ("^\\B$", "", [""], ["a"]),
    ("\\Aa", "", ["ab"], ["b\na"]),
    ("a\\z", "", ["ba"], ["a\n"]),
    ("a\\Z", "", ["ba", "a\n"], ["ab"]),
    ("^\\h$", "", [" ", "\t", "\xa0", "\u3000"], ["\n", "a"]),
    ("^\\H$", "", ["a"], [" "]),
    ("^\\v$", "", ["\x0b", "\u2028"], [" "]),
    ("^\\V$", "", ["a"], ["\x85"]),
    ("^\\N$", "s", ["a"], ["\n\n"]),
    ("^\\R$", "", ["\r\n", "\n", "\x85"], ["a", "\n\r"]),
    ("^\\x41\\x{1F600}\\t$", "", ["A\U0001f600\t"], []),
    ("^\\101\\o{102}\\060$", "", ["AB0"], []),
    ("^\\cA\\e\\a\\f\\0$", "", ["\x01\x1b\x07\x0c\x00"], []),
    ("^\\N{U+e9}$", "", ["\u00e9"], []),
    ("^\\.\\*\\/\\-\\@$", "", [".*/-@"], []),
    ("^\\Qa.b*\\E+$", "", ["a.b*", "a.b**"], ["aab"]),
    ("^\\Qa|b", "", ["a|b"], ["a"]),
    ("^a\\E$", "", ["a"], []),
    ("^a*\\Q+\\E$", "", ["aa+"], ["aa"]),
    ("^\\p{Lu}\\p{Ll}+$", "", ["Über"], ["über"]),
    ("^\\pL\\PL$", "", ["a1"], ["aa"]),
    ("^\\p{^L}$", "", ["1"], ["a"]),
    ("^\\p{Latin}+$", "", ["suárez"], ["박"]),
    ("^\\p{Hangul}+$", "", ["박정수"], ["a"]),
    ("^\\p{greek}\\p{Han}$", "", ["λ漢"], ["a漢"]),
    ("^\\p{Xan}+$", "", ["aé9"], ["_"]),
    ("^\\p{L&}$", "", ["a"], ["漢"]),
    ("(*UTF)(*UCP)^\\w\\d\\s\\b$", "", [], ["é٢\u2003"]),
    ("(*UCP)^\\w\\d$", "", ["é٢"], ["é"]),
    ("(*UCP)^[[:alpha:]][[:digit:]]$", "", ["é٢"], ["1a"]),
    ("(*UCP)\\bé\\b", "", ["a é"], ["aé"]),
    # Classes
    ("^[abc]$", "", ["a"], ["d"]),
    ("^[^abc]$", "", ["d", "\n"], ["a"]),
    ("^[a-c-]$", "", ["-", "b"], ["d"]),
    ("^[]a]$", "", ["]", "a"], ["b"]),
    ("^[^]a]$", "", ["b"], ["]"]),
    ("^[[]$", "", ["["], []),
    ("^[a&&b||c~~[]+$", "", ["a&|b[~c"], ["e"]),
    ("^[\\d_]+$", "", ["1_"], ["a"]),
    ("^[^\\d_]+$", "", ["a"], ["1"]),
    ("^[\\w.]+$", "", ["a.b"], ["-"]),
    ("^[\\w.]$", "i", ["a", "."], ["\u212a", "-"]),
    ("^[^\\w.]$", "i", ["\u212a", "-"], ["a", "."]),
    ("^[^\\W]$", "i", ["a", "K"], ["\u212a"]),
    ("^[kx]$", "i", ["K", "\u212a"], ["a"]),
    ("^[^a]$", "i", ["b"], ["a", "A"]),
    ("^[[:alpha:][:digit:]]+$", "", ["a1"], ["_"]),
    ("^[[:^alpha:]]$", "", ["1"], ["a"]),
    ("^[[:xdigit:]]+$", "", ["fF0"], ["g"]),
    ("^[\\b\\n\\]\\x41-\\x43]+$", "", ["\b\n]B"], ["D"]),
    ("^[\\1\\101]+$", "", ["\x01A"], ["1"]),
    ("^[\\Qa-c]\\E]+$", "", ["a-c]"], ["b"]),
    ("^[\\p{Lu}\\h]+$", "", ["A B"], ["a"]),
    ("^[\\s\\S]$", "", ["\n", "a"], [""]),
    ("^[^\\s\\S]$", "", [], ["\n", "a"]),
    ("^[\\x{100}-\\x{200}]$", "", ["\u0150"], ["a"]),
    # Verbs
    ("(*FAIL)", "", [], ["", "a"]),
    ("a(*F)|b", "", ["b"], ["a"]),
    ("(*ACCEPT)c", "", ["a"], []),
    ("b(*ACCEPT)c", "", ["b"], ["a"]),
    ("(*PRUNE)a", "", ["ba"], ["b"]),
    ("(*SKIP:BAR)a", "", ["a"], ["b"]),
    ("(*THEN)[Bb]", "", ["b"], ["a"]),
    ("(*LIMIT_MATCH=10)(*UTF8)a", "", ["a"], ["b"]),
]


@pytest.mark.parametrize(("pattern", "options", "found", "not_found"), CASES)
def test_finds_what_pcre_finds(pattern: str, options: str, found: list[str], not_found: list[str]) -> None:
    compiled = compile_pattern(pattern, options)
    assert [text for text in found if not compiled.search(text)] == []
    assert [text for text in not_found if compiled.search(text)] == []


@pytest.mark.parametrize(("pattern", "options", "found", "not_found"), CASES)
def test_long_texts_have_the_same_matches(
    pattern: str, options: str, found: list[str], not_found: list[str]
) -> None:
    """The engine for long texts finds the same in the same places as the one for short texts."""
    compiled = compile_pattern(pattern, options)
    if not isinstance(compiled, LimitedPattern):
        return
    for text in found + not_found:
        tail = "\n" * 5000
        whole, longer = compiled.search(text), compiled.search(text + tail)
        if whole is not None and whole.end() < len(text):
            assert longer is not None
            assert (longer.start(), longer.groups()) == (whole.start(), whole.groups())


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 60 + "b"),
        ("(a*)*c", "a" * 100),
        ("(x+x+)+y", "x" * 100),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100),
        ("^(a?){40}b$", "a" * 40),
        ("^" + "a?" * 40 + "b$", "a" * 40),
        ("a*a*a*a*a*a*b", "a" * 2000),
        ("^(.*)*(.*)*(.*)*=$", "a" * 2000),
        ("^(\\w+\\s?)*$", "word " * 30 + "!"),
    ],
)
def test_a_pattern_cannot_keep_the_process_busy(pattern: str, text: str) -> None:
    """`re` would need years for each of these."""
    assert compile_pattern(pattern, "").search(text) is None


def test_a_search_that_takes_too_long_is_stopped() -> None:
    pattern = compile_pattern("^(a|a)*$", "")
    with pytest.raises(CommandError) as caught:
        pattern.search("a" * 60 + "b")
    assert caught.value.code == 51156


def test_searches_that_are_slow_together_are_stopped() -> None:
    """Each of these takes less than a single search may take."""
    searches = itertools.starmap(compile_pattern("^(a|aa)+$", "").search, [("a" * 33 + "b",)] * 300)
    with pytest.raises(CommandError) as caught:
        list(searches)
    assert caught.value.code == 51156


def test_patterns_that_backtrack_refuse_very_long_texts() -> None:
    text = "a" * 3_000_000
    assert compile_pattern("b|aa", "").search(text)
    with pytest.raises(CommandError) as caught:
        compile_pattern("a+[bc]", "").search(text)
    assert caught.value.code == 51156


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("(" * 20 + "a" + "){1,9}" * 20, ""),
        ("(?:(?:a{0,500}){0,500}){0,500}", ""),
        ("\\p{L}" * 5000, ""),
        ("[\\x{100}-\\x{10ffff}]" * 1500, "i"),
    ],
)
def test_patterns_that_take_long_to_compile_are_refused(pattern: str, options: str) -> None:
    with pytest.raises(CommandError) as caught:
        compile_pattern(pattern, options)
    assert caught.value.code == 51091
    assert "regular expression is too large" in caught.value.message


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[", "[a", "[)", "*", "+a", "?", "a**", "a+*", "a{2}{3}", "{2}", "a|*", "(?",
        "(?<", "(?<1a>b)", "(?<a>b", "\\", "a\\", "(?z)", "(?z:a)", "(?J)a", "(?R)", "(?1)", "(a)(?-1)",
        "(a)(?+1)", "(?&n)", "(?P>n)", "(?|(a)|(b))", "(?C1)a", "\\K", "a\\Kb", "\\G", "\\C", "\\X", "\\L",
        "\\u0041", "\\y", "\\1", "(a)\\2", "\\g{2}", "\\g<1>", "\\g{-1}", "\\k<n>", "\\kn", "(?P=n)",
        "\\8", "\\99", "[z-a]", "[\\d-z]", "[a-\\d]", "[[:nope:]]", "[[.a.]]", "[[=a=]]", "[\\R]", "[\\X]",
        "[\\y]", "\\p{Nope}", "\\p", "\\x{110000}", "\\x{D800}", "\\x{zz}", "\\o{9}", "\\N{U+zz}", "\\c",
        "\\cé", "a{65536}", "a{3,2}", "(?<=a+)b", "(?#", "(?(1)a|b|c)", "(a)(?(1)a|b|c)", "(?(R)a)",
        "(?(DEFINE)a)", "(?(?=(a))b)", "(?(?a)b)", "(?<a>x)(?<a>y)", "a(*COMMIT)b", "(*COMMIT)a",
        "(*NOPE)", "a(*PRUNE)b", "(a(*ACCEPT)b)", "(*nope:a)", "(*CR)a", "(?^-i)a", "(?-", "y" * 32765,
        "(" * 3000 + ")" * 3000,
    ],
)  # fmt: skip
def test_refused_patterns(pattern: str) -> None:
    with pytest.raises(CommandError) as caught:
        compile_pattern(pattern, "")
    assert caught.value.code == 51091
    assert repr(pattern[:50])[1:-1] in caught.value.message


@pytest.mark.parametrize("options", ["g", "ig", "l", "I", "\0i", "n"])
def test_refused_options(options: str) -> None:
    with pytest.raises(CommandError) as caught:
        compile_pattern("a", options)
    assert caught.value.code == 51108


def test_long_pattern_is_accepted_up_to_the_limit() -> None:
    assert compile_pattern("^" + "y" * 32763, "").search("y" * 32763)


def test_parts_of_a_bson_regex() -> None:
    regex = Regex(b"a+", "sim")
    assert (regex_pattern(regex), regex_options(regex)) == ("a+", "ims")
    assert regex_options(Regex("a", re.LOCALE | re.UNICODE)) == "lu"


def code_of_search(pattern: str, options: str) -> int | None:
    try:
        compile_pattern(pattern, options).search("aab12")
    except CommandError as error:
        return error.code
    return None


@settings(derandomize=False, print_blob=True)
@given(st.text(max_size=30), st.sampled_from(["", "i", "x", "ms"]))
def test_any_pattern_compiles_or_is_refused(pattern: str, options: str) -> None:
    assert code_of_search(pattern, options) in (None, 51091)


@settings(derandomize=False, print_blob=True)
@given(st.text(alphabet="ab^$.*+?()[]|\\-{}12,ikdwEQ:<>=!#P", max_size=14), st.sampled_from(["", "i", "x"]))
def test_syntax_heavy_patterns_compile_or_are_refused(pattern: str, options: str) -> None:
    assert code_of_search(pattern, options) in (None, 51091)


@settings(derandomize=False, print_blob=True)
@given(st.text(max_size=12))
def test_quoted_text_finds_itself(text: str) -> None:
    if "\\E" in text:
        return
    pattern = f"\\A\\Q{text}\\E\\z"
    if text.endswith("\\"):
        return
    assert compile_pattern(pattern, "").search(text)
