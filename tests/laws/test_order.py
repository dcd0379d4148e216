"""Order: tokens strictly increase as bytes, and a merge of shards gives the events of the unsplit log."""

import random
from itertools import pairwise

from tailrace.bson import documents as bsondocs
from tests.laws.law_seeds import over_seeds
from tests.support.choices import any_stream
from tests.support.history import History
from tests.support.seeds import check_histories
from tests.support.streams import token_of


def increasing_tokens(history: History) -> None:
    stream = any_stream(history, random.Random(history.seed))
    outcome = stream.run(batch_size=3, track=True)
    assert outcome.error is None
    tokens = [token_of(event)["_data"] for event in outcome.events]
    assert all(earlier < later for earlier, later in pairwise(tokens))
    positions = [bsondocs.decode(position)["_data"] for _, position in outcome.positions]
    assert all(earlier <= later for earlier, later in pairwise(positions))
    for (count, _), position in zip(outcome.positions, positions, strict=True):
        assert count == 0 or tokens[count - 1] <= position
        assert count == len(tokens) or position <= tokens[count]


@over_seeds
def test_tokens_increase_and_the_streams_position_is_between_its_events(seeds: range) -> None:
    check_histories(seeds, increasing_tokens)


def merge_of_shards(history: History) -> None:
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    expected = stream.events()
    merged = stream.run(history.split(3, history.seed), rng.choice((1, 4, None)), track=True)
    assert merged.error is None
    assert merged.events == expected
    tokens = [token_of(event)["_data"] for event in expected]
    for count, position in merged.positions:  # no position is after an event that was not shown yet
        assert count == len(tokens) or bsondocs.decode(position)["_data"] <= tokens[count]


@over_seeds
def test_a_merge_of_three_shards_gives_the_events_of_the_unsplit_log(seeds: range) -> None:
    check_histories(seeds, merge_of_shards)
