"""Random reads of random documents beside the real server."""

import random
from typing import Final

import pytest

from tests.oracle.queries.compared import compare
from tests.oracle.queries.random_reads import ReadMaker, documents
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Tally, Twins

READS = 600
LEAST_EQUAL: Final = 0.99
"""A random read may have several faults, of which each server finds another one first."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_reads(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    found = documents(rng, 60)
    for name, part in ((f"reads{seed}", found), ("other", found[:20])):
        twins.run({"drop": name})
        twins.same({"insert": name, "documents": part})
    maker = ReadMaker(rng, found)
    total = Tally()
    for _ in range(READS):
        command, is_unordered = maker.command(f"reads{seed}")
        tally = compare(twins, [command], is_unordered=is_unordered)
        total.compared += tally.compared
        total.different += tally.different
    print(f"seed {seed}: {total}")
    assert total.equal_share >= LEAST_EQUAL, f"seed {seed}: {total}"
