r"""Limits on the time and memory that a pattern can take.

`re` tries every way to match, and nothing else in the process runs meanwhile. MongoDB's engine stops after
ten million steps. Here the number of ways is estimated from the pattern and the length of the text. Where it
could be too large, the `regex` package searches instead: it skips more of the ways, and stops after a time.

>>> estimate(r"^(a+)+$").is_exponential, estimate(r"^abc[*+]\*").is_exponential
(True, False)
>>> estimate(r"a.*b.*c").unbounded
2
"""

import re
import time
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, Protocol, cast

from tailrace.errors import CommandError
from tailrace.pacing import aside, tick
from tailrace.query.pcre.reader import PatternError

TOO_MANY_STEPS: Final = 51156
_TOO_LARGE: Final = "regular expression is too large"

_STEPS: Final = 10_000_000
_SHORT: Final = 12
"""`re` searches texts up to this length, for all patterns."""
_LONG: Final = 2_000_000
"""Longer texts are refused: `regex` checks its time every few hundred steps, and a step can read the text."""
_FEW_CHOICES: Final = 10
_FEW_TIMES: Final = 10
_MOST_SECONDS: Final = 0.5
_LEAST_SECONDS: Final = 0.1
_REFILL: Final = 0.1
_BRIEF_SECONDS: Final = 0.002
"""A search that takes longer is begun again where nobody waits for it."""
_MAX_SIZE: Final = 0xFFFF
"""PCRE's limit for a compiled pattern, in bytes. It compiles a group once for each repetition."""
_MAX_LENGTH: Final = 300_000
"""Characters of a translated pattern; a property such as ``\\p{L}`` has about 5,000."""
_MAX_WIDE_CLASSES: Final = 200
"""Classes with characters above U+00FF: `re` needs milliseconds to compile one of them."""
_SINGLE_SIZE: Final = 2
_GROUP_SIZE: Final = 6

_GROUP: Final = re.compile(r"\((?:\?(?:P<\w+>|\(\w+\)|<?[=!]|>|[a-z]*(?:-[a-z]+)?:))?")
_BACKREFERENCE: Final = re.compile(r"\(\?P=\w+\)")
_QUANTIFIER: Final = re.compile(r"(?:(\*)|(\+)|(\?)|\{(?=[\d,])(\d*)(,?)(\d*)\})[?+]?")
_CLASS: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


class SearchPattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """Return the first match at or after a position."""


class Estimate(NamedTuple):
    """The number of ways to match, as a function of the length of a text, and the size of the pattern."""

    is_exponential: bool
    unbounded: int
    """Repetitions without a limit: each is one more power of the text's length."""
    size: int
    """At most what PCRE would need, in bytes"""
    wide_classes: int


class _Part:
    """A group, or the pattern outside all groups, as far as it was read."""

    __slots__ = ("captures", "has_branches", "items", "size", "varies")

    def __init__(self, captures: bool = False) -> None:
        self.captures = captures
        self.varies = False
        self.has_branches = False
        self.items = 0
        self.size = 0

    @property
    def is_single(self) -> bool:
        return not self.captures and self.items <= 1 and self.size <= _SINGLE_SIZE


class _Allowance:
    """The time that limited patterns may use, for all searches of the process together.

    A search gets what is left, but never less than `_LEAST_SECONDS`: a client that uses everything makes
    slow searches fail, not ordinary ones. A tenth of the time that passes is added.
    """

    def __init__(self) -> None:
        self._left = _MOST_SECONDS
        self._updated = time.monotonic()

    def next_limit(self) -> float:
        now = time.monotonic()
        self._left = min(_MOST_SECONDS, self._left + (now - self._updated) * _REFILL)
        self._updated = now
        return max(_LEAST_SECONDS, self._left)

    def spend(self, seconds: float) -> None:
        self._left = max(0.0, self._left - seconds)


_allowance: Final = _Allowance()


class LimitedPattern:
    """A pattern that can backtrack: `re` searches only texts that are short enough for it."""

    def __init__(self, pattern: re.Pattern[str], estimated: Estimate) -> None:
        self._search = pattern.search
        self._pattern = pattern
        power = int(_STEPS ** (1 / (estimated.unbounded + 1)))
        self._limit = _SHORT if estimated.is_exponential else max(_SHORT, power)

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """See `SearchPattern`; raises `CommandError` if it takes too long."""
        length = len(text) - position
        if length <= self._limit:
            try:
                return self._search(text, position)
            except SystemError:
                pass  # A defect of `re`: groups in possessive and atomic repetitions
        if length > _LONG:
            raise self._too_many_steps()
        tick()
        if "_other_engine" not in self.__dict__:
            aside(lambda: self._other_engine)
        try:
            return self._slow_search(text, position, _BRIEF_SECONDS)
        except TimeoutError:
            pass
        try:
            return aside(partial(self._slow_search, text, position, _allowance.next_limit()))
        except TimeoutError:
            raise self._too_many_steps() from None

    def _slow_search(self, text: str, position: int, seconds: float) -> re.Match[str] | None:
        """Search with the engine that can stop; it releases Python's lock, and raises `TimeoutError`."""
        started = time.perf_counter()
        try:
            return cast("re.Match[str] | None", self._other_engine.search(text, position, timeout=seconds))
        finally:
            _allowance.spend(time.perf_counter() - started)

    def _too_many_steps(self) -> CommandError:
        reason = f"the regular expression {self._pattern.pattern!r} takes too many steps on a text"
        return CommandError(TOO_MANY_STEPS, reason)

    @cached_property
    def _other_engine(self) -> Any:
        # Imported when it is first needed: this takes time, and most processes do not need it.
        import regex  # type: ignore[import-untyped]

        flags = regex.IGNORECASE if self._pattern.flags & re.IGNORECASE else 0
        return regex.compile(self._pattern.pattern, flags)


def compile_limited(translated: str, flags: int) -> SearchPattern:
    """Compile a translated pattern; it is a `LimitedPattern` if a search could take long.

    Raises `PatternError` for a pattern that would take too much time or memory to compile.
    """
    if len(translated) > _MAX_LENGTH:
        raise PatternError(_TOO_LARGE)
    estimated = estimate(translated)
    if estimated.size > _MAX_SIZE or estimated.wide_classes > _MAX_WIDE_CLASSES:
        raise PatternError(_TOO_LARGE)
    pattern = re.compile(translated, flags)
    if estimated.is_exponential or estimated.unbounded:
        return LimitedPattern(pattern, estimated)
    return pattern


def estimate(pattern: str) -> Estimate:
    """Estimate the ways to match (from above) and the size (from below) of a translated pattern.

    The ways are exponential if something that varies is repeated, or if many choices follow each other.
    """
    parts = [_Part()]
    is_exponential, unbounded, choices, wide_classes = False, 0, 0, 0
    position, end = 0, len(pattern)
    while position < end:
        character = pattern[position]
        atom = _Part()
        atom.size = _SINGLE_SIZE
        if character == "(" and (match := _BACKREFERENCE.match(pattern, position)):
            position = match.end()
        elif character == "(":
            match = _GROUP.match(pattern, position)
            assert match is not None
            parts.append(_Part(captures=match[0] == "(" or match[0].startswith("(?P")))
            position = match.end()
            continue
        elif character == "|":
            parts[-1].has_branches = True
            position += 1
            continue
        elif character == ")":
            atom = parts.pop()
            choices += atom.has_branches
            position += 1
        elif character == "[":
            match = _CLASS.match(pattern, position)
            assert match is not None
            position = match.end()
            wide_classes += "\\u" in match[0] or "\\U" in match[0]
        else:
            position += 2 if character == "\\" else 1
        atom.varies = atom.varies or atom.has_branches
        size = atom.size if atom.is_single else atom.size + _GROUP_SIZE
        quantifier = _QUANTIFIER.match(pattern, position)
        if quantifier is not None:
            position = quantifier.end()
            least, most = _times(quantifier)
            is_exponential = is_exponential or (atom.varies and (most is None or most > 1))
            if most is None or most > least + _FEW_TIMES:
                unbounded += 1
            elif most > least:
                choices += 1
            atom.varies = atom.varies or most != least
            # The translation puts single characters into groups that PCRE does not see.
            size = size + _SINGLE_SIZE if atom.is_single else size * max(1, least if most is None else most)
        parts[-1].varies = parts[-1].varies or atom.varies
        parts[-1].items += 1
        parts[-1].size += size
    return Estimate(is_exponential or choices > _FEW_CHOICES, unbounded, parts[0].size, wide_classes)


def _times(quantifier: re.Match[str]) -> tuple[int, int | None]:
    """Return how often something is repeated, at least and at most."""
    star, plus, question, least, comma, most = quantifier.groups()
    if star or plus:
        return (0 if star else 1), None
    if question:
        return 0, 1
    smallest = int(least or 0)
    if not comma:
        return smallest, smallest
    return smallest, int(most) if most else None
