"""Check a law on many generated histories, and report the seed of a failure."""

from collections.abc import Callable, Iterable
from functools import lru_cache

from tests.support.history import History
from tests.support.workload import EVERYTHING, Features, generate


@lru_cache(maxsize=200)
def history_of(seed: int, features: Features = EVERYTHING) -> History:
    """The history of a seed: 20 to 60 operations, the shorter ones more often."""
    return generate(seed, 20 + min(seed % 41, seed // 41 % 41), features)


def check_histories(
    seeds: Iterable[int], law: Callable[[History], None], features: Features = EVERYTHING
) -> None:
    """Check a law on the history of every seed; a failure has a note with the seed."""
    for seed in seeds:
        try:
            law(history_of(seed, features))
        except Exception as error:
            error.add_note(f"history_of({seed}, {features})")
            raise
