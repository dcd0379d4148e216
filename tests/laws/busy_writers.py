"""Clients that write all the time, even while the server is killed and restarted."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

SECONDS = 240
"""How long the last write may take."""
DATABASE = "once"
_DEPOSED = {91, 189, 10107, 11600, 11602, 13435, 13436}
"""Codes of a member that stops, recovers or is no longer primary."""


class Deployment(Protocol):
    def client(self) -> MongoClient[dict[str, Any]]: ...


class Writer(threading.Thread):
    """Inserts, batches, updates and transactions, until `end` is called."""

    def __init__(self, name: str, seed: int, deployment: Deployment, pause: float) -> None:
        super().__init__(name=name)
        self._longest_pause = pause
        self._rng = random.Random(seed)
        self._deployment = deployment
        self._ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._deployment.client() as client:
                number = 0
                while not self._ending.wait(self._rng.uniform(0.0, self._longest_pause)):
                    number += 1
                    with suppress_lost_connection():
                        self._write(client, f"{self.name}-{number}")
        except BaseException as error:
            self.error = error

    def _write(self, client: Any, name: str) -> None:
        once = client[DATABASE]
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
        assert self.error is None, repr(self.error)


@contextmanager
def suppress_lost_connection() -> Iterator[None]:
    """Ignore the errors that a killed or deposed server causes; the write may have been stored or not."""
    try:
        yield
    except PyMongoError as error:
        if isinstance(error, OperationFailure) and not _is_passing(error):
            raise


def _is_passing(error: OperationFailure) -> bool:
    details: Any = error.details or {}
    parts = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    codes = {error.code, *(part.get("code") for part in parts)}
    # Another client may set fail points that make up errors which a driver retries.
    is_retryable = any(map(error.has_error_label, ("TransientTransactionError", "RetryableWriteError")))
    return is_retryable or bool(codes & _DEPOSED)


@contextmanager
def writing(deployment: Deployment, seed: int, pause: float = 0.05) -> Iterator[None]:
    """Run two writers during a block; `pause` is the longest time between two writes, in seconds."""
    writers = [Writer(f"w{number}", seed + number, deployment, pause) for number in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.end()
