"""Batching: the size of the batches of entries does not change the events."""

import random

from tests.laws.law_seeds import over_fewer_seeds
from tests.support.choices import any_stream
from tests.support.history import History
from tests.support.seeds import check_histories


def batches_of_every_size(history: History) -> None:
    stream = any_stream(history, random.Random(history.seed))
    in_one_batch = stream.run(track=True)
    assert in_one_batch.error is None
    for size in (1, 7):
        in_batches = stream.run(batch_size=size, track=True)
        assert in_batches.events == in_one_batch.events
        assert in_batches.invalidated == in_one_batch.invalidated
        assert in_batches.positions[-1] == in_one_batch.positions[-1]


@over_fewer_seeds
def test_batches_of_one_seven_or_all_entries_give_the_same_events(seeds: range) -> None:
    check_histories(seeds, batches_of_every_size)
