"""The option `--http` of `tailrace serve` and `tailrace pipeline`: where the page, metrics and probes are."""

import argparse
import traceback
from typing import Final

from tailrace.cli.serving.exposure import is_loopback
from tailrace.errors import UsageError
from tailrace.web.http_thread import DEFAULT_PORT, HttpThread

OFF: Final = "off"
_LOOPBACK: Final = "127.0.0.1"


def add_http_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        metavar="HOST:PORT|off",
        help="address of the page, the metrics and the probes; port 0 picks a free one; default: "
        f"{_LOOPBACK}:{DEFAULT_PORT}, or a free port if that is taken",
    )


def http_of(arguments: argparse.Namespace, *, is_guarded: bool) -> HttpThread | None:
    """Bind the address that the options name; None for no page.

    ``is_guarded``: visitors have to log in, and what they send is encrypted. Raises `UsageError` if others
    than this machine could see the page without that.
    """
    given: str | None = arguments.http
    if given == OFF:
        return None
    if given is None:
        return HttpThread(_LOOPBACK, DEFAULT_PORT, is_default=True)
    host, colon, port = given.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http takes HOST:PORT or off, not {given}")
    host = host.removeprefix("[").removesuffix("]")
    if not (is_loopback(host) or is_guarded or arguments.insecure):
        raise UsageError(
            f"others can connect to {host or 'all addresses'} and see the page without a user and TLS; "
            f"serve it on {_LOOPBACK}, {_remedy(arguments)}or add --insecure"
        )
    return HttpThread(host, int(port))


def in_one_line(error: BaseException) -> str:
    """An exception and where it was raised, for a log."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


def _remedy(arguments: argparse.Namespace) -> str:
    return "add --auth and --tls-mode requireTLS, " if hasattr(arguments, "tls_mode") else ""
