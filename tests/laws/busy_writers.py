"""Clients that write all the time, even while the server is killed and restarted."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError

from tests.mongod.server.served import ServedProcess

SECONDS = 240
"""How long the last write may take."""


class Writer(threading.Thread):
    """Inserts, batches, updates and transactions, until `end` is called."""

    def __init__(self, name: str, seed: int, process: ServedProcess, pause: float) -> None:
        super().__init__(name=name)
        self._longest_pause = pause
        self._rng = random.Random(seed)
        self._process = process
        self._ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._process.client() as client:
                number = 0
                while not self._ending.wait(self._rng.uniform(0.0, self._longest_pause)):
                    number += 1
                    with suppress_lost_connection():
                        self._write(client, f"{self.name}-{number}")
        except BaseException as error:
            self.error = error

    def _write(self, client: Any, name: str) -> None:
        once = client.once
        choice = self._rng.randrange(4)
        if choice == 0:
            once.single.insert_one({"_id": name})
        elif choice == 1:
            once.batches.insert_many([{"_id": f"{name}-{n}"} for n in range(self._rng.randrange(2, 40))])
        elif choice == 2:
            once.counters.update_one({"_id": self.name}, {"$inc": {"n": 1}}, upsert=True)
        else:
            with client.start_session() as session, session.start_transaction():
                once.left.insert_one({"_id": name}, session=session)
                once.right.insert_one({"_id": name}, session=session)

    def end(self) -> None:
        self._ending.set()
        self.join(SECONDS)
        assert not self.is_alive()
        assert self.error is None


@contextmanager
def suppress_lost_connection() -> Iterator[None]:
    """Ignore the errors that a killed server causes; the write may have been stored or not."""
    try:
        yield
    except PyMongoError as error:
        if isinstance(error, OperationFailure) and not error.has_error_label("TransientTransactionError"):
            raise


@contextmanager
def writing(process: ServedProcess, seed: int, pause: float = 0.05) -> Iterator[None]:
    """Run two writers during a block; `pause` is the longest time between two writes, in seconds."""
    writers = [Writer(f"w{number}", seed + number, process, pause) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.end()
