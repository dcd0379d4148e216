"""Compare the events of a sink with those of the source."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.resume_token import cluster_time_of
from tailrace.pipeline.verifying.faults import Example, FaultKind, Report, first_difference


class Order(StrEnum):
    """In which order a sink has to have its events."""

    TOTAL = "total"
    KEY = "key"
    """Those of each document in order."""
    NONE = "none"


class FoundEvent(NamedTuple):
    """An event of a sink; ``raw`` is None if the sink stores tokens alone."""

    token: str
    raw: bytes | None


class _Known(NamedTuple):
    place: int
    digest: bytes | None


def check_events(
    expected: Callable[[str, str], Iterable[bytes]],
    found: Callable[[], Iterable[FoundEvent]],
    order: Order = Order.TOTAL,
) -> Report:
    """Compare; ``expected`` returns the source's events between the least and the greatest token of the sink.

    ``found`` reads the sink, twice if something differs. The memory for each event of the sink is that of its
    token and of a digest.
    """
    report = Report()
    known: dict[str, _Known] = {}
    for place, event in enumerate(found()):
        if event.token in known:
            report.add(FaultKind.DOUBLED, Example(event.token, None, event.raw))
        else:
            known[event.token] = _Known(place, None if event.raw is None else _digest(event.raw))
    places: list[tuple[int, str, bytes]] = []
    previous: bytes | None = None
    tokens = [token for token in known if _is_token(token)]
    for raw in expected(min(tokens, default=""), max(tokens, default="")):
        report.compared += 1
        token = token_of(raw)
        there = known.pop(token, None)
        if there is None:
            before = () if previous is None else (previous,)
            report.add(FaultKind.MISSING, Example(token, raw, None, before=before))
        else:
            places.append((there.place, token, raw))
            if there.digest is not None and there.digest != _digest(raw):
                report.add(FaultKind.DIFFERENT, Example(token, raw, None))
        previous = raw
    for token in known:
        report.add(FaultKind.UNEXPECTED, Example(token, None, None))
    _check_order(report, places, order)
    _explain(report, found)
    return report


def _explain(report: Report, found: Callable[[], Iterable[FoundEvent]]) -> None:
    """Add what the sink has to the examples, by reading it once more."""
    wanted = {
        example.name: kind
        for kind, example in report.examples.items()
        if kind in (FaultKind.DIFFERENT, FaultKind.UNEXPECTED)
    }
    for event in found() if wanted else ():
        kind = wanted.pop(event.token, None)
        if kind is None or event.raw is None:
            continue
        example = report.examples[kind]
        path = None if example.expected is None else first_difference(example.expected, event.raw)
        report.examples[kind] = replace(example, found=event.raw, path=path)


def _is_token(text: str) -> bool:
    try:
        return cluster_time_of(text) > 0
    except CommandError:
        return False


def token_of(raw: bytes) -> str:
    """The text of an event's token; empty if it has none."""
    found = rawbson.subdocument(raw, b"_id") or rawbson.EMPTY
    return rawbson.text(found, rawbson.find(found, b"_data")) or ""


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()


def _check_order(report: Report, places: list[tuple[int, str, bytes]], order: Order) -> None:
    """The fewest events that have to be moved so that the rest is in order."""
    if order is Order.NONE:
        return
    groups: dict[bytes, list[tuple[int, str, bytes]]] = {}
    for one in places:
        key = b"" if order is Order.TOTAL else rawbson.subdocument(one[2], b"documentKey") or b""
        groups.setdefault(key, []).append(one)
    for group in groups.values():
        stays = set(_longest_rise([place for place, _, _ in group]))
        for place, token, raw in group:
            if place not in stays:
                report.add(FaultKind.REORDERED, Example(token, raw, None))


def _longest_rise(numbers: list[int]) -> Iterator[int]:
    """The longest sequence of ascending numbers, in reverse.

    >>> list(_longest_rise([3, 0, 1, 2, 4]))
    [4, 2, 1, 0]
    """
    ends: list[int] = []
    at: list[int] = []
    before: list[int | None] = []
    for place, number in enumerate(numbers):
        length = bisect_left(ends, number)
        if length == len(ends):
            ends.append(number)
            at.append(place)
        else:
            ends[length] = number
            at[length] = place
        before.append(at[length - 1] if length else None)
    place_or_none = at[-1] if at else None
    while place_or_none is not None:
        yield numbers[place_or_none]
        place_or_none = before[place_or_none]
