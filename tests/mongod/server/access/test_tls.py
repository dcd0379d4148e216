"""TLS: who gets a connection, and what is in the log of those who do not."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

from tailrace.errors import UsageError
from tailrace.mongod.server.net.tls import Tls, TlsMode, TlsSettings
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.access.conftest import ROOT
from tests.mongod.server.raw_client import TIMEOUT_SECONDS, RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for
from tests.support.certificates import Authority, common_name

SUBJECT = "CN=app,O=Tailrace tests,C=DE"
X509 = {"authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external"}
FAILED = "Connection ended in the TLS handshake"


class Certificates:
    """An authority, the certificate of a server, and those of clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.server = self.authority.sign("server")
        self.app = self.authority.sign("app")

    def tls(self, **settings: object) -> Tls:
        return Tls(TlsSettings(self.server, ca_file=self.authority.path, **settings))  # type: ignore[arg-type]

    def options(self, certificate: Path | None = None) -> Document:
        """The options of PyMongo."""
        own = {} if certificate is None else {"tlsCertificateKeyFile": str(certificate)}
        return {"tls": True, "tlsCAFile": str(self.authority.path), **own}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[RunningServer]:
    """TLS is required, certificates are not; the authority's user `SUBJECT` may do everything."""
    tls = certificates.tls(allow_connections_without_certificates=True, handshake_seconds=0.5)
    with running(auth=True, first_user=ROOT, tls=tls) as server:
        with connected(server, username=ROOT[0], password=ROOT[1], **certificates.options()) as root:
            roles = [{"role": "root", "db": "admin"}]
            root["$external"].command("createUser", SUBJECT, roles=roles)
        yield server


@contextmanager
def raw_tls(
    server: RunningServer,
    certificates: Certificates,
    certificate: Path | None = None,
    **limits: ssl.TLSVersion,
) -> Iterator[RawClient]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates.authority.path)
    for name, version in limits.items():
        setattr(context, name, version)
    if certificate is not None:
        context.load_cert_chain(certificate)
    with (
        socket.create_connection(server.address, timeout=TIMEOUT_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as endpoint,
    ):
        yield RawClient(endpoint)


def failure_of(server: RunningServer, endpoint: socket.socket) -> str:
    """Why the handshake of a client failed, by the one line of the log."""
    host, port = endpoint.getsockname()

    def reasons() -> list[str]:
        lines = [line["attr"] for line in server.log() if line["msg"] == FAILED]
        return [line["error"] for line in lines if line["remote"] == f"{host}:{port}"]

    wait_for(lambda: bool(reasons()))
    [reason] = reasons()
    return reason


# -- connections ------------------------------------------------------------------------------------------


def test_a_large_document_travels_whole(secured: RunningServer, certificates: Certificates) -> None:
    with connected(secured, username=ROOT[0], password=ROOT[1], **certificates.options()) as client:
        client.shop.large.insert_one({"_id": 1, "text": "x" * 9_000_000})
        found = client.shop.large.find_one()
    assert found is not None
    assert len(found["text"]) == 9_000_000


def test_the_ready_address_says_that_tls_is_required(secured: RunningServer) -> None:
    assert secured.uri.endswith("/?replicaSet=rs0&tls=true")


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_versions_that_are_accepted(secured: RunningServer, certificates: Certificates, version: str) -> None:
    limit = ssl.TLSVersion[version]
    with raw_tls(secured, certificates, minimum_version=limit, maximum_version=limit) as raw:
        assert raw.call({"ping": 1})["ok"] == 1


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_older_versions_are_refused(secured: RunningServer, certificates: Certificates) -> None:
    old = ssl.TLSVersion.TLSv1_1
    with (
        pytest.raises((ssl.SSLError, OSError)),
        raw_tls(secured, certificates, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=old),
    ):
        pass


def test_a_client_without_tls_is_refused_with_one_line(secured: RunningServer) -> None:
    with raw_client(secured) as raw:
        raw.send({"hello": 1})
        assert raw.is_closed()
        reason = failure_of(secured, raw.socket)
    assert reason == "this server requires TLS, and the client does not use it"


@pytest.mark.parametrize(
    ("sent", "reason"), [(b"", "sent nothing"), (b"\x16\x03\x01", "handshake is taking longer")]
)
def test_a_client_that_stalls_is_ended_and_others_are_not(
    secured: RunningServer, certificates: Certificates, sent: bytes, reason: str
) -> None:
    with socket.create_connection(secured.address, timeout=TIMEOUT_SECONDS) as stalling:
        stalling.sendall(sent)
        with raw_tls(secured, certificates) as raw:
            assert raw.call({"ping": 1})["ok"] == 1
        assert stalling.recv(1) == b""
        assert reason in failure_of(secured, stalling)


def test_a_broken_handshake_is_one_line(secured: RunningServer) -> None:
    with socket.create_connection(secured.address, timeout=TIMEOUT_SECONDS) as broken:
        broken.sendall(b"\x16\x03\x01\x00\x05hello")
        while broken.recv(100):
            pass
        assert failure_of(secured, broken)
    assert not [line for line in secured.log() if line["s"] == "E"]


@pytest.mark.parametrize("kind", ["expired", "foreign", "for servers"])
def test_a_certificate_that_is_not_valid_is_refused(
    secured: RunningServer, certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    made = {
        "expired": lambda: certificates.authority.sign("old", common_name("app"), days=-1),
        "foreign": lambda: Authority(tmp_path, "foreign").sign("app"),
        "for servers": lambda: certificates.authority.sign("other", usages=[ExtendedKeyUsageOID.SERVER_AUTH]),
    }[kind]()
    with raw_tls(secured, certificates, made) as raw:
        with pytest.raises((OSError, AssertionError)):
            raw.call({"ping": 1})
        assert "the client's certificate is refused" in failure_of(secured, raw.socket)


@pytest.mark.parametrize("mode", [TlsMode.ALLOW, TlsMode.PREFER])
def test_both_kinds_of_connections_on_one_port(certificates: Certificates, mode: TlsMode) -> None:
    with running(tls=certificates.tls(mode=mode)) as server:
        assert "tls" not in server.uri
        with connected(server) as client:
            client.shop.orders.insert_one({"_id": 1})
        with connected(server, **certificates.options(certificates.app)) as client:
            assert client.shop.orders.count_documents({}) == 1
        with (
            connected(server, serverSelectionTimeoutMS=200, **certificates.options()) as client,
            pytest.raises(ConnectionFailure),
        ):
            client.admin.command("ping")  # it has no certificate, which a client that uses TLS needs here


def test_a_cluster_uses_tls_on_every_port(certificates: Certificates) -> None:
    tls = certificates.tls(allow_connections_without_certificates=True)
    with ShardedCluster(shards=1, tls=tls) as cluster:
        with cluster.client(**certificates.options()) as client:
            client.shop.orders.insert_one({"_id": 1})
            shards = list(client.config.shards.find())
        for shard in shards:
            address = shard["host"].partition("/")[2]
            uri = f"mongodb://{address}/?directConnection=true"
            with MongoClient[Document](uri, **certificates.options()) as direct:
                assert direct.shop.orders.count_documents({}) == 1
            with (
                MongoClient[Document](uri, serverSelectionTimeoutMS=200) as plain,
                pytest.raises(ConnectionFailure),
            ):
                plain.admin.command("ping")


# -- logging in by certificate ----------------------------------------------------------------------------


def test_a_user_logs_in_with_a_certificate(secured: RunningServer, certificates: Certificates) -> None:
    options = certificates.options(certificates.app)
    with connected(secured, authMechanism="MONGODB-X509", **options) as client:
        client.shop.orders.insert_one({})
        status = client.admin.command("connectionStatus")["authInfo"]
    assert status["authenticatedUsers"] == [{"user": SUBJECT, "db": "$external"}]


def test_a_hello_logs_in_with_a_certificate(secured: RunningServer, certificates: Certificates) -> None:
    with raw_tls(secured, certificates, certificates.app) as raw:
        attempt = {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"}
        reply = raw.call({"hello": 1, "speculativeAuthenticate": {**attempt, "user": "CN=other"}})
        assert "speculativeAuthenticate" not in reply
        reply = raw.call({"hello": 1, "speculativeAuthenticate": attempt})
        assert reply["speculativeAuthenticate"] == {"dbname": "$external", "user": SUBJECT}
        assert raw.call({"find": "orders", "$db": "shop"})["ok"] == 1


def test_a_certificate_without_a_user(secured: RunningServer, certificates: Certificates) -> None:
    stranger = certificates.authority.sign("stranger")
    with raw_tls(secured, certificates, stranger) as raw:
        reply = raw.call(X509)
        assert (reply["code"], reply["codeName"]) == (11, "UserNotFound")
        assert raw.call({"find": "orders", "$db": "shop"})["code"] == 13
        assert raw.call({**X509, "user": SUBJECT})["code"] == 18
        assert raw.call({**X509, "$db": "admin"})["code"] == 17


def test_a_client_without_a_certificate_cannot_log_in_by_one(
    secured: RunningServer, certificates: Certificates
) -> None:
    with raw_tls(secured, certificates) as raw:
        reply = raw.call({**X509, "user": SUBJECT})
    assert (reply["code"], reply["errmsg"]) == (18, "No verified subject name available from client")


def test_a_user_of_a_certificate_is_restricted_to_addresses(
    secured: RunningServer, certificates: Certificates
) -> None:
    name = "CN=far,O=Tailrace tests,C=DE"
    far = certificates.authority.sign("far")
    with connected(secured, username=ROOT[0], password=ROOT[1], **certificates.options()) as root:
        restrictions = [{"clientSource": ["10.0.0.1"]}]
        root["$external"].command("createUser", name, roles=[], authenticationRestrictions=restrictions)
    with raw_tls(secured, certificates, far) as raw:
        reply = raw.call(X509)
    assert (reply["code"], reply["errmsg"]) == (18, "Authentication failed.")


# -- files ------------------------------------------------------------------------------------------------


def test_certificates_are_rotated_without_a_restart(certificates: Certificates, tmp_path: Path) -> None:
    own = Certificates(tmp_path)
    newer = Authority(tmp_path, "newer")
    tls = own.tls(allow_connections_without_certificates=True)
    with running(tls=tls) as server, connected(server, **own.options()) as client:
        own.server.write_text("no certificate")
        with pytest.raises(OperationFailure, match="no certificate and private key") as failure:
            client.admin.command("rotateCertificates")
        assert failure.value.code == 140
        newer.sign("server")
        client.admin.command("rotateCertificates", 1, message="a new authority")
        assert client.admin.command("ping")["ok"] == 1  # on its old connection
        trusting = {"tls": True, "tlsCAFile": str(newer.path)}
        with connected(server, **trusting) as other:
            assert other.admin.command("ping")["ok"] == 1
        with (
            connected(server, serverSelectionTimeoutMS=200, **own.options()) as other,
            pytest.raises(ConnectionFailure),
        ):
            other.admin.command("ping")


def test_a_server_without_tls_has_nothing_to_rotate(server: RunningServer) -> None:
    with connected(server) as client, pytest.raises(OperationFailure) as failure:
        client.admin.command("rotateCertificates")
    assert failure.value.code == 140


def test_files_that_cannot_be_used(certificates: Certificates, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no certificate")
    mixed = tmp_path / "mixed.pem"
    parts = [
        path.read_text().partition("-----BEGIN PRIVATE") for path in (certificates.app, certificates.server)
    ]
    mixed.write_text(parts[0][0] + parts[1][1] + parts[1][2])
    authority = certificates.authority
    expired = authority.sign("expired", days=-1)
    for_clients = authority.sign("for clients", usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
    locked = authority.sign("locked", password="a secret word")
    wrong = tmp_path / "wrong"
    wrong.write_text("another word\n")
    for settings, sentence in [
        (TlsSettings(tmp_path / "none"), "cannot be read from .*none: No such file or directory"),
        (TlsSettings(text), "no certificate and private key in PEM format"),
        (TlsSettings(mixed), "the private key in it does not belong to its certificate"),
        (TlsSettings(expired), "cannot be used: certificate has expired; replace it"),
        (TlsSettings(for_clients), "cannot be used: unsuitable certificate purpose; replace it"),
        (TlsSettings(certificates.server, ca_file=text), "has no certificates in PEM format"),
        (TlsSettings(certificates.server, ca_file=tmp_path / "none"), "--tls-ca-file cannot be read from"),
        (TlsSettings(locked), "is encrypted; name a file with its password"),
        (TlsSettings(locked, password_file=wrong), "or the password is wrong"),
        (TlsSettings(locked, password_file=tmp_path / "none"), "password .* cannot be read from"),
    ]:
        with pytest.raises(UsageError, match=sentence):
            Tls(settings)
    wrong.write_text("a secret word\n")
    Tls(TlsSettings(locked, password_file=wrong))
