"""A stream cut into intervals, planned as on Spark, shows what the local engine shows of the whole oplog.

Without Spark: intervals are planned and run in Python, so that many histories and cuts can be tried.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tailrace.bson import documents as bsondocs
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.interval import Interval as BuiltInterval
from tailrace.events.layout.token import token_text
from tailrace.events.resume_token import CURRENT_VERSION, ResumeToken
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.bulk.kernel import VARIABLE
from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.build import build
from tailrace.pipeline.streams.event_block import EventBlock
from tailrace.pipeline.streams.event_source import EventSource
from tailrace.pipeline.streams.history_events import HistoryEvents
from tailrace.pipeline.streams.history_run import shows_blocks
from tailrace.pipeline.streams.oplog_events import OplogEvents
from tailrace.pipeline.streams.planning import StreamPlanner, rows_of
from tailrace.pipeline.streams.row_condition import ALL_ROWS, RowCondition
from tailrace.pipeline.streams.stream_spec import StreamSpec, goes_on_after
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.planning import Planner
from tests.lake.bulk_comparison import KERNELS
from tests.laws.law_seeds import BASE_SEED
from tests.support.choices import any_filter, any_stream
from tests.support.history import History, dump
from tests.support.seeds import check_histories
from tests.support.streams import Stream, operation_type, token_of

SEEDS = range(BASE_SEED, BASE_SEED + 20)


class SampleFiles(FilesSource):
    """A history's oplogs as files, cut anywhere; what streams look up comes from the history itself."""

    def __init__(self, history: History, shards: dict[str, list[str]]) -> None:
        super().__init__(shards)
        self._history = history

    def lookups(self, shard: str, after: int, through: int) -> Lookups:
        found = super().lookups(shard, after, through)
        return Lookups(found.entry, self._history.pre_image, self._history.document)

    def split(self, after: int, through: int, parts: int) -> list[int]:
        times = [time for time in self._history.timestamps if after < time < through]
        return sorted(random.Random(self._history.seed).sample(times, min(parts - 1, len(times))))


class SampleEvents(OplogEvents):
    """The events of such files."""

    def __init__(self, files: SampleFiles) -> None:
        super().__init__(files, is_archive=True)
        self.files = files


@contextmanager
def events_source(history: History, logs: Sequence[Sequence[bytes]]) -> Iterator[SampleEvents]:
    """The logs as a source of events."""
    shards = {}
    with TemporaryDirectory() as folder:
        for number, log in enumerate(logs):
            path = Path(folder, f"oplog{number}.bson")
            path.write_bytes(dump(log))
            shards["" if len(logs) == 1 else f"shard{number}"] = [str(path)]
        yield SampleEvents(SampleFiles(history, shards))


def history_source(folder: Path, source: SampleFiles) -> HistoryEvents:
    """The same events as a table of two commits."""
    table = HistoryTable.create(folder, identity=source.identity(), begins=0)
    through = source.promised()
    for after, end in pairwise([0, *Planner(source).cuts(0, through, 2), through]):
        commit(table, build(source, BuiltInterval(after, end), folder).files, after=after, through=end)
        table.refresh()
    return HistoryEvents(str(folder))


def shown(stream: Stream, source: EventSource, parts: int, condition: RowCondition = ALL_ROWS) -> list[bytes]:
    """What all intervals show together."""
    spec = StreamSpec.of(stream.scope, stream.spec, stream.pipeline, raw_data=stream.raw_data)
    planner = StreamPlanner(spec, source)
    after = source.earliest()
    if planner.start is not None:
        planner.check_start(planner.start)
        after = max(planner.start - 1, 0)
    through = source.promised()
    ended = planner.end(after, through)
    intervals = planner.intervals(
        after,
        through if ended is None else ended,
        parts,
        has_resumed=not planner.is_after_event,
        finds_event=planner.finds_event(),
        condition=condition,
    )
    found: list[bytes] = []
    for each in intervals:
        for some in rows_of(spec, source, each, condition):
            rows = list(some)
            found += [row.raw for row in rows]
            tokens = [bsondocs.decode(row.raw)["_id"]["_data"].encode() for row in rows]
            assert [token_text(row.token_document) for row in rows] == tokens
    return found


def intervals_show_the_whole(history: History) -> None:
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    logs = history.split(rng.choice((1, 1, 3)), history.seed)
    with events_source(history, logs) as source:
        events = stream.events(logs)
        assert shown(stream, source, 1) == events
        assert shown(stream, source, rng.choice((2, 5, 50))) == events
        filtered = Stream(
            history, stream.scope, stream.spec, [{"$match": any_filter(events, rng)}], stream.raw_data
        )
        assert shown(filtered, source, 7) == filtered.events(logs)
        for event in rng.sample(events, min(4, len(events))):
            resumed = stream.after(token_of(event))
            assert shown(resumed, source, 5) == resumed.events(logs), operation_type(event)
        if "updateLookup" not in stream.spec.values() and not stream.raw_data:
            with TemporaryDirectory() as folder:
                table = history_source(Path(folder), source.files)
                assert shown(stream, table, 4) == events
                for event in rng.sample(events, min(2, len(events))):
                    resumed = stream.after(token_of(event))
                    assert shown(resumed, table, 2) == resumed.events(logs), operation_type(event)
        without = Stream(
            history, stream.scope, stream.spec, [{"$match": {"operationType": "none"}}], stream.raw_data
        )
        assert shown(without, source, 3) == []


def test_intervals_show_what_the_whole_oplog_shows() -> None:
    check_histories(SEEDS, intervals_show_the_whole)


RELEASES = ("6.0.27", "7.0.0", "8.2.1", "8.3.0")


def blocks_show_what_objects_show(history: History) -> None:
    """Changes that are shown as stored, many at a time, are those that a stream shows one by one."""
    rng = random.Random(history.seed)
    scope = any_stream(history, rng).scope
    logs = history.split(rng.choice((1, 3)), history.seed)
    with events_source(history, logs) as source, TemporaryDirectory() as folder:
        table = history_source(Path(folder), source.files)
        for version in RELEASES:
            release = StreamRelease.parse(version)
            options = {"showExpandedEvents": True} if rng.random() < 0.5 else {}
            spec = StreamSpec.of(scope, options, release=release)
            plan = goes_on_after(spec.open(), 0)
            assert shows_blocks(plan)
            through = source.promised()
            ended = StreamPlanner(spec, source).end(0, through) or through
            for each in (source, table):
                expected = [row.raw for rows in each.run(plan, 0, ended).rows() for row in rows]
                found: list[bytes] = []
                for rows in each.run(plan, 0, ended).blocks():
                    assert isinstance(rows, EventBlock)
                    found += [row.raw for row in rows]
                assert found == expected, version


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_of_any_release_show_what_its_streams_show(
    kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, kernel)
    check_histories(SEEDS[:4], blocks_show_what_objects_show)


def newer_tokens_stay(history: History) -> None:
    """Tokens of a stream of 6.0 that a newer token has resumed are of that version to its end."""
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    logs = history.split(1, history.seed)
    with events_source(history, logs) as source, TemporaryDirectory() as folder:
        table = history_source(Path(folder), source.files)
        through = source.promised()
        release = StreamRelease.parse("6.0.27")
        mark = {"_data": ResumeToken.high_water_mark(1, CURRENT_VERSION).data}
        spec = StreamSpec.of(stream.scope, {"resumeAfter": mark}, release=release)
        for each in (source, table):
            for parts in (1, 4):
                events = _of_intervals(spec, each, through, parts)
                assert events
                tokens = [ResumeToken.parse(bsondocs.encode(token_of(event))) for event in events]
                assert {token.version for token in tokens} == {CURRENT_VERSION}


def _of_intervals(spec: StreamSpec, source: EventSource, through: int, parts: int) -> list[bytes]:
    planner = StreamPlanner(spec, source)
    end = planner.end(0, through) or through
    intervals = planner.intervals(0, end, parts, has_resumed=True, finds_event=True)
    return [row.raw for each in intervals for some in rows_of(spec, source, each) for row in some]


def test_newer_tokens_stay_in_all_intervals() -> None:
    check_histories(SEEDS[:4], newer_tokens_stay)


def any_condition(events: Sequence[bytes], rng: random.Random) -> RowCondition:
    """A condition that some of the events meet, often."""
    sample = bsondocs.decode(rng.choice(events))
    names = sample.get("ns") or {}
    time, wall = from_timestamp(sample["clusterTime"]), int(sample["wallTime"])
    parts: dict[str, Any] = {
        "operations": frozenset({sample["operationType"], rng.choice(("insert", "delete", "drop"))}),
        "databases": frozenset({names.get("db", "")}),
        "collections": frozenset({names.get("coll", ""), "other"}),
        "after": time - rng.choice((1, 1 << 32)),
        "through": time + rng.choice((0, 1 << 32)),
        "first_wall": wall - rng.choice((0, 1000)),
        "last_wall": wall + rng.choice((0, 1000)),
    }
    return RowCondition(**{name: parts[name] for name in parts if rng.random() < 0.3})


def meets(raw: bytes, condition: RowCondition) -> bool:
    event = bsondocs.decode(raw)
    names = event.get("ns") or {}
    known = (
        (event["operationType"], condition.operations),
        (names.get("db"), condition.databases),
        (names.get("coll"), condition.collections),
    )
    return (
        all(wanted is None or name in wanted for name, wanted in known)
        and condition.after < from_timestamp(event["clusterTime"]) <= condition.through
        and condition.first_wall <= int(event["wallTime"]) <= condition.last_wall
    )


def conditions_leave_out_rows(history: History) -> None:
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    logs = history.split(rng.choice((1, 3)), history.seed)
    events = stream.events(logs)
    if not events or "updateLookup" in stream.spec.values() or stream.raw_data:
        return
    with events_source(history, logs) as source, TemporaryDirectory() as folder:
        table = history_source(Path(folder), source.files)
        starts = [stream, *[stream.after(token_of(event)) for event in rng.sample(events, 1)]]
        for each in starts:
            for _ in range(4):
                condition = any_condition(events, rng)
                expected = [raw for raw in each.events(logs) if meets(raw, condition)]
                assert shown(each, source, 3, condition) == expected, condition
                assert shown(each, table, 3, condition) == expected, condition


def test_rows_that_do_not_meet_a_condition_are_left_out() -> None:
    check_histories(SEEDS[:8], conditions_leave_out_rows)


def a_lost_resume_event_fails(history: History) -> None:
    """A filter hides the event to resume after: 280 as soon as something follows, in whichever interval."""
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    events = stream.events()
    names = sorted({operation_type(event) for event in events} - {"invalidate"})
    if len(names) < 2:
        return
    hidden = rng.choice(names)
    chosen = next(event for event in events if operation_type(event) == hidden)
    pipeline = [{"$match": {"operationType": {"$ne": hidden}}}]
    resumed = Stream(history, stream.scope, stream.after(token_of(chosen)).spec, pipeline, stream.raw_data)
    outcome = resumed.run()
    with events_source(history, [history.entries]) as source:
        if outcome.error is None:
            assert shown(resumed, source, 5) == outcome.events
        else:
            with pytest.raises(CommandError) as caught:
                shown(resumed, source, 5)
            assert caught.value.code == outcome.error.code == 280


def test_a_resume_event_that_is_filtered_out() -> None:
    check_histories(SEEDS, a_lost_resume_event_fails)
