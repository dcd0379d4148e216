r"""Patterns that could backtrack without end, and how they are kept from it.

`re` tries every way to match, however many there are, and nothing else in the process runs meanwhile. PCRE
gives up after ten million steps. Here the number of ways is estimated from the pattern and the length of the
text; where it could be too large another engine searches, which knows better and gives up after a time.

>>> ways_to_match(r"^(a+)+$"), ways_to_match(r"^abc[*+]\*")
(Ways(is_exponential=True, unbounded=2), Ways(is_exponential=False, unbounded=0))
>>> ways_to_match(r"a.*b.*c")
Ways(is_exponential=False, unbounded=2)
"""

import re
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, cast

from tailrace.errors import CommandError

TOO_MANY_STEPS: Final = 51156

_SECONDS: Final = 0.5
_STEPS: Final = 10_000_000
_SHORT: Final = 12
"""Texts up to this length are searched by `re`, whatever the pattern is."""
_FEW_CHOICES: Final = 10
_FEW_TIMES: Final = 10
_QUANTIFIER: Final = re.compile(r"(?:(\*)|(\+)|(\?)|\{(?=[\d,])(\d*)(,?)(\d*)\})[?+]?")
_CLASS: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


class Searching(Protocol):
    """What can look for a pattern in a text."""

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """The first match from a position on."""


class Ways(NamedTuple):
    """How the number of ways to match grows with the length of a text."""

    is_exponential: bool
    unbounded: int
    """Repetitions without a limit: the text's length to the power of this number, one more if it is sought"""


class _Group:
    """What was read of a group, or of the pattern outside of all groups."""

    __slots__ = ("has_branches", "varies")

    def __init__(self) -> None:
        self.varies = False
        self.has_branches = False


class PatientPattern:
    """A pattern with repetitions: `re` searches texts that are short enough for it."""

    def __init__(self, pattern: re.Pattern[str], ways: Ways) -> None:
        self._search = pattern.search
        self._pattern = pattern
        power = int(_STEPS ** (1 / (ways.unbounded + 1)))
        self._limit = _SHORT if ways.is_exponential else max(_SHORT, power)

    def search(self, text: str, position: int = 0, /) -> re.Match[str] | None:
        """See `Searching`; raises `CommandError` if it takes too long."""
        if len(text) - position <= self._limit:
            return self._search(text, position)
        try:
            return cast("re.Match[str] | None", self._patient.search(text, position, timeout=_SECONDS))
        except TimeoutError:
            reason = f"the regular expression {self._pattern.pattern!r} takes too many steps on a text"
            raise CommandError(TOO_MANY_STEPS, reason) from None

    @cached_property
    def _patient(self) -> Any:
        # It takes time to load, and most processes never need it.
        import regex  # type: ignore[import-untyped]

        flags = regex.IGNORECASE if self._pattern.flags & re.IGNORECASE else 0
        return regex.compile(self._pattern.pattern, flags)


def guarded(pattern: re.Pattern[str]) -> Searching:
    """The pattern itself if it cannot take long, else one that is kept from it."""
    ways = ways_to_match(pattern.pattern)
    if ways.is_exponential or ways.unbounded:
        return PatientPattern(pattern, ways)
    return pattern


def ways_to_match(pattern: str) -> Ways:
    """Estimate from above how many ways there are; the pattern is one that `re` takes.

    It is exponential if something that varies is repeated, or if there are many choices one after the other.
    """
    open_groups = [_Group()]
    is_exponential, unbounded, choices = False, 0, 0
    position, end = 0, len(pattern)
    while position < end:
        character = pattern[position]
        atom = _Group()
        if character == "(":
            open_groups.append(atom)
            position += 1 + pattern.startswith("(?", position)
            continue
        if character == "|":
            open_groups[-1].has_branches = True
            position += 1
            continue
        if character == ")":
            atom = open_groups.pop()
            choices += atom.has_branches
            position += 1
        elif character == "[":
            match = _CLASS.match(pattern, position)
            position = match.end() if match is not None else end
        else:
            position += 2 if character == "\\" else 1
        atom.varies = atom.varies or atom.has_branches
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
        open_groups[-1].varies = open_groups[-1].varies or atom.varies
    return Ways(is_exponential or choices > _FEW_CHOICES, unbounded)


def _times(quantifier: re.Match[str]) -> tuple[int, int | None]:
    """How often something is repeated, at least and at most."""
    star, plus, question, least, comma, most = quantifier.groups()
    if star or plus:
        return (0 if star else 1), None
    if question:
        return 0, 1
    smallest = int(least or 0)
    if not comma:
        return smallest, smallest
    return smallest, int(most) if most else None
