"""Engine: a stream on a store's head shows the same bytes as the local engine on the store's oplog."""

import random
from tempfile import TemporaryDirectory

from tailrace.events.cluster_time import to_timestamp
from tailrace.log.head import HeadLog
from tests.laws.law_seeds import over_seeds
from tests.laws.restored_stores import any_started_stream, observed, restore, restored_store, run
from tests.support.choices import any_stream
from tests.support.history import History
from tests.support.seeds import check_histories


def compare(history: History) -> None:
    rng = random.Random(history.seed)
    cut = rng.randrange(len(history.entries) + 1)
    with TemporaryDirectory() as folder, restored_store(folder) as store:
        restore(store, history.entries[:cut])
        head = HeadLog(store)
        restore(store, history.entries[cut:])
        for _ in range(3):
            stream = any_started_stream(history, rng)
            assert observed(run(stream, head, history.lookups(), rng)) == observed(stream.run())


@over_seeds
def test_the_head_shows_what_the_local_engine_shows(seeds: range) -> None:
    check_histories(seeds[:10], compare)


def several_streams(history: History) -> None:
    """An entry is transformed at most once, no matter how many streams are open."""
    rng = random.Random(history.seed)
    with TemporaryDirectory() as folder, restored_store(folder) as store:
        head = HeadLog(store)
        restore(store, history.entries)
        for _ in range(4):
            stream = any_stream(history, rng).resumed(
                startAtOperationTime=to_timestamp(history.timestamps[0])
            )
            run(stream, head, history.lookups(), rng)
        assert head.transformed <= len(history.entries)


@over_seeds
def test_an_entry_is_transformed_at_most_once(seeds: range) -> None:
    check_histories(seeds[10:14], several_streams)
