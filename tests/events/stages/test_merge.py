"""Several shards, one order: an event is shown after every shard has promised its time."""

import pytest
from bson import Binary

from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.stages.lookups import Lookups
from tailrace.log.local_engine import LocalEngine
from tests.events.stages.streams import command, entry, insert, open_engine


def keys(raws: list[bytes]) -> list[object]:
    return [decode(raw)["documentKey"]["_id"] for raw in raws]


def two_shards(**options: object) -> LocalEngine:
    return open_engine(lookups={"a": Lookups(), "b": Lookups()}, **options)  # type: ignore[arg-type]


def test_an_event_waits_for_the_slowest_shard() -> None:
    engine = two_shards()
    engine.push("a", [insert(1, 1), insert(5, 5)])
    assert engine.drain() == []
    engine.push("b", [insert(2, 2)])
    assert keys(engine.drain()) == [1, 2]
    engine.push("b", [insert(9, 9)])
    assert keys(engine.drain()) == [5]
    engine.finish("a")
    assert keys(engine.drain()) == [9]


def test_a_no_op_is_also_a_promise() -> None:
    engine = two_shards()
    engine.push("a", [insert(3, 3)])
    engine.push("b", [entry(4, "n", {"msg": "periodic noop"}, ns="", ui=None)])
    assert keys(engine.drain()) == [3]


def test_ties_are_ordered_by_token() -> None:
    for order in ("ab", "ba"):
        engine = two_shards()
        entries = {"a": [insert(1, "y")], "b": [insert(1, "x")]}
        for shard in order:
            engine.push(shard, entries[shard])
        assert keys(engine.drain()) == ["x", "y"]


def test_the_first_invalidation_ends_the_merged_stream() -> None:
    engine = two_shards()
    engine.push("a", [command(2, {"drop": "orders"}), insert(7, 7)])
    engine.push("b", [insert(1, 1), command(3, {"drop": "orders"})])
    kinds = [decode(raw)["operationType"] for raw in engine.drain()]
    assert kinds == ["insert", "drop", "invalidate"]
    assert engine.done


def test_a_stream_started_after_a_drop_skips_it_on_both_shards() -> None:
    drops = {
        "a": [command(2, {"drop": "orders"}), insert(3, 3)],
        "b": [command(2, {"drop": "orders"}), insert(4, 4)],
    }
    engine = two_shards()
    for shard, entries in drops.items():
        engine.push(shard, entries)
    token = decode(engine.drain()[-1])["_id"]
    resumed = two_shards(spec={"startAfter": token})
    for shard, entries in drops.items():
        resumed.push(shard, entries)
        resumed.finish(shard)
    assert keys(resumed.drain()) == [3, 4]


def test_an_error_of_one_shard_follows_the_earlier_events_of_all_shards() -> None:
    engine = two_shards()
    broken = entry(3, "u", {"$set": {"a": 1}}, o2={"_id": 1})
    engine.push("a", [insert(1, 1), broken, insert(4, 4)])
    engine.push("b", [insert(2, 2), insert(9, 9)])
    assert keys(engine.drain()) == [1, 2]
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 6741200


def test_events_before_an_unreadable_entry_are_shown() -> None:
    engine = two_shards()
    engine.push("a", [insert(1, 1), encode({"op": "i", "ns": "shop.orders"})])
    engine.push("b", [insert(2, 2), insert(9, 9)])
    assert keys(engine.drain()) == [1]
    with pytest.raises(CommandError) as raised:
        engine.drain()
    assert raised.value.code == 8881102


def test_pre_images_are_read_from_the_shard_of_the_event() -> None:
    def images(marker: int) -> Lookups:
        return Lookups(pre_image=lambda _uuid, _ts, _index: encode({"_id": 1, "shard": marker}))

    engine = open_engine({"fullDocumentBeforeChange": "required"}, lookups={"a": images(1), "b": images(2)})
    engine.push("a", [entry(1, "d", {"_id": 1})])
    engine.push("b", [entry(2, "d", {"_id": 1})])
    engine.finish("a")
    assert [decode(raw)["fullDocumentBeforeChange"]["shard"] for raw in engine.drain()] == [1, 2]


def test_ties_are_ordered_by_collection_uuid_before_the_key() -> None:
    low, high = Binary(bytes(16), 4), Binary(bytes([255]) * 16, 4)
    engine = two_shards(ns="shop")
    engine.push("a", [entry(1, "i", {"_id": 1}, ui=high)])
    engine.push("b", [entry(1, "i", {"_id": 2}, ui=low)])
    assert keys(engine.drain()) == [2, 1]
