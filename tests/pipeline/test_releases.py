"""Streams imitate the release of their source, unless the user names another."""

from pathlib import Path
from typing import Any

import bson
import pytest
from pymongo import MongoClient

from tailrace.bson.documents import decode
from tailrace.errors import UsageError
from tailrace.events.interval import Interval
from tailrace.events.resume_token import ResumeToken
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.log.replay import replay
from tailrace.pipeline.history.build import build
from tailrace.pipeline.history.checkpoint import open_table
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.stream_batches import StreamBatches
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.source import OplogSource
from tailrace.testing.replica_set import ReplicaSet
from tests.events.stages.streams import insert

EVERYTHING = {"showExpandedEvents": "true", "ns": "shop"}


def filled(client: "MongoClient[Any]") -> None:
    client.shop.create_collection("orders")
    client.shop.orders.insert_one({"_id": 1})
    client.shop.orders.update_one({"_id": 1}, {"$set": {"a": 1}})


def events_of(**options: str) -> list[bytes]:
    batches = StreamBatches(read_options({"startingOffsets": "earliest", **EVERYTHING, **options}))
    try:
        return [row.raw for piece in batches.whole() for rows in batches.rows(piece) for row in rows]
    finally:
        batches.close()


def token_versions(events: list[bytes]) -> set[int]:
    return {ResumeToken.parse(bson.encode(decode(raw)["_id"])).version for raw in events}


def build_history(source: OplogSource, settings: PipelineSettings) -> HistoryTable:
    table = open_table(source, settings)
    interval = Interval(table.through, source.promised())
    built = build(source, interval, table.place)
    assert commit(table, built.files, after=interval.after, through=interval.through)
    return table


def test_a_deployment_and_its_history_are_imitated_as_they_are(tmp_path: Path) -> None:
    history = tmp_path / "history"
    with ReplicaSet(server_version="6.0.27") as rs, DeploymentSource(rs.uri) as source:
        filled(rs.client())
        assert source.release() == StreamRelease.parse("6.0.27")
        table = build_history(source, PipelineSettings(history))
        assert table.release.version == "6.0.27"
        own = events_of(uri=rs.uri)
        newer = events_of(uri=rs.uri, serverVersion="8.2.1")
        start = rs.client().local["oplog.rs"].find_one()
        assert start is not None
        options = {"show_expanded_events": True, "start_at_operation_time": start["ts"]}
        with rs.client().shop.watch(**options) as stream:
            shown = [next(stream) for _ in own]
    assert [decode(raw)["_id"] for raw in own] == [event["_id"] for event in shown]
    assert token_versions(own) == {1}
    assert token_versions(newer) == {2}
    assert [name for raw in own for name in decode(raw) if name == "nsType"] == []
    assert [decode(raw)["nsType"] for raw in newer[:1]] == ["collection"]
    # The history holds what all releases show.
    assert events_of(history=str(history)) == own
    assert events_of(history=str(history), serverVersion="8.2.1") == newer
    assert events_of(path=str(history), serverVersion="6.0.27") == own


@pytest.mark.parametrize(
    ("condition", "count"),
    [('{"txnNumber": null}', 2), ('{"lsid": {"$exists": true}}', 0), ('{"txnNumber": {"$ne": 0}}', 5)],
)
def test_a_history_knows_the_sessions_of_retryable_writes(condition: str, count: int, tmp_path: Path) -> None:
    history = tmp_path / "history"
    with ReplicaSet() as rs, DeploymentSource(rs.uri) as source:
        orders = rs.client().shop.orders
        filled(rs.client())
        orders.replace_one({"_id": 1}, {"b": 1})
        rs.client(retryWrites=False).shop.orders.insert_one({"_id": 2})
        build_history(source, PipelineSettings(history))
        pipeline = f'[{{"$match": {condition}}}]'
        found = events_of(uri=rs.uri, pipeline=pipeline)
        assert len(found) == count
        assert events_of(history=str(history), pipeline=pipeline) == found
        assert len(events_of(history=str(history))) == 5


def test_a_history_of_archives_is_imitated_as_its_creator_said(tmp_path: Path) -> None:
    oplog = tmp_path / "oplog.bson"
    oplog.write_bytes(insert(1, 1) + insert(2, 2))
    source = FilesSource({"": [str(oplog)]})
    assert source.release() is None
    assert build_history(source, PipelineSettings(tmp_path / "current")).release == CURRENT_RELEASE
    older = PipelineSettings(tmp_path / "older", release=StreamRelease.parse("6.0.27"))
    build_history(source, older)
    assert open_table(source, older).release.version == "6.0.27"
    assert open_table(source, PipelineSettings(tmp_path / "older")).release.version == "6.0.27"
    assert token_versions(events_of(history=str(tmp_path / "older"))) == {1}
    assert token_versions(events_of(history=str(tmp_path / "current"))) == {2}
    other = PipelineSettings(tmp_path / "older", release=StreamRelease.parse("7.0"))
    with pytest.raises(UsageError, match=r"was created as one of release 6\.0\.27, not of 7\.0\.0; name the"):
        open_table(source, other)


def test_archives_are_imitated_as_the_user_says(tmp_path: Path) -> None:
    oplog = tmp_path / "oplog.bson"
    oplog.write_bytes(insert(1, 1))
    assert token_versions(events_of(oplog=str(oplog))) == {2}
    assert token_versions(events_of(oplog=str(oplog), serverVersion="6.0.27")) == {1}
    (event,) = replay(oplog, server_version="6.0")
    assert ResumeToken.parse(bson.encode(event["_id"])).version == 1
    for version in ("3.6", "latest"):
        with pytest.raises(UsageError, match=f"{version} is not a server version whose change streams"):
            events_of(oplog=str(oplog), serverVersion=version)
        with pytest.raises(UsageError, match=f"{version} is not a server version whose change streams"):
            replay(oplog, server_version=version)


def test_wall_times_follow_the_feature_compatibility_version() -> None:
    upgrading = StreamRelease.of_server("6.0.27", "5.0")
    assert not upgrading.wall_time
    assert upgrading.expanded_wall_time
    assert upgrading.series == "5.0"
    assert StreamRelease.of_server("6.0.27", "6.0") == StreamRelease.parse("6.0.27")
