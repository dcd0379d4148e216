"""TLS of a server: its certificate, and whose certificates it accepts.

The files are read at the start, and again when an administrator asks for it. Connections that are open keep
what they have begun with.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError

_ROUNDS: Final = 4
"""More than the messages of a handshake need."""
_SECONDS_TO_SHAKE_HANDS: Final = 20.0
_MISMATCH: Final = "KEY_VALUES_MISMATCH"


class TlsMode(StrEnum):
    """MongoDB's names."""

    DISABLED = "disabled"
    ALLOW = "allowTLS"
    """Clients may use TLS; what the server starts itself does not."""
    PREFER = "preferTLS"
    """Clients may use TLS; what the server starts itself does."""
    REQUIRE = "requireTLS"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    certificate_key_file: Path
    """A certificate, those that it depends on, and its private key, as PEM."""
    mode: TlsMode = TlsMode.REQUIRE
    password_file: Path | None = None
    """Contains the password of the private key, if it is encrypted."""
    ca_file: Path | None = None
    """Clients' certificates have to be signed by one of these; without it they are not looked at."""
    cluster_file: Path | None = None
    """The certificate that the server's own pipeline presents; by default the server's."""
    allow_connections_without_certificates: bool = False
    handshake_seconds: float = _SECONDS_TO_SHAKE_HANDS

    @property
    def needs_client_certificates(self) -> bool:
        return self.ca_file is not None and not self.allow_connections_without_certificates

    def key_password(self) -> str:
        """The password of the private key; called only for an encrypted one."""
        path = self.password_file
        if path is None:
            raise UsageError(
                f"the private key in {self.certificate_key_file} is encrypted; name a file with its "
                "password with --tls-certificate-key-file-password-file"
            )
        try:
            return path.read_text().removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(
                f"the password of the private key cannot be read from {path}: {reason}"
            ) from None


class Tls:
    """The certificates that a process uses now; all of its nodes share it."""

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files; raises `UsageError` if they cannot be used."""
        self.settings = settings
        self.context = _server_context(settings)
        self.is_required = settings.mode is TlsMode.REQUIRE
        self.on_reload: list[Callable[[], None]] = []
        """What else uses the server's certificate."""

    def reload(self) -> None:
        """Read the files again; raises `UsageError`, and changes nothing then."""
        self.context = _server_context(self.settings)
        for use in self.on_reload:
            use()

    def pipeline_options(self) -> dict[str, str]:
        """The options of the connection string with which a process of this server connects to it.

        It may connect to an address that the certificate does not name. Raises `UsageError` if the server
        would refuse the certificate that the process presents.
        """
        settings = self.settings
        if settings.mode is TlsMode.ALLOW:
            return {}
        options = {"tls": "true"}
        client = _client_context(settings)
        if settings.needs_client_certificates:
            own = settings.cluster_file or settings.certificate_key_file
            _load_chain(client, own, settings)
            options["tlsCertificateKeyFile"] = str(own.absolute())
            if settings.password_file is not None:
                options["tlsCertificateKeyFilePassword"] = settings.key_password()
        try:
            _shake_hands(self.context, client)
        except ssl.SSLError as error:
            raise UsageError(
                "the server's own pipeline cannot connect with the certificates: "
                f"{_reason(error)}; sign the server's certificate with --tls-ca-file, and name a certificate "
                "for clients with --tls-cluster-file, or use --no-spark"
            ) from None
        if settings.ca_file is None:
            return {**options, "tlsInsecure": "true"}
        return {
            **options,
            "tlsCAFile": str(settings.ca_file.absolute()),
            "tlsAllowInvalidHostnames": "true",
        }


def connection_string(addresses: Sequence[str], options: Mapping[str, str], tls: Tls | None) -> str:
    """The connection string of clients; where the certificates of the deployment are is up to them."""
    if tls is not None and tls.is_required:
        options = {**options, "tls": "true"}
    shown = "&".join(f"{name}={value}" for name, value in options.items())
    return f"mongodb://{','.join(addresses)}/" + (f"?{shown}" if shown else "")


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, settings.certificate_key_file, settings)
    if settings.ca_file is not None:
        _load_authorities(context, settings.ca_file)
        context.verify_mode = ssl.CERT_REQUIRED if settings.needs_client_certificates else ssl.CERT_OPTIONAL
    _check_own_certificate(context, settings.certificate_key_file)
    return context


def _client_context(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if settings.ca_file is None:
        context.verify_mode = ssl.CERT_NONE
    else:
        _load_authorities(context, settings.ca_file)
    return context


def _load_chain(context: ssl.SSLContext, path: Path, settings: TlsSettings) -> None:
    try:
        context.load_cert_chain(path, password=settings.key_password)
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            reason = "the private key in it does not belong to its certificate"
        elif settings.password_file is not None:
            reason = f"it has no certificate and private key, or the password is wrong ({_reason(error)})"
        else:
            reason = f"it has no certificate and private key in PEM format ({_reason(error)})"
        raise UsageError(f"{path} cannot be used for TLS: {reason}") from None
    except OSError as error:
        raise UsageError(f"the certificate cannot be read from {path}: {error.strerror}") from None


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise UsageError(f"{path} has no certificates in PEM format ({_reason(error)})") from None
    except OSError as error:
        raise UsageError(
            f"the certificates of --tls-ca-file cannot be read from {path}: {error.strerror}"
        ) from None


def _check_own_certificate(context: ssl.SSLContext, path: Path) -> None:
    """Refuse a certificate that no client accepts: one that has expired, or is not for servers."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(path)
    try:
        _shake_hands(context, client)
    except ssl.SSLCertVerificationError as error:
        raise UsageError(
            f"the certificate in {path} cannot be used: {error.verify_message}; replace it with a valid one"
        ) from None
    except ssl.SSLError:
        pass  # this client has no certificate, which the server may require


def _shake_hands(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> None:
    """Run a handshake in memory; raises the error of the side that refuses the other one."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client_context.wrap_bio(to_client, to_server),
        server_context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_ROUNDS):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).replace("_", " ").lower()
