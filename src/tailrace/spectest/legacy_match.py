"""The match function of the legacy format: expected is a subset of actual, and 42 matches anything."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.spectest.outcome import Mismatch

ANYTHING: Final = (42, "42")


def check_match(expected: Any, actual: Any, place: str = "it") -> None:
    """Raise `Mismatch` unless ``actual`` matches ``expected``.

    >>> check_match({"a": [42, {"b": "x"}]}, {"a": [None is None, {"b": "x", "c": 1}], "d": 2})
    >>> check_match({"a": 1}, {"a": 2})
    Traceback (most recent call last):
    tailrace.spectest.outcome.Mismatch: it.a is 2, not 1
    """
    if not isinstance(expected, bool) and expected in ANYTHING:
        if actual is None:
            raise Mismatch(f"{place} is missing")
    elif isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            raise Mismatch(f"{place} is {actual!r}, not a document")
        for name, value in expected.items():
            check_match(value, actual.get(name), f"{place}.{name}")
    elif isinstance(expected, list):
        if not isinstance(actual, Sequence) or isinstance(actual, str | bytes):
            raise Mismatch(f"{place} is {actual!r}, not an array")
        if len(actual) < len(expected):
            raise Mismatch(f"{place} has {len(actual)} elements, not {len(expected)}")
        for index, value in enumerate(expected):
            check_match(value, actual[index], f"{place}[{index}]")
    elif isinstance(expected, bool) != isinstance(actual, bool) or expected != actual:
        raise Mismatch(f"{place} is {actual!r}, not {expected!r}")
