"""A cluster in its own process, killed while clients use it and started again on its data."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from pymongo import MongoClient

from tests.mongod.server.served import Document, ServedProcess, served


@contextmanager
def serving(
    folder: Path, *, shards: int = 2, **options: Any
) -> Iterator[tuple[ServedProcess, MongoClient[Document]]]:
    """A cluster on the data in a folder, and a client whose requests fail soon after a kill."""
    options = {"serverSelectionTimeoutMS": 5000, **options}
    with served(folder, "--shards", str(shards)) as process, process.client(**options) as client:
        yield process, client


def kill_at_work(
    process: ServedProcess,
    rng: Random,
    done: Sequence[str],
    worker: Thread,
    *others: Thread,
    more: int = 2,
    within: float = 0.05,
) -> None:
    """Kill a cluster at a random moment, ``within`` seconds after a worker has recorded more results.

    The other workers run at the same time, until their requests fail.
    """
    known = len(done)
    workers = (*others, worker)
    for each in workers:
        each.start()
    while len(done) < known + more:
        worker.join(rng.uniform(0.001, 0.05))
        assert worker.is_alive(), done
    worker.join(rng.uniform(0, within))
    process.kill()
    for each in workers:
        each.join()
