"""Batching: how the entries are cut into batches makes no difference to what comes out."""

import random

from tests.laws.law_seeds import over_fewer_seeds
from tests.support.choices import any_stream
from tests.support.history import History
from tests.support.seeds import check_histories


def cut_any_way(history: History) -> None:
    stream = any_stream(history, random.Random(history.seed))
    at_once = stream.run(track=True)
    assert at_once.error is None
    for size in (1, 7):
        in_batches = stream.run(batch_size=size, track=True)
        assert in_batches.events == at_once.events
        assert in_batches.invalidated == at_once.invalidated
        assert in_batches.positions[-1] == at_once.positions[-1]


@over_fewer_seeds
def test_batches_of_one_of_seven_and_of_everything_give_the_same(seeds: range) -> None:
    check_histories(seeds, cut_any_way)
