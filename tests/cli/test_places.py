"""Places that are not local paths: a scheme that is not supported is refused, and nothing is written."""

from pathlib import Path

import pytest

from tailrace import HistoryTable, UsageError, replay
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.options.oplog_options import read_oplog_options
from tests.cli.console import Here

ELSEWHERE = ("hdfs://node/history", "ftp://host/history", "s3:/bucket/history", "file://host/history")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("place", ELSEWHERE)
@pytest.mark.parametrize(
    "arguments",
    [
        ["pipeline", "--source", "mongodb://127.0.0.1:1/", "--history"],
        ["serve", "--history"],
        ["serve", "--data"],
        ["check"],
        ["check", ".", "--history"],
        ["replay"],
        ["pipeline", "--history", "h", "--source"],
    ],
)
def test_commands_refuse_it_in_one_sentence(
    here: Here, empty_folder: Path, arguments: list[str], place: str
) -> None:
    outcome = here(*arguments, place)
    assert place in outcome.sentence
    assert outcome.code == 2
    assert not list(empty_folder.iterdir())


def test_named_arguments_refuse_it_too(here: Here, empty_folder: Path) -> None:
    for arguments in (
        ["replay", "--shard", "a=hdfs://node/oplog.bson"],
        ["replay", "oplog.bson", "--pre-images", "hdfs://node/images.bson"],
        ["replay", "oplog.bson", "--documents", "shop.orders=hdfs://node/orders.bson"],
        ["replay", "oplog.bson", "--out", "hdfs://node/out"],
    ):
        outcome = here(*arguments)
        assert "hdfs://node/" in outcome.sentence
        assert outcome.code == 2
    assert not list(empty_folder.iterdir())


@pytest.mark.parametrize("place", ELSEWHERE)
def test_options_and_functions_refuse_it(empty_folder: Path, place: str) -> None:
    for name in ("history", "path", "oplog", "oplogs"):
        with pytest.raises(UsageError, match=place):
            read_options({name: place})
    with pytest.raises(UsageError, match=place):
        read_options({"oplog": "oplog.bson", "preImages": place})
    with pytest.raises(UsageError, match=place):
        read_oplog_options({"path": place})
    with pytest.raises(UsageError, match=place):
        HistoryTable.create(place, identity="one", begins=0)
    with pytest.raises(UsageError, match=place):
        HistoryTable.open(place)
    with pytest.raises(UsageError, match=place):
        replay(place)
    assert not list(empty_folder.iterdir())


def test_a_file_url_is_the_local_folder(here: Here, empty_folder: Path) -> None:
    folder = empty_folder / "my history"
    created = HistoryTable.create(f"file://{empty_folder}/my%20history", identity="one", begins=5)
    assert HistoryTable.exists(folder)
    assert HistoryTable.open(f"file://localhost{folder}").begins == created.begins == 5
    outcome = here("check", f"file://{empty_folder}/my%20history")
    assert (outcome.code, outcome.lines[-1]) == (0, "sound")
    assert [path.name for path in empty_folder.iterdir()] == ["my history"]


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--no-spark", "--data"],
        ["serve", "--history"],
        ["pipeline", "--source", "oplog.bson", "--history"],
        ["mirror", "--source", "mongodb://127.0.0.1:1", "--to"],
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_the_data_of_another_product_is_left_alone(here: Here, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "WiredTiger").write_text("WiredTiger 11.0.0")
    outcome = here(*command, tmp_path)
    assert outcome.code == 2
    assert "has the file WiredTiger, so it is that of a MongoDB server; name another" in outcome.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["WiredTiger"]
