"""Resume: after any event, and from any position between events, a stream shows exactly the later events."""

import random
from dataclasses import replace
from typing import Any

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.events.change_event import CLASSIC_TYPES
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.resume_token import ResumeToken
from tests.laws.law_seeds import over_fewer_seeds, over_seeds, over_slow_seeds
from tests.support.choices import any_stream
from tests.support.history import History
from tests.support.seeds import check_histories
from tests.support.streams import cluster_time_of, operation_type, token_of, with_token


def after_every_event(history: History, at_most: int | None = None) -> None:
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    events = stream.events()
    positions = range(len(events))
    for position in rng.sample(positions, min(at_most or len(events), len(events))):
        event = events[position]
        if operation_type(event) == "invalidate":
            rest = stream.resumed(startAfter=token_of(event)).events()
            later = to_timestamp(cluster_time_of(event) + 1)
            assert rest == stream.resumed(startAtOperationTime=later).events()
        else:
            option = rng.choice(("resumeAfter", "startAfter"))
            rest = stream.resumed(**{option: token_of(event)}).events()
            assert rest == events[position + 1 :], (option, position)


def after_some_events(history: History) -> None:
    after_every_event(history, at_most=8)


@over_seeds
def test_a_stream_resumed_after_an_event_shows_exactly_the_later_ones(seeds: range) -> None:
    """Up to eight events of each stream; `make test-slow` checks all events of every stream."""
    check_histories(seeds, after_some_events)


@over_slow_seeds
def test_a_stream_resumed_after_every_event_shows_exactly_the_later_ones(seeds: range) -> None:
    check_histories(seeds, after_every_event)


def from_positions(history: History) -> None:
    """Resume from the positions between batches: tokens of events, and high-water marks."""
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    outcome = stream.run(batch_size=1, track=True)
    if outcome.invalidated:
        del outcome.positions[-1]  # the invalidation's token: see `after_every_event`
    for count, position in rng.sample(outcome.positions, min(6, len(outcome.positions))):
        option = rng.choice(("resumeAfter", "startAfter"))
        rest = stream.resumed(**{option: bsondocs.decode(position)}).events()
        assert rest == outcome.events[count:], (option, position)


@over_fewer_seeds
def test_a_stream_resumed_from_a_position_shows_exactly_the_later_events(seeds: range) -> None:
    check_histories(seeds, from_positions)


def from_any_time(history: History) -> None:
    """Start at a cluster time, given as a timestamp or as a high-water mark of either version."""
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    events = stream.events()
    for time in rng.sample(history.timestamps, min(3, len(history.timestamps))):
        time += rng.choice((0, 1))
        mark = ResumeToken.high_water_mark(time, rng.choice((1, 2))).to_bson()
        expected = [event for event in events if cluster_time_of(event) >= time]
        if not expected and events and operation_type(events[-1]) == "invalidate":
            continue  # the stream ended before this time
        assert stream.resumed(startAtOperationTime=to_timestamp(time)).events() == expected
        assert stream.resumed(resumeAfter=bsondocs.decode(mark)).events() == expected


@over_fewer_seeds
def test_a_stream_started_at_a_time_shows_the_events_at_it_and_later(seeds: range) -> None:
    check_histories(seeds, from_any_time)


def in_version_1(event: bytes) -> bytes:
    """Return the event's token in the format of older servers."""
    token = ResumeToken.parse(rawbson.subdocument(event, b"_id") or b"")
    is_classic = operation_type(event) in CLASSIC_TYPES
    identifier = rawbson.subdocument(event, b"documentKey") if is_classic else token.identifier
    return replace(token, version=1, identifier=identifier).to_bson()


def after_old_tokens(history: History) -> None:
    """Resume with a token of version 1; the later events have tokens of version 2."""
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    events = stream.events()
    for position in rng.sample(range(len(events)), min(4, len(events))):
        event = events[position]
        if operation_type(event) == "invalidate":
            continue
        old = in_version_1(event)
        rest = stream.resumed(resumeAfter=bsondocs.decode(old)).events()
        assert rest == [
            with_token(later, in_version_1(later)) if is_of_same_operation(later, event) else later
            for later in events[position + 1 :]
        ]


def is_of_same_operation(later: bytes, event: bytes) -> bool:
    """Return whether `later` is the invalidation that `event` caused."""
    return operation_type(later) == "invalidate" and cluster_time_of(later) == cluster_time_of(event)


@over_fewer_seeds
def test_a_stream_resumed_with_a_token_of_version_1_shows_tokens_of_version_2(seeds: range) -> None:
    check_histories(seeds, after_old_tokens)


def across_shards(history: History) -> None:
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    logs = history.split(3, history.seed)
    events = stream.events()
    for position in rng.sample(range(len(events)), min(2, len(events))):
        resumed = stream.after(token_of(events[position]))
        merged = resumed.run(logs, batch_size=rng.choice((1, 5, None)))
        assert merged.error is None
        assert merged.events == resumed.events()


@over_fewer_seeds
def test_a_merge_of_three_shards_resumes_like_one_log(seeds: range) -> None:
    check_histories(seeds, across_shards)


def through_a_filter(history: History) -> None:
    """Resume a stream with user stages after events that it shows."""
    rng = random.Random(history.seed)
    stages: list[dict[str, Any]] = [
        {
            "$match": {
                "operationType": {"$in": rng.sample(["insert", "update", "delete", "drop", "rename"], 3)}
            }
        },
        {"$project": {"fullDocument": 0}},
    ]
    stream = replace(any_stream(history, rng), pipeline=stages[: rng.choice((1, 2))])
    events = stream.events()
    for position in rng.sample(range(len(events)), min(3, len(events))):
        assert stream.after(token_of(events[position])).events() == events[position + 1 :]


@over_fewer_seeds
def test_a_filtered_stream_resumes_after_every_event_it_shows(seeds: range) -> None:
    check_histories(seeds, through_a_filter)
