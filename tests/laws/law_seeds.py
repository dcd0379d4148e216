"""The seeds that the laws are checked with.

`TAILRACE_SEED` shifts them all. A failure names the call that generates its history.
"""

import os
from collections.abc import Iterator

import pytest

BASE_SEED = int(os.environ.get("TAILRACE_SEED", "20260000"))
HISTORIES, CHUNK = 200, 50
SLOW_HISTORIES, SLOW_CHUNK = 21_500, 500


def _chunks(seeds: range, size: int) -> Iterator[range]:
    return (seeds[start : start + size] for start in range(0, len(seeds), size))


_quick = range(BASE_SEED, BASE_SEED + HISTORIES)
_slow = range(_quick.stop, _quick.stop + SLOW_HISTORIES)

_quick_chunks = [pytest.param(chunk, id=str(chunk.start)) for chunk in _chunks(_quick, CHUNK)]
_slow_chunks = [
    pytest.param(chunk, id=str(chunk.start), marks=pytest.mark.slow) for chunk in _chunks(_slow, SLOW_CHUNK)
]

# With this scope pytest runs all laws on one chunk before the next, so its histories are generated once.
over_seeds = pytest.mark.parametrize("seeds", _quick_chunks + _slow_chunks, scope="session")
over_fewer_seeds = pytest.mark.parametrize(
    "seeds", _quick_chunks[: len(_quick_chunks) // 2] + _slow_chunks, scope="session"
)
"""For tests that follow from the laws, or refine them."""
over_slow_seeds = pytest.mark.parametrize("seeds", _slow_chunks, scope="session")
