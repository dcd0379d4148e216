"""The cost of 1,000 open streams without writes.

A getMore without events waits as long as the client asks for; by default one second, so that 1,000 streams
send 1,000 getMores a second. With long waits only the open streams cost something; with the default also the
getMores.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlsplit

from bench.figures import print_goal
from bench.server_process import ServerProcess, serving
from bench.watching import watching

STREAMS = 1_000
SECONDS = 10
SETTLE = 2
PAGE_STARTS = 7
"""Until the packages of the page are imported."""
LONG_WAIT_MS = 60_000
DEFAULT_WAIT = 0


def share_of_core(server: ServerProcess) -> float:
    """Percent of a core that the server uses in the next seconds."""
    began, before = time.monotonic(), server.usage().seconds
    time.sleep(SECONDS)
    return (server.usage().seconds - before) / (time.monotonic() - began) * 100


@contextmanager
def open_page(server: ServerProcess) -> Iterator[None]:
    """Follow what an open page follows: the state and the live events."""
    address = urlsplit(server.page)
    with ExitStack() as stack:
        for path in ("/api/live", "/api/tail"):
            connection = stack.enter_context(closing(HTTPConnection(address.hostname or "", address.port)))
            connection.request("GET", path)
            response = connection.getresponse()
            threading.Thread(target=_read, args=(response,), daemon=True).start()
        yield


def _read(response: HTTPResponse) -> None:
    with suppress(OSError, ValueError, AttributeError):  # it was closed meanwhile
        while response.readline():
            pass


def main() -> None:
    print(f"idle streams: {STREAMS} collection streams, no writes, {SECONDS} s each")
    with serving("idle_streams") as server:
        server.client.bench.events.insert_one({"_id": "first"})
        time.sleep(PAGE_STARTS)
        without = share_of_core(server)
        before = server.usage().megabytes
        print(f"  {'no stream at all':<34}{without:8.2f} %", flush=True)
        with watching(server, STREAMS, LONG_WAIT_MS):
            time.sleep(SETTLE)
            print_goal("getMores of 60 s", share_of_core(server), "below 2 % of a core", " %")
            print_goal("memory", server.usage().megabytes - before, "below 50 MB", " MB")
            alone = share_of_core(server)
            with open_page(server):
                time.sleep(SETTLE)
                more = share_of_core(server) - alone
            print_goal("more with the page open", more, "below 5 % of a core", " %")
        with watching(server, STREAMS, DEFAULT_WAIT) as streams:
            time.sleep(SETTLE)
            share = share_of_core(server)
            streams.stop()
        rate = streams.replies / (SETTLE + SECONDS)
        print(
            f"  {'getMores of 1 s':<34}{share:8.2f} %   "
            f"{rate:.0f} getMores/s, {share * 1e4 / rate:.0f} µs each"
        )
