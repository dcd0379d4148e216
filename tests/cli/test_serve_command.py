"""`tailrace serve` as a process: its one line, its log, how it ends, why it does not start."""

import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

from tailrace import ReplicaSet, ShardedCluster
from tests.cli.console import Here
from tests.cli.serving import end, serving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_line_then_a_clean_end(number: int) -> None:
    with serving() as (process, uri):
        assert uri.endswith("/?replicaSet=rs0")
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
            client["shop"]["orders"].insert_one({"_id": 1})
        output, log = end(process, number)
    assert output == ""
    assert [line["msg"] for line in log] == ["Accepting connections", "Shut down"]


def test_data_in_a_directory_stays(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "down"
    for number in (1, 2):
        with serving("--data", data) as (process, uri):
            with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
                orders = client["shop"]["orders"]
                orders.insert_one({"_id": number})
                assert orders.count_documents({}) == number
            if number == 1:
                process.kill()  # acknowledged writes survive
                process.wait(timeout=30)
            else:
                end(process, signal.SIGTERM)


def test_a_shutdown_by_a_client() -> None:
    with serving("--log-level", "warning") as (process, uri):
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
            client.admin.command({"ping": 1})
            with pytest.raises(Exception, match="connection closed"):
                client.admin.command("shutdown")
        output, log = process.communicate(timeout=30)
        assert process.returncode == 0
    assert output == log == ""


def test_options_reach_the_server() -> None:
    options = (
        "--replica-set", "books", "--oplog-size", "7", "--set-parameter", "cursorTimeoutMillis=5",
        "--set-parameter", "writePeriodicNoops=false", "--log-level", "debug",
    )  # fmt: skip
    with serving(*options) as (process, uri):
        assert uri.endswith("/?replicaSet=books")
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
            shown = client.admin.command("getCmdLineOpts")
            assert shown["argv"][:4] == ["tailrace", "serve", "--port", "0"]
            assert shown["parsed"]["replication"] == {"replSet": "books", "oplogSizeMB": 7}
            found = client.admin.command(
                {"getParameter": 1, "cursorTimeoutMillis": 1, "writePeriodicNoops": 1}
            )
            assert found["cursorTimeoutMillis"] == 5
            assert found["writePeriodicNoops"] is False
        _, log = end(process, signal.SIGTERM)
    assert "Connection accepted" in [line["msg"] for line in log]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system has no prlimit")
def test_it_accepts_as_many_connections_as_the_system_allows() -> None:
    with serving(run_by=["sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh"]) as (process, _):
        limit, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert limit == most
        end(process, signal.SIGTERM)


def test_a_standalone_server() -> None:
    with serving("--standalone") as (process, uri):
        assert uri.endswith("/")
        with MongoClient[dict[str, object]](uri, serverSelectionTimeoutMS=10_000) as client:
            assert "setName" not in client.admin.command("hello")
        end(process, signal.SIGTERM)


def test_a_port_in_use(here: Here) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = here("serve", "--no-spark", "--port", str(port))
    assert outcome.code == 2
    assert outcome.sentence == (
        f"cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another port or host, or end what uses it"
    )
    assert outcome.output == b""


def test_a_data_directory_in_use(here: Here, tmp_path: Path) -> None:
    with serving("--data", tmp_path) as (process, _):
        outcome = here("serve", "--no-spark", "--port", "0", "--data", tmp_path)
        assert outcome.code == 2
        assert outcome.sentence == (
            f"the data directory {tmp_path} is used by another server; end that one or name another directory"
        )
        end(process, signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "65536"], "65536 is not a port"),
        (["--port", "many"], "invalid int value"),
        (["--host", "no.such.host.invalid", "--port", "0"], "cannot listen on no.such.host.invalid:0"),
        (["--oplog-size", "0"], "--oplog-size is a number of megabytes"),
        (["--max-size", "0"], "--max-size is a number of gigabytes"),
        (["--replica-set", ""], "a replica set needs a name"),
        (["--advertise", "nowhere"], "--advertise takes HOST:PORT"),
        (["--set-parameter", "speed"], "--set-parameter takes NAME=VALUE"),
        (["--set-parameter", "speed=1"], "there is no server parameter speed"),
        (["--set-parameter", "cursorTimeoutMillis=x"], "Invalid value for parameter cursorTimeoutMillis"),
        (["--log-level", "loud"], "invalid choice"),
        (["--data", "/dev/null"], "cannot use the data directory /dev/null"),
        (["--data", "/proc/nothing"], "cannot use the data directory /proc/nothing"),
        (["--head", "off"], "--head off needs the history"),
        (["--spark-master", "local[1]"], "--spark-master is for a server with a pipeline"),
        (["--images", "rebuilt"], "--images rebuilt is for a --source"),
        (["--snapshot"], "--snapshot is for a --source"),
        (["--snapshot", "--source", "mongodb://a:1"], "add --images rebuilt"),
        (["--images", "rebuilt", "--source", "mongodb://a:1"], "--images rebuilt needs the history"),
        (["--keep-age", "9d"], "--keep-age is for a server with a pipeline"),
        (["--keep-size", "9"], "9 is not a size such as"),
        (["--spark-conf", "spark.x=1"], "--spark-conf is for a server with a pipeline"),
    ],
)
def test_a_server_that_cannot_start_is_one_sentence(here: Here, options: list[str], words: str) -> None:
    outcome = here("serve", "--no-spark", *options)
    assert outcome.code == 2
    assert words in outcome.sentence
    assert outcome.output == b""


def test_a_file_that_is_not_a_store(here: Here, tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"this is not LMDB" * 1000)
    outcome = here("serve", "--no-spark", "--port", "0", "--data", tmp_path)
    assert outcome.code == 2
    assert str(tmp_path) in outcome.sentence


def test_the_data_is_private(tmp_path: Path) -> None:
    data, existing = tmp_path / "data", tmp_path / "existing"
    existing.mkdir(mode=0o755)
    for folder in (data, existing):
        with serving("--data", folder) as (process, _):
            end(process, signal.SIGTERM)
        assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}
    assert data.stat().st_mode & 0o777 == 0o700
    assert existing.stat().st_mode & 0o777 == 0o755  # the user's own folder


def _impatient_client(uri: str) -> "MongoClient[dict[str, Any]]":
    """A client that notices soon that the server has ended."""
    return MongoClient(uri, serverSelectionTimeoutMS=2000, retryReads=False)


@pytest.mark.parametrize("kind", [ReplicaSet, pytest.param(ShardedCluster, marks=pytest.mark.slow)])
def test_it_ends_without_waiting_for_a_source_that_is_away(kind: type[ReplicaSet | ShardedCluster]) -> None:
    # A wait for a server of the source would take ten minutes.
    patient = "serverSelectionTimeoutMS=600000&heartbeatFrequencyMS=500"
    with kind() as source, ThreadPoolExecutor() as threads:
        uri = f"{source.uri}{'&' if '?' in source.uri else '?'}{patient}"
        with serving("--source", uri) as (process, served), _impatient_client(served) as client:
            client.shop.orders.watch(full_document="updateLookup")
            source.stop()
            assert process.stderr is not None
            assert any("The source is away" in line for line in process.stderr)
            waiting = threads.submit(client.shop.customers.watch)
            asked: list[dict[str, Any]] = [{"$currentOp": {}}, {"$match": {"ns": "shop.customers"}}]
            while not list(client.admin.aggregate(asked)):
                assert not waiting.done()
            _, log = end(process, signal.SIGTERM)
            assert log[-1]["msg"] == "Shut down"
            assert isinstance(waiting.exception(), ConnectionFailure | OperationFailure)
