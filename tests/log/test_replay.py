"""`tailrace.replay`: events of archived oplogs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import CodecOptions
from bson.raw_bson import RawBSONDocument

from tailrace import CommandError, DamagedInputError, UsageError, replay
from tests.support.history import History, dump
from tests.support.sample import shop_story

EXPANDED = {"showExpandedEvents": True}


@pytest.fixture(scope="module")
def history() -> History:
    return shop_story()


@pytest.fixture
def oplog(history: History, tmp_path: Path) -> Path:
    path = tmp_path / "oplog.bson"
    path.write_bytes(dump(history.entries))
    return path


def kinds(events: Iterator[dict[str, Any]]) -> list[str]:
    return [event["operationType"] for event in events]


def test_scope_options_and_pipeline_are_applied(oplog: Path) -> None:
    everything = list(replay(oplog, options=EXPANDED))
    shop = list(replay(str(oplog), "shop", EXPANDED))
    assert shop == [event for event in everything if event["ns"]["db"] == "shop"]
    assert kinds(replay([oplog], "shop.orders")) == [
        *("insert", "insert", "update", "update", "insert", "delete", "rename", "invalidate")
    ]
    match = {"$match": {"operationType": "insert"}}
    assert kinds(replay(oplog, "shop.orders", EXPANDED, [match])) == ["insert"] * 3


def test_the_shards_of_a_cluster_are_merged(history: History, oplog: Path, tmp_path: Path) -> None:
    shards = {}
    for number, log in enumerate(history.split(3, 2)):
        shards[f"shard{number}"] = tmp_path / f"shard{number}.bson"
        shards[f"shard{number}"].write_bytes(dump(log))
    assert list(replay(shards, "shop", EXPANDED)) == list(replay(oplog, "shop", EXPANDED))


def test_a_replay_resumes_after_a_token(oplog: Path) -> None:
    events = list(replay(oplog, "shop", EXPANDED))
    assert list(replay(oplog, "shop", {**EXPANDED, "resumeAfter": events[4]["_id"]})) == events[5:]


def test_images_are_looked_up_in_dumps(history: History, oplog: Path, tmp_path: Path) -> None:
    images = tmp_path / "preimages.bson"
    images.write_bytes(dump(history.pre_image_documents()))
    options = {"fullDocumentBeforeChange": "required"}
    pipeline = [{"$match": {"operationType": "delete"}}]
    (event,) = replay(oplog, "shop.orders", options, pipeline, pre_images=images)
    assert event["fullDocumentBeforeChange"]["_id"] == 2
    with pytest.raises(CommandError, match="pre-image"):
        list(replay(oplog, "shop.orders", options, pipeline))


def test_current_documents_are_looked_up_in_dumps(oplog: Path, tmp_path: Path) -> None:
    current = tmp_path / "orders.bson"
    current.write_bytes(bson.encode({"_id": 1, "status": "newest"}))
    pipeline = [{"$match": {"operationType": "update"}}]
    arguments = (oplog, "shop.orders", {"fullDocument": "updateLookup"}, pipeline)
    found = [event["fullDocument"] for event in replay(*arguments, documents={"shop.orders": current})]
    assert found == [{"_id": 1, "status": "newest"}] * 2
    assert [event["fullDocument"] for event in replay(*arguments)] == [None, None]


def test_events_can_stay_raw(oplog: Path) -> None:
    raw = CodecOptions(document_class=RawBSONDocument)
    assert all(isinstance(event, RawBSONDocument) for event in replay(oplog, codec_options=raw))


def test_invalid_arguments_are_refused_by_the_call(oplog: Path) -> None:
    with pytest.raises(CommandError) as raised:
        replay(oplog, "shop", {"fullDocument": "sometimes"})
    assert raised.value.code_name == "BadValue"
    with pytest.raises(CommandError, match="nonsense"):
        replay(oplog, "shop", {}, [{"$nonsense": 1}])
    with pytest.raises(UsageError, match="missing"):
        replay(oplog, documents={"shop.orders": oplog.parent / "missing"})


def test_a_damaged_file_gives_the_events_before_the_damage(oplog: Path) -> None:
    whole = list(replay(oplog, "shop"))
    data = oplog.read_bytes()
    oplog.write_bytes(data[:-10])
    seen: list[dict[str, Any]] = []
    with pytest.raises(DamagedInputError) as raised:
        seen.extend(replay(oplog, "shop"))
    assert seen == whole[: len(seen)] != []
    assert raised.value.path == str(oplog)
