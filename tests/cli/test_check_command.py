"""`tailrace check`: sound data is sound, and each damage is named."""

import json
import shutil
from pathlib import Path

import pytest
from bson import Timestamp

from tailrace.lake.table import HistoryTable
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.cli.console import Here
from tests.support.fronted import Fronted


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with its history, after a clean end."""
    folder = tmp_path_factory.mktemp("check") / "data"
    with ReplicaSet(data=folder) as replica_set:
        orders = replica_set.client().shop.orders
        orders.create_index("n")
        orders.insert_many([{"_id": number, "n": number, "text": "x" * 3000} for number in range(60)])
        builder = HistoryBuilder(replica_set.server.store, folder / "history")
        builder.build()
        orders.delete_one({"_id": 3})
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def test_sound_data(here: Here, folder: Path) -> None:
    outcome = here("check", folder)
    assert (outcome.code, outcome.lines[-1]) == (0, "sound"), outcome
    found = json.loads(here("check", folder, "--json").output)
    assert found["sound"]
    assert found["faults"] == []
    assert found["data"][0]["records"] > 60
    assert found["history"]["events"] > 60


def wrong(here: Here, *arguments: str | Path) -> str:
    outcome = here("check", *arguments, "--json")
    assert outcome.code == 1, outcome
    found = json.loads(outcome.output)
    assert not found["sound"]
    return "\n".join(found["faults"])


def test_a_truncated_data_file(here: Here, folder: Path) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.truncate(8 * 4096)
    assert "truncated" in wrong(here, folder)


def test_a_record_that_is_not_bson(here: Here, folder: Path) -> None:
    content = (folder / "data.mdb").read_bytes()
    (folder / "data.mdb").write_bytes(content.replace(b"\x02text\0\xb9\x0b", b"\x02text\0\xb9\xff"))
    assert "shop.orders" in wrong(here, folder)


def test_a_missing_file_of_the_history(here: Here, folder: Path) -> None:
    file = folder / "history" / HistoryTable.open(folder / "history").files[0].path
    file.unlink()
    assert f"{file} is in the log of the history, but not there" in wrong(here, folder)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_damaged_file_of_the_history(here: Here, folder: Path, place: float) -> None:
    file = folder / "history" / HistoryTable.open(folder / "history").files[0].path
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 16
    file.write_bytes(content)
    assert f"{file} of the history is damaged" in wrong(here, folder)
    assert str(file) in wrong(here, folder / "history")  # a history alone


def test_a_damaged_log_of_the_history(here: Here, folder: Path) -> None:
    (folder / "history" / "_delta_log" / f"{1:020d}.json").write_bytes(b"{")
    assert "is damaged" in wrong(here, folder)


def test_a_history_of_other_data(here: Here, folder: Path, tmp_path: Path) -> None:
    with ReplicaSet(data=tmp_path / "other") as replica_set:
        replica_set.client().shop.orders.insert_one({"_id": 1})
    found = wrong(here, tmp_path / "other", "--history", folder / "history")
    assert "belongs to" in found
    assert "does not have the entry" in found


def test_a_cluster(here: Here, tmp_path: Path) -> None:
    with ShardedCluster(data=tmp_path / "data", shards=2) as cluster:
        client = cluster.client()
        client.admin.command("shardCollection", "shop.orders", key={"_id": "hashed"})
        client.shop.orders.insert_many([{"_id": number} for number in range(40)])
    found = json.loads(here("check", tmp_path / "data", "--json").output)
    assert found["faults"] == []
    assert [Path(data["path"]).name for data in found["data"]] == ["config", "shard0", "shard1"]
    assert "history" not in found


def test_what_is_no_data(here: Here, tmp_path: Path) -> None:
    for arguments in ([tmp_path], [tmp_path / "missing"], [tmp_path, "--history", tmp_path]):
        outcome = here("check", *arguments)
        assert outcome.code == 2
        assert str(tmp_path) in outcome.sentence


def test_data_that_a_server_uses(here: Here, tmp_path: Path) -> None:
    with ReplicaSet(data=tmp_path / "data"):
        outcome = here("check", tmp_path / "data")
    assert outcome.code == 2
    assert "is used by another server" in outcome.sentence


def test_the_data_of_a_server_in_front_with_the_history_of_its_source(
    here: Here, original: Path, tmp_path: Path
) -> None:
    data, history = tmp_path / "front", tmp_path / "history"
    with ReplicaSet() as source:
        source.client().shop.orders.insert_one({"_id": 1})
        HistoryBuilder(source.server.store, history).build()
        with (
            Fronted(source.uri, data=data, history=history) as front,
            front.client().shop.orders.watch(start_at_operation_time=Timestamp(1, 1)) as stream,
        ):
            assert next(stream)["documentKey"] == {"_id": 1}
    outcome = here("check", data, "--history", history)
    assert (outcome.code, outcome.lines[-1]) == (0, "sound"), outcome
    assert "and the data to a server of" in wrong(here, data, "--history", original / "history")
