"""`tailrace serve` on a network: refused without access control and TLS, and what it is like with both."""

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.cli.console import Here
from tests.cli.serving import end, serving
from tests.mongod.server.running import Document, wait_for
from tests.mongod.server.served import served
from tests.support.certificates import Authority


@pytest.fixture
def options(tmp_path: Path) -> list[str | Path]:
    """Options of a server with a certificate and a first user."""
    authority = Authority(tmp_path)
    authority.sign("server", password="of the key")
    authority.sign("app")
    (tmp_path / "key-password").write_text("of the key\n")
    (tmp_path / "password").write_text("a secret word\n")
    return [
        *("--auth", "--auth-user", "admin", "--auth-password-file", tmp_path / "password"),
        *("--tls-mode", "requireTLS", "--tls-certificate-key-file", tmp_path / "server.pem"),
        *("--tls-certificate-key-file-password-file", tmp_path / "key-password"),
        *("--audit-log", tmp_path / "audit.log"),
    ]


def test_a_server_for_others(tmp_path: Path, options: list[str | Path]) -> None:
    with serving("--host", "0.0.0.0", *options) as (process, uri):

        def client(authority: str) -> MongoClient[Document]:
            trusted = str(tmp_path / f"{authority}.pem")
            return MongoClient(uri, username="admin", password="a secret word", tlsCAFile=trusted)

        with client("authority") as first:
            first.shop.orders.insert_one({})
            assert not first.admin.command("getParameter", enableTestCommands=1)["enableTestCommands"]
            with pytest.raises(OperationFailure) as failure:
                first.admin.command("configureFailPoint", "failCommand", mode="off")
            assert failure.value.code == 59
            Authority(tmp_path, "newer").sign("server")
            process.send_signal(signal.SIGHUP)
            lines = first.admin.command
            wait_for(lambda: "Read the certificates again" in str(lines("getLog", "global")["log"]))
            audit = tmp_path / "audit.log"
            audit.rename(tmp_path / "audit.old")
            process.send_signal(signal.SIGUSR1)
            wait_for(audit.exists)
            (tmp_path / "server.pem").write_text("nothing")
            process.send_signal(signal.SIGHUP)
            wait_for(lambda: "The certificates stay as they are" in str(lines("getLog", "global")["log"]))
        with client("newer") as second:
            assert second.shop.orders.count_documents({}) == 1
        _, log = end(process, signal.SIGTERM)
    shown = json.dumps(log)
    assert "a secret word" not in shown
    assert "of the key" not in shown
    assert [json.loads(line)["atype"] for line in audit.read_text().splitlines()][-1] == "shutdown"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--host", "0.0.0.0"], "has no access control (--auth) and no TLS (--tls-mode requireTLS)"),
        (["--host", ""], "others can connect to all addresses"),
        (["--host", "0.0.0.0", "--auth"], "has no TLS (--tls-mode requireTLS); add it"),
        (["--host", "::", "--auth", "--tls-mode", "preferTLS"], "has no TLS (--tls-mode requireTLS); add it"),
        (["--tls-mode", "requireTLS"], "needs a certificate; name it with --tls-certificate-key-file"),
        (["--tls-mode", "always"], "invalid choice"),
        (["--tls-ca-file", "ca.pem"], "TLS is disabled; add --tls-mode requireTLS"),
        (
            ["--tls-mode", "allowTLS", "--tls-certificate-key-file", "none"],
            "cannot be read from none: No such",
        ),
    ],
)
def test_a_server_that_is_not_safe_does_not_start(here: Here, given: list[str], words: str) -> None:
    outcome = here("serve", "--no-spark", "--port", "0", *given)
    assert outcome.code == 2
    assert words in outcome.sentence


def test_an_insecure_server_if_it_is_asked_for(tmp_path: Path) -> None:
    wanted = ("--host", "0.0.0.0", "--insecure", "--set-parameter", "enableTestCommands=true")
    with serving(*wanted) as (process, uri):
        with MongoClient[Document](uri) as client:
            client.admin.command("configureFailPoint", "failCommand", mode="off")
            warnings = client.admin.command("getLog", "startupWarnings")["log"]
            assert "Access control is not enabled" in str(warnings)
        end(process, signal.SIGTERM)


@pytest.mark.usefixtures("java")
@pytest.mark.slow
def test_the_pipeline_of_a_cluster_connects_with_tls_a_certificate_and_a_user(
    tmp_path: Path, options: list[str | Path]
) -> None:
    """Without a head, a stream shows only what the pipeline has read from the shards."""
    (tmp_path / "folder").mkdir()
    spark = ("--shards", "1", "--head", "off", "--spark-master", "local[1,4]")
    required = ("--tls-ca-file", str(tmp_path / "authority.pem"))
    files = {"tlsCAFile": str(tmp_path / "authority.pem"), "tlsCertificateKeyFile": str(tmp_path / "app.pem")}
    with served(tmp_path / "folder", *map(str, options), *required, *spark, spark=True) as process:
        with process.client(username="admin", password="a secret word", **files) as client:
            client.shop.orders.insert_one({"_id": 0})
            with client.shop.orders.watch(max_await_time_ms=1000) as stream:
                client.shop.orders.insert_one({"_id": 1})
                assert next(stream)["documentKey"] == {"_id": 1}
        assert process.stop() == 0
    log = (tmp_path / "folder" / "log").read_text()
    assert "of the key" not in log


def test_certificates_that_the_own_pipeline_could_not_connect_with(
    here: Here, tmp_path: Path, java: None
) -> None:
    authority = Authority(tmp_path)
    server = authority.sign("server", usages=[ExtendedKeyUsageOID.SERVER_AUTH])
    files = ("--tls-certificate-key-file", server, "--tls-ca-file", authority.path)
    outcome = here("serve", "--port", "0", "--tls-mode", "requireTLS", *files)
    assert outcome.code == 2
    assert "the server's own pipeline cannot connect with the certificates" in outcome.sentence
    assert "--tls-cluster-file" in outcome.sentence


def test_the_five_commands_of_the_documentation(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    found = re.search(r"^```\n(umask.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    secret, certificate, serve, shell, watch = found[1].splitlines()
    monkeypatch.chdir(tmp_path)
    for command in (secret, certificate):
        subprocess.run(["bash", "-c", command], check=True, capture_output=True)
    words = shlex.split(serve.removeprefix("tailrace serve ").removesuffix(" &"))
    with serving(*words) as (process, uri):
        port = uri.rpartition(":")[2].partition("/")[0]
        administrator = shlex.split(shell)[1].replace("27017", port)
        password = Path("password").read_text().removesuffix("\n")
        with MongoClient[Document](administrator, password=password) as client:
            client.shop.command("createUser", "watcher", pwd="typed", roles=["read"])
            client.shop.create_collection("orders")
            time = client.admin.command("ping")["operationTime"]
            client.shop.orders.insert_one({"_id": 1})
        monkeypatch.setenv("TAILRACE_PASSWORD", "typed")
        start = json.dumps({"$timestamp": {"t": time.time, "i": time.inc}})
        given = [word.replace("27017", port) for word in shlex.split(watch)[1:]]
        outcome = here(*given, "--max", "1", "--start-at-operation-time", start)
        assert (outcome.code, outcome.error) == (0, "")
        assert json.loads(outcome.output)["operationType"] == "insert"
        end(process, signal.SIGTERM)
    assert '"authenticate"' in Path("audit.log").read_text()
