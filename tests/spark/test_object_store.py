"""A history in an object store: built by Spark, the same bytes as in a folder, read by everything."""

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tailrace.lake.storage.log_store import open_store
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.archives.files import FilesSource
from tailrace.spark.dataframes import change_stream
from tailrace.spark.history_job import HistoryJob
from tests.mongod.server.running import RunningServer
from tests.spark.pipeline_runs import build_all
from tests.support.bulk import generate_bulk
from tests.support.object_store import SECRET, ObjectStoreServer


@pytest.fixture
def place(objects: ObjectStoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return objects.url(uuid4().hex)


def data_files(place: str | Path) -> dict[str, bytes]:
    """The files that batches wrote, not those that the upkeep may have merged them to meanwhile."""
    store = open_store(place)
    names = [file.name for file in store.list() if file.name.endswith(".parquet")]
    return {name: store.read(name) for name in names if not name.startswith("merged-")}


def test_a_history_has_the_same_bytes_as_in_a_folder(
    spark: SparkSession,
    objects: ObjectStoreServer,
    place: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "oplog.bson"
    path.write_bytes(b"".join(generate_bulk(3, 1500)))
    local = build_all(
        spark, FilesSource({"": [str(path)]}), tmp_path / "history", max_entries=1000, small_entries=400
    )
    # The archive is in the store, too: tasks read it there.
    archive = open_store(objects.url(uuid4().hex))
    archive.create("oplog.bson", path.read_bytes())
    source = FilesSource({"": [archive.place]})
    remote = build_all(spark, source, place, max_entries=1000, small_entries=400)
    assert (remote.rows, remote.through) == (local.rows, local.through)
    written = data_files(place)
    assert written == data_files(tmp_path / "history")
    assert len(written) > 2
    # A second run, and one on another machine, find that all is done.
    settings = PipelineSettings(place, interval=None)
    assert settings.checkpoint.is_relative_to(tmp_path / "cache")
    again = HistoryJob(source, settings).run(spark)
    assert (again.rows, data_files(place)) == (0, written)
    # Streams of Spark read it, and plans show no secret.
    frame = change_stream(spark, place, "shop")
    assert frame.count() == change_stream(spark, tmp_path / "history", "shop").count() > 1000
    frame.explain(True)
    oplog = f"{archive.place}/oplog.bson"
    assert change_stream(spark, oplog, "shop", columns=["token"]).count() == frame.count()
    file = tmp_path / "store"
    file.write_text("".join(f"{name}={value}\n" for name, value in objects.environment().items()))
    spark.readStream.format("tailrace").options(history=place, storeFile=str(file)).load().explain(True)
    shown = capsys.readouterr().out
    assert place in shown
    assert SECRET not in shown


def test_a_server_follows_a_history_in_an_object_store(place: str) -> None:
    server = RunningServer(history=place, head=False, builds_history=True)
    try:
        client = server.client()
        with client.shop.watch(max_await_time_ms=500) as stream:
            client.shop.orders.insert_one({"_id": 1})
            server.catch_up()
            event = next(stream)
            token = event["_id"]
            assert event["documentKey"] == {"_id": 1}
        client.shop.orders.insert_one({"_id": 2})
        server.catch_up()
        with client.shop.watch(resume_after=token) as stream:
            assert next(stream)["documentKey"] == {"_id": 2}
        status = client.admin.command("serverStatus")["history"]
        assert (status["path"], status["exists"]) == (place, True)
    finally:
        server.stop()
