"""Start a server in a child process, as users start it.

With a folder for profiles the server runs under cProfile, which writes `<name>.prof` there. The profile shows
the event loop but not the writer thread. A profiled run is slower: do not quote its figures.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pymongo import MongoClient

PROFILE_VARIABLE = "BENCH_PROFILE"
"""The environment variable for the folder of profiles; `python -m bench --profile DIR` sets it."""

Document = dict[str, Any]


class Usage(NamedTuple):
    seconds: float
    """Processor time of all threads."""
    megabytes: int
    """Resident memory."""


class ServerProcess:
    """A running server and a client."""

    def __init__(self, uri: str, client: MongoClient[Document], page: str) -> None:
        self.uri = uri
        self.page = page
        """The URL of its page."""
        self.client = client

    @property
    def port(self) -> int:
        assert self.client.address is not None
        return self.client.address[1]

    def usage(self) -> Usage:
        status = self.client.admin.command("serverStatus")
        times = status["extra_info"]
        return Usage(
            (times["user_time_us"] + times["system_time_us"]) / 1e6,
            status["mem"]["resident"],
        )


@contextmanager
def serving(name: str, *options: str) -> Iterator[ServerProcess]:
    """Run a server on a free port, by default with a temporary data directory, during a block."""
    command = [sys.executable, "-m", "tailrace", "serve", "--port", "0", "--log-level", "warning"]
    command += options if "--head" in options else ["--no-spark", *options]
    folder = os.environ.get(PROFILE_VARIABLE)
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        command[1:1] = ["-m", "cProfile", "-o", str(Path(folder) / f"{name}.prof")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("ready "):
                raise SystemExit("the server did not start")
            uri, page = line.split()[1], process.stdout.readline().split()[1]
            with MongoClient[Document](uri, serverSelectionTimeoutMS=5000) as client:
                client.admin.command("ping")
                yield ServerProcess(uri, client, page)
        finally:
            process.terminate()
            process.wait()
