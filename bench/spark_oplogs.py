"""Write archived oplogs of three shards fast: one block of entries, repeated with later times."""

from itertools import islice
from pathlib import Path

import numpy as np

from tests.support.workload import generate_bulk

SHARDS = 3
BLOCK = 20_000
START = 1_700_000_000
PER_SECOND = 1_000
TS = b"\x11ts\0"
WALL = b"\x09wall\0"


def write_oplogs(folder: Path, entries: int) -> dict[str, list[str]]:
    """Write entries; return the files by shard. About one cluster time in twenty is on two shards."""
    paths = {}
    for shard in range(SHARDS):
        path = folder / f"shard{shard}.bson"
        with open(path, "wb") as file:
            block = _Block(shard)
            for start in range(0, entries // SHARDS, BLOCK):
                count = min(BLOCK, entries // SHARDS - start)
                file.write(block.at(start, count))
        paths[f"shard{shard}"] = [str(path)]
    return paths


class _Block:
    def __init__(self, shard: int) -> None:
        raws = list(islice(generate_bulk(seed=shard, count=BLOCK), BLOCK))
        self._bytes = np.frombuffer(b"".join(raws), np.uint8)
        self._ends = np.cumsum([len(raw) for raw in raws])
        starts = self._ends - [len(raw) for raw in raws]
        self._ts = starts + [raw.index(TS) + len(TS) for raw in raws]
        self._wall = starts + [raw.index(WALL) + len(WALL) for raw in raws]
        shares = np.random.default_rng(shard).random(BLOCK) < 0.05
        self._place = np.where(shares, 0, shard)

    def at(self, start: int, count: int) -> bytes:
        """The first ``count`` entries of the block, with the times from number ``start`` on."""
        numbers = np.arange(start, start + count)
        seconds, within = START + numbers // PER_SECOND, numbers % PER_SECOND
        times = seconds << 32 | (within * SHARDS + self._place[:count] + 1)
        copied = self._bytes[: self._ends[count - 1]].copy()
        words = np.ndarray((len(copied) - 7,), "<i8", copied, strides=(1,))
        words[self._ts[:count]] = times
        words[self._wall[:count]] = seconds * 1000 + within
        return copied.tobytes()
