"""`tailrace replay` of a real server's oplog gives the bytes of the server's own streams."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.bson.extjson import dumps_canonical
from tests.oracle.real_server import RealReplicaSet
from tests.oracle.replay.law import Record, difference, recorded, stream_differences
from tests.oracle.replay.real_streams import ON_A_VIEW, is_invalidate
from tests.oracle.replay.replayed import replayed_events, replayed_lines
from tests.oracle.replay.stream_case import Document, Part, StreamCase
from tests.oracle.replay.written_cases import EXPANDED, IMAGES, LOOKUP, SPLIT
from tests.oracle.seeds import SEEDS
from tests.support.client_workload import COLLECTIONS
from tests.support.streams import token_of

OPERATIONS = 60
RANDOM_STREAMS = 60
COMMANDS = 10
NEWER = "8.2.1"
"""A release whose tokens have version 2."""


@pytest.fixture(scope="module", params=SEEDS)
def record(
    request: pytest.FixtureRequest, real_set: RealReplicaSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Record]:
    print("seed", request.param)
    with real_set.client() as client:
        yield recorded(client, request.param, tmp_path_factory.mktemp("record"), OPERATIONS)


def check(found: Sequence[str | None], at_least: int) -> None:
    assert len(found) >= at_least
    different = [one for one in found if one is not None]
    assert not different, f"{len(different)} of {len(found)} streams differ\n" + "\n".join(different)[:20_000]


def difference_of(record: Record, case: StreamCase) -> str | None:
    return difference(case, record.streams.read(case), replayed_events(record.archive, case))


# -- streams ------------------------------------------------------------------------------------------------


def test_streams_with_every_option_are_equal(record: Record) -> None:
    found = stream_differences(record, record.written(), lambda case: replayed_events(record.archive, case))
    check(list(found), 120)


def test_random_streams_are_equal(record: Record) -> None:
    cases = record.drawn(RANDOM_STREAMS)
    found = stream_differences(record, cases, lambda case: replayed_events(record.archive, case))
    check(list(found), RANDOM_STREAMS)


def test_the_command_prints_the_same(record: Record, tmp_path: Path) -> None:
    cases = random.Random(record.seed).sample(record.written(), COMMANDS)
    different = []
    compared = 0
    for number, case in enumerate(cases):
        real = record.streams.read(case)
        if real.error == ON_A_VIEW:
            continue
        lines, code = replayed_lines(record.archive, case, tmp_path / f"{number}.jsonl")
        expected = [dumps_canonical(raw) for raw in real.events]
        compared += 1
        if (lines, code) != (expected, real.error):
            pairs = enumerate(zip(lines, expected, strict=False))
            place = next((number for number, (one, other) in pairs if one != other), "none")
            different.append(f"{case}: first different line {place}, error real {real.error}, ours {code}")
    assert compared
    assert not different, different


# -- resuming -----------------------------------------------------------------------------------------------

STREAMS: Sequence[tuple[Document, list[Document]]] = (
    ({}, []),
    (EXPANDED, []),
    (LOOKUP, [{"$match": {"operationType": {"$ne": "delete"}}}]),
    ({**EXPANDED, **IMAGES}, [SPLIT]),
)


def places(part: Part, rng: random.Random) -> list[Document]:
    """Some positions of a stream: of events, with its invalidation, and of its end."""
    tokens = [token_of(raw) for raw in rng.sample(part.events, min(2, len(part.events)))]
    if part.events and is_invalidate(part.events[-1]):
        tokens.append(token_of(part.events[-1]))
    if part.end is not None:
        tokens.append(bsondocs.decode(part.end))
    return tokens


def test_tokens_of_either_side_resume_on_the_other(record: Record) -> None:
    """Of both versions; with a stage that splits events, and without."""
    rng = random.Random(record.seed)
    found: list[str | None] = []
    versions = set()
    database = record.databases[0]
    for options, stages in STREAMS:
        for name, collection in ((None, None), (database, None), (database, rng.choice(COLLECTIONS))):
            case = StreamCase(name, collection, {**options, "startAtOperationTime": record.start}, stages)
            real = record.streams.read(case)
            newer, _ = replayed_events(record.archive, case, version=NEWER)
            for token in places(real, rng) + places(Part(newer), rng):
                versions.add(token["_data"][18:22])
                for start in ("resumeAfter", "startAfter"):
                    resumed = case.starting(**{start: token})
                    found.append(
                        difference(
                            resumed, record.streams.read(resumed), replayed_events(record.archive, resumed)
                        )
                    )
    assert versions == {"2B02", "2B04"}
    check(found, 50)


# -- large events -------------------------------------------------------------------------------------------


def test_events_above_16_megabytes_are_split_alike(real_set: RealReplicaSet, tmp_path: Path) -> None:
    with real_set.client() as client:
        record = recorded(client, 0, tmp_path, 0, large=9 << 20)
        start = {"startAtOperationTime": record.start}
        database = record.databases[0]
        cases = [
            StreamCase(database, "large", {**options, **start}, stages)
            for options in (LOOKUP, IMAGES, {**EXPANDED, **IMAGES})
            for stages in ([], [SPLIT], [{"$match": {"operationType": "update"}}, SPLIT])
        ]
        found = list(stream_differences(record, cases, lambda case: replayed_events(record.archive, case)))
        split = record.streams.read(cases[4])
        fragments = [raw for raw in split.events if rawbson.find(raw, b"splitEvent") is not None]
        assert len(fragments) == 4
        for raw in fragments:
            for stages in ([SPLIT], []):
                resumed = StreamCase(database, "large", {**IMAGES, "resumeAfter": token_of(raw)}, stages)
                found.append(
                    difference(
                        resumed, record.streams.read(resumed), replayed_events(record.archive, resumed)
                    )
                )
        assert record.streams.read(cases[3]).error == 10334
        check(found, 17)
