"""Targeting: a query goes to all shards with matches, and to no others if its conditions suffice."""

import random
from typing import Any

import pytest
from bson import Regex

from tailrace.bson.documents import encode
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap
from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.cluster.placement.targeting import exact_key, target, targets
from tailrace.query.collation import Collation
from tailrace.query.expressions.conversion.hashed_index import hashed_index_key
from tailrace.query.match import compile_match

Document = dict[str, Any]


def sharded(pattern: Document, *points: Document) -> TrackedCollection:
    """Chunks between the points, on s0, s1, s2 and so on."""
    key = ShardKey(pattern)
    shards = [f"s{number}" for number in range(len(points) + 1)]
    return TrackedCollection("shop.orders", b"u" * 16, key, ChunkMap.divided(key, points, shards, 1), 1)


def owners(collection: TrackedCollection, query: Document, collation: Collation | None = None) -> str | None:
    """The numbers of the shards that a query goes to; None for all."""
    found = target(collection, query, collation)
    return None if found is None else "".join(sorted(shard[1:] for shard in found))


RANGED = sharded({"a": 1}, {"a": 10}, {"a": 20}, {"a": 30})
COMPOUND = sharded({"a": 1, "b": 1}, {"a": 10, "b": 5}, {"a": 20}, {"a": 20, "b": "x"})
NESTED = sharded({"a.b": 1}, {"a.b": 10})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"a": 5}, "0"),
        ({"a": 10}, "1"),
        ({"a": {"$eq": 29.5}}, "2"),
        ({"a": None}, "0"),
        ({"a": "x"}, "3"),
        ({"a": {"$in": [1, 15, 99]}}, "013"),
        ({"a": {"$in": []}}, ""),
        ({"a": {"$gte": 10, "$lt": 20}}, "1"),
        ({"a": {"$gt": 10, "$lte": 20}}, "12"),
        ({"a": {"$lt": 10}}, "0"),
        ({"a": {"$gt": 15}}, "123"),
        ({"$and": [{"a": {"$gte": 10}}, {"a": {"$lt": 20}}]}, "1"),
        ({"a": 5, "$and": [{"a": 15}]}, ""),
        ({"$or": [{"a": 5}, {"a": 15}]}, "01"),
        ({"$or": [{"a": 5}, {"b": 15}]}, None),
        ({"a": {"$lt": 20}, "$or": [{"a": 15}, {"a": 25}]}, "1"),
        ({"$and": [{"$or": [{"a": 5}, {"a": {"$gte": 30}}]}]}, "03"),
        ({"a": 5, "b": {"$exists": True}}, "0"),
        ({}, None),
        ({"b": 5}, None),
        ({"_id": 5}, None),
        ({"a": {"$ne": 5}}, None),
        ({"a": {"$exists": True}}, None),
        ({"a": Regex("^x")}, None),
        ({"a": [5]}, None),
        ({"a": {"$in": [5, Regex("x")]}}, None),
        ({"$nor": [{"a": 5}]}, None),
        ({"a.b": 5}, None),
    ],
)
def test_ranges(query: Document, expected: str | None) -> None:
    assert owners(RANGED, query) == expected
    assert targets(RANGED, query) == tuple(
        f"s{number}" for number in ("0123" if expected is None else expected)
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"a": 10, "b": 4}, "0"),
        ({"a": 10, "b": 5}, "1"),
        ({"a": 10}, "01"),
        ({"a": 10, "b": {"$gt": 7}}, "1"),
        ({"a": {"$in": [10, 20]}, "b": {"$in": [1, "y"]}}, "0123"),
        ({"a": 20, "b": {"$in": [1, "y"]}}, "23"),
        ({"a": {"$gt": 20}, "b": 1}, "3"),
        ({"a": {"$lt": 20}, "b": 1}, "01"),
        ({"b": 4}, None),
    ],
)
def test_compound_keys(query: Document, expected: str | None) -> None:
    assert owners(COMPOUND, query) == expected


def test_paths() -> None:
    assert owners(NESTED, {"a.b": 5}) == "0"
    assert owners(NESTED, {"a": {"b": 15, "c": 1}}) == "1"
    assert owners(NESTED, {"a": {"c": 1}}) == "0"
    assert owners(NESTED, {"a": 5}) is None


def test_hashed_keys_are_targeted_by_equality_only() -> None:
    middle = hashed_index_key(1)
    hashed = sharded({"a": "hashed"}, {"a": middle})
    assert owners(hashed, {"a": 1}) == "1"
    assert owners(hashed, {"a": {"$in": [1.0]}}) == "1"
    below = next(value for value in range(100) if hashed_index_key(value) < middle)
    assert owners(hashed, {"a": below}) == "0"
    assert owners(hashed, {"a": {"$in": [1, below]}}) == "01"
    assert owners(hashed, {"a": {"$gt": 5}}) is None
    compound = sharded({"x": 1, "a": "hashed", "y": 1}, {"x": 5, "a": middle, "y": 7})
    assert owners(compound, {"x": 5, "a": 1, "y": 6}) == "0"
    assert owners(compound, {"x": 5, "a": 1, "y": 7}) == "1"
    assert owners(compound, {"x": 5, "a": {"$gt": 1}, "y": 7}) == "01"
    assert owners(compound, {"x": 4}) == "0"


def test_strings_under_a_collation_are_not_targeted() -> None:
    collation = Collation.parse({"locale": "en", "strength": 2})
    assert owners(RANGED, {"a": "x"}, collation) is None
    assert owners(RANGED, {"a": 5}, collation) == "0"
    assert exact_key(RANGED.key, {"a": "x"}, collation) is None


def test_exact_keys() -> None:
    assert exact_key(COMPOUND.key, {"a": 1, "b": {"$eq": "x"}, "c": 3}) == {"a": 1, "b": "x"}
    assert exact_key(COMPOUND.key, {"a": 1}) is None
    assert exact_key(COMPOUND.key, {"a": 1, "b": {"$gt": 1}}) is None
    assert exact_key(COMPOUND.key, {"$and": [{"a": None}, {"b": 2}]}) == {"a": None, "b": 2}
    assert exact_key(NESTED.key, {"a": {"b": 3}}) == {"a.b": 3}


def _value(rng: random.Random) -> Any:
    return rng.choice([None, rng.randrange(40), rng.uniform(0, 40), rng.choice("axyz"), True, {"c": 1}])


def _condition(rng: random.Random) -> Any:
    match rng.randrange(5):
        case 0:
            return _value(rng)
        case 1:
            return {rng.choice(("$gt", "$gte", "$lt", "$lte", "$eq", "$ne")): _value(rng)}
        case 2:
            return {"$gte": rng.randrange(20), "$lt": rng.randrange(10, 40)}
        case 3:
            return {"$in": [_value(rng) for _ in range(rng.randrange(4))]}
        case _:
            return {"$exists": rng.random() < 0.5}


def _query(rng: random.Random, depth: int = 2) -> Document:
    query: Document = {rng.choice("ab"): _condition(rng) for _ in range(rng.randrange(3))}
    if depth and rng.random() < 0.5:
        name = rng.choice(("$and", "$or", "$nor"))
        query[name] = [_query(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
    return query


@pytest.mark.parametrize("seed", range(20))
def test_all_matches_are_on_the_targeted_shards(seed: int) -> None:
    rng = random.Random(seed)
    hashed = sharded({"b": 1, "a": "hashed"}, {"b": 10}, {"b": 10, "a": 0}, {"b": "a"})
    for collection in (RANGED, COMPOUND, hashed):
        documents: list[Document] = [
            {name: _value(rng) for name in rng.sample("ab", rng.randrange(3))} for _ in range(60)
        ]
        for _ in range(60):
            query = _query(rng)
            matches = compile_match(query)
            found = targets(collection, query)
            for document in filter(matches, documents):
                owner = collection.owner_of(encode(document))
                assert owner in found, f"seed {seed}: {query} finds {document} on {owner}, not in {found}"
