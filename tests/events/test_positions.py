"""Cluster times in their forms, and positions as users write them."""

from typing import Any

import pytest
from bson import Timestamp

from tailrace.errors import UsageError
from tailrace.events import cluster_time as times
from tailrace.events.position import Position

LARGEST = 2**32 - 1


@pytest.mark.parametrize(
    ("seconds", "increment"), [(0, 0), (0, 1), (7, 2), (2**31 - 1, LARGEST), (2**31, 0), (LARGEST, LARGEST)]
)
def test_every_form_of_a_cluster_time(seconds: int, increment: int) -> None:
    time = times.cluster_time(seconds, increment)
    assert time == seconds * 2**32 + increment
    assert (times.seconds_of(time), times.increment_of(time)) == (seconds, increment)
    assert times.to_timestamp(time) == Timestamp(seconds, increment)
    assert times.from_timestamp(Timestamp(seconds, increment)) == time
    assert times.to_pair(time) == [seconds, increment]
    assert times.from_pair((seconds, increment)) == time
    assert times.in_words(time) == f"cluster time ({seconds}, {increment})"
    signed = times.as_signed(time)
    assert signed == (time if seconds < 2**31 else time - 2**64)
    assert times.from_signed(signed) == time


def test_times_around_a_second() -> None:
    for milliseconds in (7000, 7001, 7999):
        assert times.before_timestamp(milliseconds) == times.cluster_time(7)
        assert times.through_timestamp(milliseconds) == times.cluster_time(7, LARGEST)
    assert times.before_timestamp(1_700_000_000_500) == times.cluster_time(1_700_000_000)
    assert times.through_timestamp(1_700_000_000_500) == times.cluster_time(1_700_000_001) - 1
    assert times.cluster_time(5) == 5 << 32


@pytest.mark.parametrize("value", [[0, 0], (7, 1), [LARGEST, LARGEST]])
def test_pairs(value: Any) -> None:
    assert times.is_pair(value)


@pytest.mark.parametrize(
    "value", [None, "12", [1], [1, 2, 3], [1, -1], [-1, 1], [1.0, 1], [True, 1], [1, LARGEST + 1], {"a": 1}]
)
def test_other_values_are_no_pairs(value: Any) -> None:
    assert not times.is_pair(value)


def test_a_position_is_read_as_it_is_written() -> None:
    position = Position({"a": times.cluster_time(7, 2), "b": times.cluster_time(3)})
    assert position.to_document() == {"version": 1, "shards": {"a": [7, 2], "b": [3, 0]}}
    assert Position.parse(position.to_json()) == position
    assert Position.of({"shards": {"a": [7, 2]}}).times == {"a": times.cluster_time(7, 2)}
    assert position.earliest == times.cluster_time(3)
    assert Position({}).earliest == 0
    assert position.of_shards(["a", "c"]).times == {"a": times.cluster_time(7, 2), "c": times.cluster_time(3)}
    assert Position.at(["a", "b"], 5).times == {"a": 5, "b": 5}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "must be JSON that looks like"),
        ("[]", "must look like"),
        ("{}", "must look like"),
        ('{"shards": []}', "must look like"),
        ('{"shards": {"a": 5}}', "'a' has 5"),
        ('{"shards": {"a": [5]}}', r"'a' has \[5\]"),
        ('{"version": 2, "shards": {}}', "has version 2, and this release reads version 1"),
    ],
)
def test_positions_that_cannot_be_read(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^the start {sentence}|^the start must.*{sentence}"):
        Position.parse(text, "the start")
