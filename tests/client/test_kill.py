"""A server is killed and restarted while a stream is read and documents are written.

`make test-slow` kills it a thousand times.
"""

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, DuplicateKeyError

from tests.client.shells import SHELLS, Event, keys, opened, take
from tests.mongod.server.served import SECONDS, ServedProcess, served

PATIENT: dict[str, Any] = {"serverSelectionTimeoutMS": SECONDS * 1000}


class Writer(threading.Thread):
    """Inserts numbers until `finish`; each is acknowledged before the next."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._condition = threading.Condition()
        self._is_over = False
        self.written = 0

    def run(self) -> None:
        with MongoClient[Event](self._uri, **PATIENT) as client:
            while not self._is_over:
                try:
                    client.killed.numbers.insert_one({"_id": self.written})
                except ConnectionFailure:
                    continue  # it may or may not have been inserted: try again
                except DuplicateKeyError:
                    pass  # it had been inserted
                with self._condition:
                    self.written += 1
                    self._condition.notify()

    def wait_for(self, count: int) -> None:
        """Wait until ``count`` numbers are acknowledged."""
        with self._condition:
            assert self._condition.wait_for(lambda: self.written >= count, SECONDS)

    def finish(self) -> int:
        """Stop, and return how many numbers were acknowledged."""
        self._is_over = True
        self.join(SECONDS)
        assert not self.is_alive()
        return self.written


def read_through_kills(folder: Path, shell: str, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    folder.mkdir()
    with (
        served(folder, "--log-level", "warning") as process,
        opened(shell, process.uri, "killed.numbers", client=PATIENT) as stream,
    ):
        writer = Writer(process.uri)
        writer.start()
        seen: list[Event] = []
        for _ in range(kills):
            writer.wait_for(writer.written + rng.randint(1, 40))
            seen += take(stream, rng.randint(0, writer.written - len(seen)))
            _kill_and_start(process)
        writer.wait_for(writer.written + 1)
        written = writer.finish()
        seen += take(stream, written - len(seen))
        assert keys(seen) == list(range(written)), f"shell {shell}, seed {seed}"
        assert stream.try_next() is None


def _kill_and_start(process: ServedProcess) -> None:
    process.kill()
    process.start()


def test_a_kill_loses_and_doubles_nothing(tmp_path: Path, shell: str) -> None:
    read_through_kills(tmp_path / "server", shell, seed=1, kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("seed", range(100))
def test_many_kills_lose_and_double_nothing(tmp_path: Path, shell: str, seed: int) -> None:
    read_through_kills(tmp_path / "server", shell, seed=100 + seed, kills=5)
