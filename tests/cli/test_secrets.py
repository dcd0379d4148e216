"""Passwords of deployments: where commands take them from, and where they are never seen."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.mongod.server.net.tls import Tls, TlsSettings
from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here
from tests.cli.test_watch_command import time_of
from tests.support.certificates import Authority

PASSWORD = "s3cret:/@ \u00e4"


Words = list[str | Path]


class Deployment:
    """A replica set with TLS and users: `app` by a password, and the subject of `certificate`."""

    def __init__(self, folder: Path, replica_set: ReplicaSet) -> None:
        self.folder = folder
        self.replica_set = replica_set
        self.certificate = folder / "client.pem"
        self.password = folder / "password"
        self.start = time_of(replica_set)

    @property
    def uri(self) -> str:
        """It has no password."""
        return f"{self.replica_set.uri.replace('://', '://app@')}&tlsCAFile={self.folder / 'authority.pem'}"

    @property
    def whole_uri(self) -> str:
        quoted = "s3cret%3A%2F%40%20%C3%A4"
        return self.uri.replace("app@", f"app:{quoted}@")

    @property
    def uri_of_certificate(self) -> str:
        own = f"&tlsCertificateKeyFile={self.certificate}&authMechanism=MONGODB-X509"
        return self.uri.replace("app@", "") + own


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    authority = Authority(folder)
    authority.sign("client")
    tls = Tls(
        TlsSettings(
            authority.sign("server"), ca_file=authority.path, allow_connections_without_certificates=True
        )
    )
    (folder / "password").write_text(f"{PASSWORD}\n")
    with ReplicaSet(auth=True, first_user=("app", PASSWORD), tls=tls) as replica_set:
        trusted = {"tlsCAFile": str(authority.path)}
        client = replica_set.client(username="app", password=PASSWORD, **trusted)
        subject = "CN=client,O=Tailrace tests,C=DE"
        roles = [{"role": "root", "db": "admin"}]
        client["$external"].command("createUser", subject, roles=roles)
        client.shop.create_collection("orders")
        found = Deployment(folder, replica_set)
        client.shop.orders.insert_one({"_id": 1})
        yield found


def test_every_way_to_give_a_password(
    deployment: Deployment, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_text(deployment.whole_uri + "\n")
    without = tmp_path / "without"
    without.write_text(deployment.uri)
    begin = ["--max", "1", "--start-at-operation-time", deployment.start]
    ways: list[tuple[dict[str, str], Words]] = [
        ({}, [deployment.uri, "shop.orders", "--password-file", deployment.password]),
        ({}, ["--password-file", deployment.password, "--source-file", without, "shop.orders"]),
        ({}, ["shop.orders", "--source-file", source]),
        ({}, [deployment.uri_of_certificate, "shop.orders"]),
        ({"TAILRACE_PASSWORD": PASSWORD}, [deployment.uri, "shop.orders"]),
        ({"TAILRACE_SOURCE": deployment.whole_uri}, ["shop.orders"]),
        (
            {"TAILRACE_SOURCE": "mongodb://nowhere.invalid/"},
            [deployment.uri_of_certificate, "shop.orders"],
        ),
    ]
    for number, (variables, words) in enumerate(ways):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            outcome = here("watch", *words, *begin)
        assert (outcome.code, outcome.error) == (0, ""), number
        assert json.loads(outcome.output)["operationType"] == "insert", number


@pytest.mark.parametrize(
    "command", [["watch"], ["pipeline", "--history", "h", "--source"], ["spec-test", ".", "--uri"]]
)
@pytest.mark.parametrize(
    "secret", ["mongodb://app:s3cret@h/", "mongodb://h/?tlsCertificateKeyFilePassword=s3cret"]
)
def test_a_password_in_the_arguments_is_refused(here: Here, command: list[str], secret: str) -> None:
    outcome = here(*command, secret)
    assert outcome.code == 2
    assert (
        "use --password-file FILE, the variable TAILRACE_PASSWORD or --source-file FILE" in outcome.sentence
    )
    assert "s3cret" not in outcome.sentence


def test_what_is_missing_or_double_is_one_sentence(
    deployment: Deployment, here: Here, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("mongodb://app:s3cret@h:port/")
    no_user = deployment.uri.replace("app@", "")
    faults: list[tuple[Words, str]] = [
        ([deployment.uri], "the password of the user app is missing; use --password-file FILE or"),
        ([], "name the deployment: its address, or --source-file FILE with it"),
        ([deployment.uri, "--source-file", source], "instead of a connection string in the arguments"),
        ([deployment.uri, "--password-file", tmp_path / "none"], "cannot be read from"),
        ([no_user, "--password-file", deployment.password], "names no user"),
        (["--source-file", source], "mongodb://app:***@h:port/ is not the address of a deployment"),
        (["a", "b", "c"], "unrecognized arguments: c"),
    ]
    for words, sentence in faults:
        outcome = here("watch", *words)
        assert outcome.code == 2
        assert sentence in outcome.sentence
        assert "s3cret" not in outcome.sentence


def test_tls_errors_are_one_sentence(deployment: Deployment, here: Here, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    wait = "&serverSelectionTimeoutMS=300"
    trusting = deployment.uri.replace(str(deployment.folder / "authority.pem"), str(stranger.path)) + wait
    plain = deployment.replica_set.uri.replace("&tls=true", "") + wait
    missing = deployment.uri.replace("authority.pem", "none.pem")
    foreign = (
        deployment.uri_of_certificate.replace(str(deployment.certificate), str(stranger.sign("x"))) + wait
    )
    password = ("--password-file", deployment.password)
    faults: list[tuple[Words, str]] = [
        ([trusting, *password], "CERTIFICATE_VERIFY_FAILED"),
        ([plain], "the deployment does not answer"),
        ([missing, *password], "is not the address of a deployment"),
        ([foreign], "the deployment does not answer"),
    ]
    for words, sentence in faults:
        outcome = here("watch", *words)
        assert outcome.code == 2
        assert sentence in outcome.sentence


def forms(secret: str) -> list[bytes]:
    """A secret as it may be found: as it is, quoted, and anywhere in a base64 text."""
    data = secret.encode()
    inside = [base64.b64encode(b"x" * shift + data)[4:-4] for shift in range(3)]
    return [data, *inside]


@pytest.mark.slow  # a minute: logs of Spark at the level debug
@pytest.mark.usefixtures("java")
def test_the_password_of_a_pipeline_is_nowhere_to_be_seen(deployment: Deployment, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    log = tmp_path / "log"
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events),
        "spark.eventLog.compress": "false",
        "spark.sql.maxMetadataStringLength": "100000",
    }
    command = [sys.executable, "-m", "tailrace", "pipeline", "--source", deployment.uri]
    command += ["--password-file", str(deployment.password), "--history", str(tmp_path / "history")]
    command += ["--master", "local[1,4]", "--trigger", "available-now", "--log-level", "debug"]
    for name, value in conf.items():
        command += ["--spark-conf", f"{name}={value}"]
    seen: set[bytes] = set()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        while process.poll() is None:
            seen |= set(command_lines())
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
    assert process.returncode == 0, log.read_text()[-2000:]
    assert any(b"tailrace\0pipeline" in line for line in seen)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(events in path.parents for path in files)
    texts = [*seen, *(path.read_bytes() for path in files)]
    for secret in ("s3cret:/@", "s3cret%3A%2F%40"):
        for form in forms(secret):
            assert not [text[:200] for text in texts if form in text]


def command_lines() -> Iterator[bytes]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                yield Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
