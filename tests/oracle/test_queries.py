"""Finds, counts and distincts beside the real server: filters, projections, sorts, hints, collations."""

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bson import MaxKey, MinKey, Regex

from tailrace.bson.values import Symbol
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


@pytest.mark.parametrize("end", [MinKey(), MaxKey()], ids=["least", "greatest"])
@pytest.mark.parametrize("path", ["_id", "n"])
def test_ranges_that_begin_or_end_with_the_last_key(filled: Twins, path: str, end: MinKey | MaxKey) -> None:
    for bound in ("min", "max"):
        filled.same({"find": "places", bound: {path: end}, "hint": {path: 1}, **SHOWN})


def test_distincts_and_counts(filled: Twins) -> None:
    require_equal(filled, find_cases.distincts_and_counts())


SYMBOLS: Final[list[Any]] = [{"x": Symbol("t")}, [Symbol("t")], [{"x": Symbol("t")}], [[Symbol("t")]], 5]


@pytest.mark.parametrize("value", SYMBOLS, ids=str)
@pytest.mark.parametrize("collation", [None, {"locale": "en", "strength": 2}], ids=str)
def test_sorting_symbols_inside_of_values(twins: Twins, value: Any, collation: Any) -> None:
    twins.run({"drop": "symbols"})
    twins.same({"insert": "symbols", "documents": [{"_id": 1, "v": value}, {"_id": 2, "v": 7}]})
    for direction in (1, -1):
        twins.same({"find": "symbols", "sort": {"v": direction}, "collation": collation})


FOUND: Final[list[Any]] = [
    {"$x": 1}, [{"$x": 1}], [1, {"$x": 1}], [1, {"$ref": "a"}], [1, {"$ref": "a", "$id": 1}],
    [1, {"$x": 1}, Regex("a")], [{"a": 1, "$x": 1}, 2], [[{"$x": 1}], 3],
]  # fmt: skip


@pytest.mark.parametrize("value", FOUND, ids=str)
def test_joins_on_documents_that_look_like_operators(twins: Twins, value: Any) -> None:
    twins.run({"drop": "joined"})
    twins.same({"insert": "joined", "documents": [{"_id": 1, "v": value, "w": [{"v": value}, {"v": 2}]}]})
    for path in ("v", "w.v"):
        join = {"from": "joined", "localField": path, "foreignField": "v", "as": "found"}
        twins.same({"aggregate": "joined", "pipeline": [{"$lookup": join}], "cursor": {}})
