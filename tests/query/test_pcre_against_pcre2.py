"""The translation of patterns finds what PCRE2 finds, for random patterns and texts."""

import random
from typing import Any

import pcre2  # type: ignore[import-untyped]
import pytest

from tailrace.errors import CommandError
from tailrace.query.pcre import compile_pattern

FLAGS = {"i": pcre2.IGNORECASE, "m": pcre2.MULTILINE, "s": pcre2.DOTALL, "x": pcre2.VERBOSE}
PIECES = [
    "a", "b", "A", "é", "K", "k", "s", "i", "I", "ß", "\u0130", "\u0131", "\u017f", "1", "_", " ", "#", "\n",
    "-", ".", "\\d", "\\w", "\\s", "\\W", "\\D", "\\S", "\\h", "\\v", "\\R", "\\N", "\\n", "\\x41", "\\xe9",
    "\\101", "\\Qa.\\E", "\\p{L}", "[ab]", "[^a]", "[a-c]", "[i-k]", "[^h-z]", "[\\w-]", "[[:alpha:]]",
    "[^\\s]", "[[:^digit:]x]", "[\\p{L}-]", "\\p{Greek}", "\\P{L}",
]  # fmt: skip
ASSERTIONS = ["^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z", "(?i)", "(?-i)", "(?s)", "(?m)", "(?x)"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{2,}", "{1,2}?", "{1,2}+"]
GROUPS = ["({})", "(?:{})", "(?>{})", "(?i:{})", "(?-i:{})", "(?s:{})", "(?x: {})", "(?m:{})"]
LOOKAHEADS = ["(?={})", "(?!{})"]
LOOKBEHINDS = ["(?<={})", "(?<!{})"]
CHARACTERS = "abAB1_ \n\téÉKk\u212as\u017fSß#-xλΛiI\u0130\u0131\r."
SAMPLES = 400


def pattern(rng: random.Random, depth: int) -> str:
    parts: list[str] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.random()
        if depth and kind < 0.3:
            inner = pattern(rng, depth - 1)
            if rng.random() < 0.3:
                inner += "|" + pattern(rng, depth - 1)
            part = rng.choice(GROUPS).format(inner)
        elif kind < 0.5:
            parts.append(assertion(rng, depth))
            continue
        else:
            part = rng.choice(PIECES)
        parts.append(part + rng.choice(QUANTIFIERS) if rng.random() < 0.3 else part)
    return "".join(parts)


def assertion(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth and kind < 0.3:
        return rng.choice(LOOKAHEADS).format(pattern(rng, depth - 1))
    if kind < 0.5:
        return rng.choice(LOOKBEHINDS).format(rng.choice(PIECES))
    return rng.choice(ASSERTIONS)


def text(rng: random.Random) -> str:
    return "".join(rng.choice(CHARACTERS) for _ in range(rng.randint(0, 10)))


def found(match: Any) -> tuple[tuple[int, int], tuple[str | None, ...]] | None:
    return None if match is None else (match.span(), match.groups())


def code_of(wanted: str, options: str) -> int | None:
    try:
        compile_pattern(wanted, options)
    except CommandError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
)
def test_patterns_find_the_same(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(SAMPLES):
        wanted, options = pattern(rng, 3), rng.choice(["", "", "", "i", "m", "s", "x", "is"])
        flags = pcre2.ASCII
        for letter in options:
            flags |= FLAGS[letter]
        try:
            judge = pcre2.compile(wanted, flags, jit=False)
        except pcre2.PatternError:
            assert code_of(wanted, options) in (None, 51091)
            continue
        # Python's `re` supports fewer lookbehinds than PCRE2.
        if "(?<" in wanted and code_of(wanted, options) == 51091:
            continue
        ours = compile_pattern(wanted, options)
        for sample in [text(rng) for _ in range(8)]:
            assert found(ours.search(sample)) == found(judge.search(sample)), (wanted, options, sample)
            compared += 1
    assert compared > 4 * SAMPLES


def test_patterns_that_some_versions_of_re_fail_on() -> None:
    """`re` of Python 3.11 raises SystemError here."""
    for wanted in ("((a+){1,2}|b?)*+", "((b|a{2,})|a?+)++"):
        for sample in ("aab", "bba", "abab"):
            ours, judge = compile_pattern(wanted, ""), pcre2.compile(wanted, pcre2.ASCII, jit=False)
            match = ours.search(sample)
            assert match is not None
            assert match.span() == judge.search(sample).span()


@pytest.mark.parametrize("wanted", ["(" * depth + "a" + "){1,9}" * depth for depth in (6, 20, 30)])
def test_patterns_that_pcre2_calls_too_large_are_refused(wanted: str) -> None:
    with pytest.raises(pcre2.PatternError, match="too large"):
        pcre2.compile(wanted, jit=False)
    assert code_of(wanted, "") == 51091


@pytest.mark.parametrize("wanted", ["(a{1000}){1000}", "(\\w{1000}){60}", "(?:\\d{3},){1000}", "a{65535}"])
def test_large_repetitions_that_pcre2_accepts_are_accepted(wanted: str) -> None:
    pcre2.compile(wanted, jit=False)
    assert code_of(wanted, "") is None
