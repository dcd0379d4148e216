"""Drivers and shells on a server that requires TLS: with passwords, and with certificates."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from tailrace.mongod.server.net.tls import Tls, TlsSettings
from tailrace.testing.replica_set import ReplicaSet
from tests.clients.programs import FOLDER, Document, run
from tests.clients.test_access import PASSWORD, run_mongosh, run_node, uri_of
from tests.support.certificates import Authority

SUBJECT = "CN=reader,O=Tailrace tests,C=DE"
JARS = FOLDER.parents[1] / ".jars"


class Secured:
    """A replica set that requires TLS, with a user `reader` and one of a certificate."""

    def __init__(self, folder: Path, replica_set: ReplicaSet) -> None:
        self.folder = folder
        self._set = replica_set

    def uri(self, *, by_certificate: bool, has_files: bool = True) -> str:
        if not by_certificate:
            uri = uri_of(self._set, "reader")
        else:
            uri = f"{self._set.uri}&authMechanism=MONGODB-X509"
        if not has_files:
            return uri
        own = f"&tlsCertificateKeyFile={self.folder / 'reader.pem'}" if by_certificate else ""
        return f"{uri}&tlsCAFile={self.folder / 'authority.pem'}{own}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    authority.sign("reader")
    settings = TlsSettings(
        authority.sign("server"), ca_file=authority.path, allow_connections_without_certificates=True
    )
    with ReplicaSet(auth=True, first_user=("root", PASSWORD), tls=Tls(settings)) as replica_set:
        root = replica_set.client(username="root", password=PASSWORD, tlsCAFile=str(authority.path))
        root.shop.orders.insert_one({"_id": 1})
        root.shop.command("createUser", "reader", pwd=PASSWORD, roles=["read"])
        roles = [{"role": "read", "db": "shop"}]
        root["$external"].command("createUser", SUBJECT, roles=roles)
        yield Secured(folder, replica_set)


@pytest.mark.parametrize("by_certificate", [False, True], ids=["password", "certificate"])
@pytest.mark.parametrize("program", [run_node, run_mongosh])
def test_a_program_logs_in_over_tls(
    program: Callable[[str, Path, str], Document], by_certificate: bool, secured: Secured, tmp_path: Path
) -> None:
    seen = program(secured.uri(by_certificate=by_certificate), tmp_path, "shop")
    user = SUBJECT if by_certificate else "reader"
    assert seen == {"user": user, "found": 1, "insert": 13, "watch": 13, "stream": None}


def test_the_java_driver_logs_in_over_tls(secured: Secured, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler on the path")
    if not (JARS / ".ready").exists():
        pytest.skip("the Java driver is not there; `make clients` downloads it, if it can")
    pem = (secured.folder / "reader.pem").read_bytes()
    key = load_pem_private_key(pem, None)
    assert isinstance(key, EllipticCurvePrivateKey)
    store = tmp_path / "reader.p12"
    secret = BestAvailableEncryption(b"of the store")
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"reader", key, load_pem_x509_certificate(pem), None, secret)
    )
    uris = [secured.uri(by_certificate=which, has_files=False) for which in (False, True)]
    program: list[str | Path] = ["java", "-cp", f"{JARS}/*", FOLDER / "JavaAccess.java", "shop"]
    seen = run([*program, secured.folder / "authority.pem", store, *uris], tmp_path)["seen"]
    refused = {"found": 1, "insert": 13, "watch": 13, "stream": None}
    assert seen == [{"user": user, **refused} for user in ("reader", SUBJECT)]
