"""The options of `tailrace serve` for TLS."""

import argparse
import os
from pathlib import Path
from typing import Final

from tailrace.errors import UsageError
from tailrace.mongod.server.net.tls import Tls, TlsMode, TlsSettings

_PASSWORD_VARIABLE: Final = "TAILRACE_TLS_PASSWORD_FILE"


def add_tls_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--tls-mode",
        choices=[mode.value for mode in TlsMode],
        default=TlsMode.DISABLED.value,
        help="whether clients may or have to use TLS; default: %(default)s",
    )
    add(
        "--tls-certificate-key-file",
        metavar="FILE",
        type=Path,
        help="the server's certificate and its private key, as PEM; read again after SIGHUP",
    )
    add(
        "--tls-certificate-key-file-password-file",
        metavar="FILE",
        type=Path,
        default=os.environ.get(_PASSWORD_VARIABLE),
        help=f"a file with the password of the private key. Default: {_PASSWORD_VARIABLE}",
    )
    add(
        "--tls-ca-file",
        metavar="FILE",
        type=Path,
        help="certificates, as PEM, one of which has to have signed those of the clients",
    )
    add(
        "--tls-allow-connections-without-certificates",
        action="store_true",
        help="with --tls-ca-file: accept clients without a certificate, too",
    )
    add(
        "--tls-cluster-file",
        metavar="FILE",
        type=Path,
        help="certificate and key that the server's own pipeline presents; default: those of the server",
    )


def tls_of(arguments: argparse.Namespace) -> Tls | None:
    """Read the certificates; raises `UsageError` if they cannot be used."""
    mode = TlsMode(arguments.tls_mode)
    path = arguments.tls_certificate_key_file
    if mode is TlsMode.DISABLED:
        if path is not None or arguments.tls_ca_file is not None:
            raise UsageError("certificates are given, but TLS is disabled; add --tls-mode requireTLS")
        return None
    if path is None:
        raise UsageError(f"--tls-mode {mode} needs a certificate; name it with --tls-certificate-key-file")
    password_file = arguments.tls_certificate_key_file_password_file
    return Tls(
        TlsSettings(
            path,
            mode,
            password_file=None if password_file is None else Path(password_file),
            ca_file=arguments.tls_ca_file,
            cluster_file=arguments.tls_cluster_file,
            allow_connections_without_certificates=arguments.tls_allow_connections_without_certificates,
        )
    )
