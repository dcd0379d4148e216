"""`tailrace serve` as its own process, which can be killed and started again on the same data."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient

Document = dict[str, Any]
SECONDS = 30


class ServedProcess:
    """The server's process; the port stays the same over restarts, so that drivers reconnect."""

    def __init__(self, folder: Path, *options: str, spark: bool = False) -> None:
        self._folder = folder
        self._options = options if spark else ("--no-spark", *options)
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None
        self.uri = ""
        # Restarts must not compile all modules again, whatever the environment of this process is.
        self._environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    @property
    def data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        """Start, and wait until connections are accepted."""
        with open(self._folder / "log", "a") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tailrace", "serve", "--data", str(self.data)),
                    *("--port", self._port, *self._options),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
            )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready.startswith("ready mongodb://"), (self._folder / "log").read_text()
        self.uri = ready.split()[1]
        self._port = self.uri.partition("?")[0].rstrip("/").rpartition(":")[2]

    def kill(self) -> None:
        """Kill it."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it with SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(SECONDS)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def client(self, **options: Any) -> "MongoClient[Document]":
        """PyMongo on it, with timeouts long enough for a restart; the caller closes it."""
        timeouts = {"serverSelectionTimeoutMS": SECONDS * 1000, "heartbeatFrequencyMS": 500}
        return MongoClient(self.uri, **{**timeouts, **options})

    def faults(self) -> list[Document]:
        """The errors that the server has logged, over all starts."""
        lines = [json.loads(line) for line in (self._folder / "log").read_text().splitlines()]
        return [line for line in lines if line["s"] == "E"]


@contextmanager
def served(folder: Path, *options: str, spark: bool = False) -> Iterator[ServedProcess]:
    """A started process, stopped after the block; optionally with the pipeline as its child."""
    process = ServedProcess(folder, *options, spark=spark)
    process.start()
    try:
        yield process
    finally:
        process.kill()
