"""An option of `$changeStream` is declared once: a made-up one works wherever options are accepted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from tailrace.bson.documents import decode
from tailrace.client.sync import watch
from tailrace.errors import CommandError
from tailrace.events.options import OPTIONS, OptionDeclaration
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.streams.open_source import open_source
from tailrace.testing.replica_set import ReplicaSet
from tests.events.stages.streams import delete, insert

NAME = "hideInserts"
HIDES_INSERTS = OptionDeclaration(
    NAME, types=lambda value: frozenset({"update", "replace", "delete"}) if value else None
)


@pytest.fixture
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, NAME, HIDES_INSERTS)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "oplog.bson"
    path.write_bytes(insert(1, 1) + insert(2, 2) + delete(3, 1))
    return str(path)


def spark_types(archive: str, **options: str) -> Iterator[str]:
    """The types of the rows that Spark's data source makes of an archive, without Spark."""
    request = read_options({"oplog": archive, "ns": "shop.orders", **options})
    source = open_source(request.source)
    run = source.run(request.spec(is_cluster=False).open(), 0, source.promised())
    for rows in run.rows():
        for row in rows:
            yield decode(row.raw)["operationType"]


@pytest.mark.usefixtures("_declared")
def test_replay_accepts_it(archive: str) -> None:
    shown = [event["operationType"] for event in tailrace.replay(archive, "shop.orders", {NAME: True})]
    assert shown == ["delete"]
    assert len(list(tailrace.replay(archive, "shop.orders", {NAME: False}))) == 3


@pytest.mark.usefixtures("_declared")
def test_spark_accepts_it(archive: str) -> None:
    assert list(spark_types(archive, **{NAME: "true"})) == ["delete"]
    assert list(spark_types(archive, **{NAME.lower(): "false"})) == ["insert", "insert", "delete"]


@pytest.mark.usefixtures("_declared")
def test_a_live_stream_and_the_client_accept_it() -> None:
    option: Any = {"hide_inserts": True}
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        with watch(orders, **option) as stream:
            orders.insert_many([{"_id": 1}, {"_id": 2}])
            orders.delete_one({"_id": 2})
            event = stream.next()
            assert (event["operationType"], event["documentKey"]) == ("delete", {"_id": 2})


@pytest.mark.usefixtures("_declared")
def test_its_type_is_checked(archive: str) -> None:
    with pytest.raises(CommandError) as caught:
        tailrace.replay(archive, "shop.orders", {NAME: 1})
    assert caught.value.code == 14


def test_it_is_unknown_where_it_is_not_declared(archive: str) -> None:
    with pytest.raises(CommandError) as caught:
        tailrace.replay(archive, "shop.orders", {NAME: True})
    assert caught.value.code == 40415
