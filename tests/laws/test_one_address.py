"""A field of events that is made up in one place appears wherever events are shown."""

from pathlib import Path
from typing import Any

import bson
import pytest
from pymongo import MongoClient
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from tailrace import replay
from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout import event as event_layout
from tailrace.events.layout.fields import Field, Shape
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.rows.schema import Documents, Output, RowLayout
from tailrace.pipeline.streams.history_events import HistoryEvents
from tailrace.spark.row_batches import RowBatches
from tailrace.testing.replica_set import ReplicaSet
from tests.lake.stored import canonical_events, fill, new_table
from tests.support.history import History, dump
from tests.support.sample import shop_story

NAME = "documentSize"
OPTIONS = [{}, {"showExpandedEvents": True}, {"fullDocument": "whenAvailable"}]
WITH_DOCUMENT = ("insert", "replace")


def size_of_document(event: ChangeEvent, _: Shape) -> bytes | None:
    return None if event.full_document is None else rawbson.INT32_LE.pack(len(event.full_document))


@pytest.fixture(autouse=True)
def _field(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = Field(NAME, rawbson.INT32, size_of_document, "document size")
    monkeypatch.setattr(event_layout, "layout", event_layout.layout.with_field(made_up, after="wallTime"))


@pytest.fixture(scope="module")
def story() -> History:
    return shop_story()


def check(events: list[dict[str, Any]]) -> None:
    changes = [event for event in events if event["operationType"] in WITH_DOCUMENT]
    assert len(changes) > 1
    for event in events:
        if event["operationType"] in WITH_DOCUMENT:
            names = list(event)
            assert names[names.index("wallTime") + 1] == NAME
            assert event[NAME] == len(bson.encode(event["fullDocument"]))
        else:
            assert NAME not in event


@pytest.mark.parametrize("options", OPTIONS)
def test_a_replay_shows_it(story: History, tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "oplog.bson"
    path.write_bytes(dump(story.entries))
    check(list(replay(path, options=options)))


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("expanded", [False, True])
def test_live_streams_show_it_from_memory_and_from_the_history(
    tmp_path: Path, head: bool, expanded: bool
) -> None:
    with (
        ReplicaSet(history=tmp_path / "history", head=head, builds_history=True) as deployment,
        MongoClient[dict[str, Any]](deployment.uri) as client,
        client.shop.watch(show_expanded_events=expanded or None) as stream,
    ):
        orders = client.shop.orders
        orders.insert_many([{"_id": n} for n in range(3)])
        orders.insert_one({"_id": 3})
        orders.replace_one({"_id": 1}, {"n": 1})
        orders.update_one({"_id": 1}, {"$set": {"n": 2}})
        orders.delete_one({"_id": 2})
        events = [stream.next()]
        while events[-1]["operationType"] != "delete":
            events.append(stream.next())
        check(events)


@pytest.mark.parametrize("options", OPTIONS)
def test_rows_of_spark_show_it(story: History, tmp_path: Path, options: dict[str, Any]) -> None:
    table = new_table(tmp_path)
    fill(table, canonical_events(story), pieces=3)
    plan = Plan.open(Scope.cluster(), {**options, "startAtOperationTime": story.start})
    run = HistoryEvents(str(tmp_path)).run(plan, 0, HistoryTable.open(tmp_path).through)
    schema = StructType().add("token", StringType()).add("clusterTime", LongType()).add("event", BinaryType())
    rows = RowBatches(schema, RowLayout(output=Output.EVENT, documents=Documents.BSON))
    check([bson.decode(raw) for found in run.rows() for raw in rows.batch(found).column("event").to_pylist()])
