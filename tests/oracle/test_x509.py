"""TLS and certificates on a real server: clients get the same answers, and our commands work there."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pymongo import MongoClient

from tailrace.mongod.server.net.tls import Tls, TlsSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here
from tests.mongod.server.raw_client import RawClient
from tests.oracle.real_server import Document, RealMongod, RealReplicaSet, missing_mongod
from tests.support.certificates import Authority, Name, common_name

SUBJECT = "CN=app,O=Tailrace tests,C=DE"
NAMES: dict[str, Name] = {
    "odd": [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, 'A, "B" + C <x>; \\ =#'),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, " #lead "),
        (NameOID.COMMON_NAME, "\u00e4pp \u20ac"),
    ],
    "long": [
        (NameOID.STATE_OR_PROVINCE_NAME, "B"),
        (NameOID.LOCALITY_NAME, "L"),
        (NameOID.STREET_ADDRESS, "s 1"),
        (NameOID.DOMAIN_COMPONENT, "org"),
        (NameOID.USER_ID, "u"),
        (NameOID.EMAIL_ADDRESS, "a@b"),
        (NameOID.SERIAL_NUMBER, "77"),
        (NameOID.GIVEN_NAME, "g"),
        (NameOID.SURNAME, "s"),
        (NameOID.TITLE, "t"),
        (NameOID.POSTAL_CODE, "1"),
        (NameOID.COMMON_NAME, "#x"),
    ],
}
X509 = {"authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external"}


class SecuredMongod(RealMongod):
    folder: Path

    def client(self, **options: Any) -> MongoClient[Document]:
        trusted = {"tls": True, "tlsCAFile": str(self.folder / "authority.pem")}
        return super().client(**trusted, **options)


class Pair:
    """A real replica set and ours, with the same certificates, users and data."""

    def __init__(self, folder: Path, real: RealReplicaSet, ours: ReplicaSet) -> None:
        self.folder = folder
        self.addresses = {"real": ("127.0.0.1", real.members[0].port), "ours": ours.address}
        self.uris = {"real": f"{real.uri}&tls=true", "ours": ours.uri}

    def uri(self, kind: str, certificate: str) -> str:
        files = (
            f"tlsCAFile={self.folder / 'authority.pem'}&tlsCertificateKeyFile={self.folder / certificate}.pem"
        )
        return f"{self.uris[kind]}&{files}&authMechanism=MONGODB-X509"

    @contextmanager
    def raw(self, kind: str, certificate: str | None) -> Iterator[RawClient]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.folder / "authority.pem")
        if certificate is not None:
            context.load_cert_chain(self.folder / f"{certificate}.pem")
        with (
            socket.create_connection(self.addresses[kind], timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as endpoint,
        ):
            yield RawClient(endpoint)

    def answers(self, kind: str, certificate: str | None, commands: list[Document]) -> list[object]:
        """What is equal on both: codes, messages, users; or that the connection was closed."""
        found: list[object] = []
        try:
            with self.raw(kind, certificate) as raw:
                for command in commands:
                    reply = raw.call(command)
                    fields = ("ok", "code", "codeName", "errmsg", "dbname", "user", "authInfo")
                    shown = {name: reply[name] for name in fields if name in reply}
                    if "hello" in command:
                        more = ("speculativeAuthenticate", "saslSupportedMechs")
                        shown |= {name: reply[name] for name in more if name in reply}
                    found.append(shown)
        except (OSError, AssertionError):
            found.append("closed")
        return found


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("x509")
    authority = Authority(folder)
    # A real server takes clients with the organisation of its own certificate for members of its cluster.
    server = authority.sign("server", [(NameOID.ORGANIZATION_NAME, "Servers"), (NameOID.COMMON_NAME, "s")])
    authority.sign("app")
    authority.sign("stranger")
    authority.sign("far")
    authority.sign("expired", common_name("app"), days=-1)
    authority.sign("for-servers", common_name("app"), usages=[ExtendedKeyUsageOID.SERVER_AUTH])
    for file, name in NAMES.items():
        authority.sign(file, name)
    (folder / "others").mkdir()
    Authority(folder / "others").sign("app").rename(folder / "foreign.pem")
    key = folder / "key"
    key.write_text("shared by the members\n")
    key.chmod(0o400)
    real = RealReplicaSet(
        folder / "real", "--auth", "--keyFile", str(key), "--tlsMode", "requireTLS",
        "--tlsCertificateKeyFile", str(server), "--tlsCAFile", str(authority.path),
        "--tlsAllowConnectionsWithoutCertificates", "--setParameter",
        "authenticationMechanisms=MONGODB-X509,SCRAM-SHA-256",
    )  # fmt: skip
    for member in real.members:
        member.__class__ = SecuredMongod
        member.folder = folder  # type: ignore[attr-defined]
    tls = Tls(TlsSettings(server, ca_file=authority.path, allow_connections_without_certificates=True))
    with ReplicaSet(auth=True, tls=tls, server_version="6.0.27") as ours:
        try:
            real.start()
            both = Pair(folder, real, ours)
            for uri in both.uris.values():
                trusted: Document = {"tlsCAFile": str(authority.path)}
                with MongoClient[Document](uri, **trusted) as client:
                    client.admin.command("createUser", "root", pwd="root", roles=["root"])
                with MongoClient[Document](uri, username="root", password="root", **trusted) as root:
                    roles = [{"role": "root", "db": "admin"}]
                    root["$external"].command("createUser", SUBJECT, roles=roles)
                    far = [{"clientSource": ["10.0.0.1"]}]
                    subject = SUBJECT.replace("app", "far")
                    root["$external"].command("createUser", subject, roles=[], authenticationRestrictions=far)
                    root.shop.orders.insert_one({"_id": 1})
            yield both
        finally:
            real.stop()


SPECULATIVE = {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"}
COMMANDS: list[Document] = [
    {"hello": 1, "saslSupportedMechs": f"$external.{SUBJECT}"},
    {"hello": 1, "speculativeAuthenticate": {**SPECULATIVE, "user": "CN=other"}},
    {**X509, "user": "CN=other"},
    {**X509, "$db": "admin"},
    {"rotateCertificates": 1},
    X509,
    {**X509, "user": SUBJECT},
    {"connectionStatus": 1},
    {"rotateCertificates": 1},
    {"rotateCertificates": 1, "message": 3},
    {"rotateCertificates": 1, "$db": "test"},
    {"logout": 1, "$db": "$external"},
    {"find": "orders", "$db": "shop"},
    {"hello": 1, "speculativeAuthenticate": SPECULATIVE},
    {"connectionStatus": 1},
]


@pytest.mark.parametrize(
    "certificate", ["app", "stranger", "far", "odd", "long", "expired", "foreign", "for-servers", None]
)
def test_certificates_get_the_same_answers(pair: Pair, certificate: str | None) -> None:
    real = pair.answers("real", certificate, COMMANDS)
    assert pair.answers("ours", certificate, COMMANDS) == real
    assert len(real) > 1 or certificate in ("expired", "foreign", "for-servers")


@pytest.mark.parametrize("kind", ["real", "ours"])
def test_watch_with_a_certificate(pair: Pair, here: Here, kind: str) -> None:
    uri = pair.uri(kind, "app")
    with MongoClient[Document](uri) as client:
        first = client.local["oplog.rs"].find_one({"ns": "shop.orders", "op": "i"})
    assert first is not None
    start = json.dumps({"$timestamp": {"t": first["ts"].time, "i": first["ts"].inc}})
    outcome = here("watch", uri, "shop", "--max", "1", "--start-at-operation-time", start)
    assert (outcome.code, outcome.error) == (0, "")
    assert json.loads(outcome.output)["operationType"] == "insert"
    refused = here("watch", pair.uri(kind, "stranger"), "shop")
    assert refused.code == 2
    assert refused.sentence


@pytest.mark.parametrize("kind", ["real", "ours"])
def test_the_source_of_a_pipeline_connects_with_a_certificate(pair: Pair, kind: str) -> None:
    with DeploymentSource(pair.uri(kind, "app")) as source:
        assert source.identity()
        entries = [entry for batch in source.entries("", 0, source.promised()) for entry in batch]
    assert any(b"shop.orders" in entry for entry in entries)
