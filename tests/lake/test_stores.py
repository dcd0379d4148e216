"""Every back end that a history can be stored in has the same behaviour."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tailrace.errors import HistoryError, StoreUnavailableError, UsageError
from tailrace.events.change_event import ChangeEvent
from tailrace.lake.commit import commit
from tailrace.lake.compaction import compact
from tailrace.lake.files.table_log import delta_table
from tailrace.lake.retention import retain
from tailrace.lake.rows import RowBuilder
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.lake.storage.object_store import ObjectStore
from tailrace.lake.storage.store_options import store_options
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tailrace.lake.writer import write_files
from tailrace.pipeline.failure import failure_of
from tests.cli.console import Here
from tests.lake.stored import canonical_events, fill
from tests.support.object_store import ObjectStoreServer
from tests.support.whole_events import whole_events
from tests.support.workload import generate

BACK_ENDS = ("local", "s3")


@pytest.fixture(params=BACK_ENDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "history")
    objects: ObjectStoreServer = request.getfixturevalue("objects")
    return objects.url(uuid4().hex)


@pytest.fixture
def store(place: str) -> LogStore:
    store = open_store(place)
    store.prepare()
    return store


@pytest.fixture(scope="module")
def events() -> list[ChangeEvent]:
    return canonical_events(generate(11, operations=60))


def shown(table: HistoryTable) -> list[bytes | None]:
    return [raw for batch in table.read(table.begins) for raw in whole_events(batch)]


def expected(events: list[ChangeEvent]) -> list[bytes | None]:
    return whole_events(RowBuilder().batch(events))


def test_a_name_is_created_once(store: LogStore) -> None:
    assert store.create("one.json", b"first")
    assert not store.create("one.json", b"second")
    assert store.read("one.json") == b"first"
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda number: store.create("two.json", b"%d" % number), range(12)))
    assert sum(made) == 1
    assert store.read("two.json") == b"%d" % made.index(True)


def test_a_file_has_its_name_when_it_is_whole(store: LogStore) -> None:
    file = store.new_file("part.parquet")
    file.content.write(b"0123456789")
    assert store.head("part.parquet") is None
    assert file.place("part.parquet")
    file.discard()
    with store.open("part.parquet") as opened:
        opened.seek(4)
        assert (opened.size(), opened.read(3), opened.read()) == (10, b"456", b"789")
    other = store.new_file("part.parquet")
    other.content.write(b"other")
    assert not other.place("part.parquet")
    assert other.place("part-2.parquet")
    other.discard()
    abandoned = store.new_file("three.parquet")
    abandoned.content.write(b"x")
    abandoned.discard()
    found = {file.name: file.size for file in store.list()}
    assert found == {"part.parquet": 10, "part-2.parquet": 5}


def test_files_are_listed_folder_by_folder_and_deleted(store: LogStore) -> None:
    table = HistoryTable.create(store.place, identity="one", begins=0)
    assert store.create("_delta_log/x", b"")
    assert store.create("beside", b"12")
    assert [file.name for file in store.list()] == ["beside"]
    assert {file.name for file in store.list("_delta_log")} == {f"_delta_log/{0:020d}.json", "_delta_log/x"}
    assert list(store.list("nothing")) == []
    found = store.head("beside")
    assert found is not None
    assert (found.name, found.size) == ("beside", 2)
    store.delete("beside")
    store.delete("beside")
    assert store.head("beside") is None
    for missing in (store.read, store.open):
        with pytest.raises(FileNotFoundError):
            missing("beside")
    assert table.place == store.place


def test_a_history_is_written_followed_merged_and_removed(place: str, events: list[ChangeEvent]) -> None:
    assert not HistoryTable.exists(place)
    with pytest.raises(HistoryError, match="there is no history in"):
        HistoryTable.open(place)
    table = HistoryTable.create(place, identity="one", begins=0)
    assert HistoryTable.exists(place)
    follower = HistoryTable.open(place)
    fill(table, events, pieces=10)
    assert follower.has_next()
    assert follower.refresh()
    assert shown(follower) == shown(table) == expected(events)
    before = follower.read(0, batch_rows=8)
    first = next(before)
    assert compact(table, min_files=3) == 10
    assert vacuum(table, grace_seconds=60) == 0
    assert vacuum(table, grace_seconds=-1) == 10
    rest = [raw for batch in (first, *before) for raw in whole_events(batch)]
    assert rest == expected(events)
    assert shown(HistoryTable.open(place)) == expected(events)
    middle = events[len(events) // 2].entry.ts
    more = write_files(place, [], name="none")
    assert commit(table, more, after=table.through, through=table.through + middle)
    assert retain(table, max_age_seconds=0) == 1
    assert HistoryTable.open(place).begins == events[-1].entry.ts


def test_a_reader_continues_after_the_log_was_cleared(place: str) -> None:
    table = HistoryTable.create(place, identity="one", begins=0)
    follower = HistoryTable.open(place)
    for number in range(1, 6):
        assert commit(table, (), after=number - 1, through=number)
    delta_table(table.store).create_checkpoint()
    for version in range(5):
        table.store.delete(f"_delta_log/{version:020d}.json")
    assert follower.refresh()
    assert follower.through == HistoryTable.open(place).through == 5


def test_of_two_writers_one_is_refused(place: str, events: list[ChangeEvent]) -> None:
    one = HistoryTable.create(place, identity="one", begins=0)
    end = events[-1].entry.ts
    other = HistoryTable.open(place)
    rows = RowBuilder().batch(events)
    files = write_files(place, [rows], name="0-1")
    again = write_files(place, [rows], name="0-1")
    assert [file.path for file in again] == [file.path for file in files]
    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(lambda table: commit(table, files, after=0, through=end), (one, other)))
    assert sorted(done) == [False, True]
    with pytest.raises(HistoryError, match="disagree"):
        commit(other, (), after=5, through=end + 1)
    assert shown(one) == expected(events)


def test_the_shards_of_a_source_are_in_every_commit(place: str) -> None:
    shards = {"s0": {"host": "s0/a:1"}, "s1": {"host": "s1/b:2", "left": [7, 0]}}
    table = HistoryTable.create(place, identity="one", begins=0)
    assert table.shards == {}
    assert commit(table, (), after=0, through=1, shards=shards)
    assert commit(table, (), after=1, through=2)
    assert table.shards == HistoryTable.open(place).shards == shards
    follower = HistoryTable.open(place)
    assert commit(table, (), after=2, through=3, shards={"s0": shards["s0"]})
    follower.refresh()
    assert follower.shards == {"s0": shards["s0"]}


def test_a_commit_whose_answer_was_lost_is_made_once(objects: ObjectStoreServer) -> None:
    place = objects.url(uuid4().hex)
    table = HistoryTable.create(place, identity="one", begins=0)
    objects.fail("lost", "PUT", "_delta_log", 2)
    assert commit(table, (), after=0, through=1)
    assert (table.version, HistoryTable.open(place).through) == (1, 1)
    # A commit of somebody else, with the same content but for its number, is not taken for it.
    other = HistoryTable.open(place)
    assert commit(other, (), after=1, through=2)
    assert not commit(table, (), after=1, through=2)


def test_a_store_that_does_not_answer_is_tried_again_later(objects: ObjectStoreServer) -> None:
    place = objects.url(uuid4().hex)
    table = HistoryTable.create(place, identity="one", begins=0)
    objects.fail("refused", "PUT", "_delta_log", 100)
    with pytest.raises(StoreUnavailableError, match=f"the object store of {place} does not answer") as caught:
        commit(table, (), after=0, through=1)
    failure = failure_of(caught.value)
    assert failure.is_retryable
    assert failure.is_source_away
    objects.fail("refused", "PUT", "_delta_log", 0)
    assert commit(table, (), after=0, through=1)


def test_the_command_checks_a_history_in_an_object_store(
    objects: ObjectStoreServer, events: list[ChangeEvent], here: Here
) -> None:
    place = objects.url(uuid4().hex)
    table = HistoryTable.create(place, identity="one", begins=0)
    fill(table, events, pieces=2)
    outcome = here("check", place)
    assert (outcome.code, outcome.lines[-1]) == (0, "sound")
    table.store.delete(table.files[1].path)
    outcome = here("check", place)
    assert outcome.code == 1
    assert f"{place}/{table.files[1].path} is in the log of the history, but not there" in outcome.lines[-2]
    assert "no history" in here("check", objects.url("nothing")).output.decode()


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("gs://bucket/history", {}),
        ("az://container/history", {"azure_storage_account_name": "a", "azure_storage_account_key": "eA=="}),
        ("abfss://c@account.dfs.core.windows.net/h", {"azure_storage_account_key": "eA=="}),
        ("s3a://bucket/deep/history", {"aws_region": "eu-west-1"}),
    ],
)
def test_urls_of_other_stores_are_understood(url: str, options: dict[str, str]) -> None:
    store = ObjectStore(url, {**options, "hdfs_user": "of another store"})
    assert store.delta_options == options
    assert store.poll_seconds >= 0.25


def test_wrong_options_are_one_sentence_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="AWS_ALLOW_HTTP=true"):
        ObjectStore("s3://bucket/h", {"aws_endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(UsageError, match="names no folder of a bucket"):
        open_store("s3://bucket")
    file = tmp_path / "store"
    file.write_text("# of the store\nexport AWS_REGION=eu-west-1\nAWS_SECRET_ACCESS_KEY='word'\n\n")
    options = store_options(
        environment={"TAILRACE_STORE_FILE": str(file), "AWS_REGION": "other", "HOME": "/"}
    )
    assert dict(options) == {"aws_region": "eu-west-1", "aws_secret_access_key": "word"}
    assert "word" not in repr(options)
    file.write_text("AWS_SECRET_WORD=word\n")
    with pytest.raises(UsageError, match=r"line 1 of .*store is not NAME=VALUE") as caught:
        store_options(str(file))
    assert "word" not in str(caught.value).lower().replace("password", "")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        store_options(str(tmp_path / "missing"))
