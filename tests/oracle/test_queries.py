"""Finds, counts and distincts beside the real server: filters, projections, sorts, hints, collations."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.oracle.queries import filter_cases, find_cases
from tests.oracle.queries.compared import require_equal
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Twins

SHOWN = {"projection": {"_id": 1}, "batchSize": 1000}


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    documents = list(filter_cases.DOCUMENTS)
    for name in ("plain", "indexed"):
        twins.same({"insert": name, "documents": documents})
    indexes = [{"key": {path: 1}, "name": path} for path in ("a", "a.b")]
    twins.same({"createIndexes": "indexed", "indexes": indexes})
    twins.same({"insert": "places", "documents": list(find_cases.PLACES)})
    twins.same({"createIndexes": "places", "indexes": [{"key": {"n": 1}, "name": "n_1"}]})
    return twins


@pytest.mark.parametrize("seed", SEEDS)
def test_filters(filled: Twins, seed: int) -> None:
    rng = random.Random(seed)
    drawn = (query for query in filter_cases.filters() if rng.random() < 0.4)

    def commands() -> Iterator[dict[str, Any]]:
        for query in drawn:
            yield {"find": "plain", "filter": query, **SHOWN}
            if rng.random() < 0.2:
                yield {"find": "indexed", "filter": query, **SHOWN, "sort": {"_id": 1}}

    require_equal(filled, commands())


def test_finds(filled: Twins) -> None:
    require_equal(filled, find_cases.finds())


def test_distincts_and_counts(filled: Twins) -> None:
    require_equal(filled, find_cases.distincts_and_counts())
