"""Chunks: owners are found; splits, moves and merges leave no gap and no overlap."""

import random
from itertools import pairwise
from typing import Any

import pytest
from bson import MaxKey, MinKey

from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.chunk_map import ChunkMap, ChunkVersion
from tailrace.mongod.cluster.placement.shard_key import ShardKey

KEY = ShardKey({"a": 1})


def at(value: Any) -> bytes:
    return KEY.key_of(encode({"a": value}))


def shown(chunks: ChunkMap) -> list[tuple[Any, Any, str]]:
    return [(chunk.min["a"], chunk.max["a"], chunk.shard) for chunk in chunks]


def three() -> ChunkMap:
    return ChunkMap.divided(KEY, [{"a": 10}, {"a": 20}], ["one", "two", "one"], at=5)


def test_owners() -> None:
    chunks = three()
    assert [chunks.owner_of(at(value)) for value in (MinKey(), None, 9, 10, 19.5, 20, "x", MaxKey())] == [
        "one", "one", "one", "two", "two", "one", "one", "one",
    ]  # fmt: skip
    assert chunks.owners == ("one", "two")
    assert chunks.owners_of(at(10), at(20)) == {"two"}
    assert chunks.owners_of(at(9), at(10)) == {"one"}
    assert chunks.owners_of(at(9), at(11)) == {"one", "two"}
    assert chunks.owners_of(at(20), None) == {"one"}


def test_splitting_changes_no_owner() -> None:
    chunks = three().split([{"a": 15}, {"a": "x"}])
    assert shown(chunks) == [
        (MinKey(), 10, "one"),
        (10, 15, "two"),
        (15, 20, "two"),
        (20, "x", "one"),
        ("x", MaxKey(), "one"),
    ]
    assert len({chunk.id for chunk in chunks}) == 5
    assert chunks.version.major == 1


@pytest.mark.parametrize("value", [10, 20, MinKey(), MaxKey()])
def test_no_split_at_the_end_of_a_chunk(value: Any) -> None:
    with pytest.raises(CommandError) as caught:
        three().split([{"a": value}])
    assert caught.value.code_name == "InvalidOptions"


def test_moving_a_part_of_a_chunk_cuts_it_off() -> None:
    chunks = three().move({"a": 3}, {"a": 5}, "two", at=9)
    assert shown(chunks)[:3] == [(MinKey(), 3, "one"), (3, 5, "two"), (5, 10, "one")]
    moved = chunks.chunk_of(at(4))
    assert [tuple(stay) for stay in moved.history] == [(9, "two"), (5, "one")]
    assert moved.version == ChunkVersion(2, 0)
    assert chunks.version_of("one") == ChunkVersion(2, 1)
    assert chunks.version_of("three") == ChunkVersion(0, 0)


def test_moving_every_chunk_leaves_one_owner() -> None:
    chunks = three().move(KEY.least, KEY.greatest, "three", at=9)
    assert chunks.owners == ("three",)
    versions = [chunk.version for chunk in chunks]
    assert len(set(versions)) == 3
    assert all(version.major == 2 for version in versions)


def test_merging_neighbours() -> None:
    chunks = three().move({"a": 10}, {"a": 20}, "one", at=9)
    assert shown(chunks.merge({"a": 10}, {"a": MaxKey()}, at=10)) == [
        (MinKey(), 10, "one"),
        (10, MaxKey(), "one"),
    ]
    for low, high in ((10, 15), (5, 20), (20, 10)):
        with pytest.raises(CommandError) as caught:
            chunks.merge({"a": low}, {"a": high}, at=10)
        assert caught.value.code_name == "IllegalOperation"
    with pytest.raises(CommandError) as caught:
        three().merge({"a": MinKey()}, {"a": 20}, at=10)
    assert caught.value.code_name == "IllegalOperation"


def test_exact_ends() -> None:
    assert three().exact({"a": 10}, {"a": 20}).shard == "two"
    for low, high in ((10, 15), (11, 20), (20, 20)):
        with pytest.raises(CommandError):
            three().exact({"a": low}, {"a": high})


def test_a_refined_key_keeps_documents_where_they_are() -> None:
    refined = ShardKey({"a": 1, "b": 1})
    chunks = three().refined(refined)
    assert [dict(chunk.min) for chunk in chunks] == [
        {"a": MinKey(), "b": MinKey()},
        {"a": 10, "b": MinKey()},
        {"a": 20, "b": MinKey()},
    ]
    assert chunks.exact({"a": 20, "b": MinKey()}, {"a": MaxKey(), "b": MaxKey()}).shard == "one"
    for value in (9, 10, 20, None):
        document = encode({"a": value, "b": 1})
        assert chunks.owner_of(refined.key_of(document)) == three().owner_of(KEY.key_of(document))


@pytest.mark.parametrize("seed", range(20))
def test_any_changes_leave_a_map_without_gaps(seed: int) -> None:
    """Random splits, moves and merges compared with a plain list of owners."""
    rng = random.Random(seed)
    chunks = ChunkMap.whole(KEY, "s0", at=1)
    model = ["s0"] * 50
    for time in range(2, 60):
        low, high = sorted(rng.sample(range(50), 2))
        before = chunks.version
        try:
            match rng.choice(("split", "move", "merge")):
                case "split":
                    chunks = chunks.split([{"a": low}])
                case "move":
                    shard = rng.choice(("s0", "s1", "s2"))
                    chunks = chunks.move({"a": low}, {"a": high}, shard, at=time)
                    model[low:high] = [shard] * (high - low)
                case _:
                    chunks = chunks.merge({"a": low}, {"a": high}, at=time)
        except CommandError:
            continue
        assert chunks.version >= before
        found = list(chunks)
        assert (found[0].min, found[-1].max) == (KEY.least, KEY.greatest), seed
        assert all(first.max == second.min for first, second in pairwise(found)), seed
        assert [chunks.owner_of(at(value)) for value in range(50)] == model, seed
        assert len({chunk.version for chunk in found}) == len(found), seed
