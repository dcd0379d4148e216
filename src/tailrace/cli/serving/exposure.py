"""Refuse to let a network have a server that nobody has to log in to."""

import argparse
import ipaddress
import socket
from typing import Final

from tailrace.errors import UsageError
from tailrace.mongod.server.net.tls import TlsMode

TEST_COMMANDS: Final = "enableTestCommands"


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address; True for a name that has none."""
    if not host:
        return False  # all addresses
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return True  # nothing can listen there, which is reported later
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def check_exposure(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` if others than this machine could connect without a user or without TLS."""
    if is_loopback(arguments.host) or arguments.insecure:
        return
    missing = []
    if not arguments.auth:
        missing.append("access control (--auth)")
    if arguments.tls_mode != TlsMode.REQUIRE:
        missing.append("TLS (--tls-mode requireTLS)")
    if missing:
        raise UsageError(
            f"others can connect to {arguments.host or 'all addresses'}, and the server has no "
            f"{' and no '.join(missing)}; add it, listen on 127.0.0.1, or add --insecure"
        )
