"""A cluster in a process of its own, killed while others are busy with it and served again from its data."""

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
    """A cluster on what a folder has of it, with a client that soon gives up on one that is gone."""
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
    """Kill a cluster at a random moment, when a worker has noted so much more and is busy with the next.

    ``within`` so many seconds of that it dies. The others work beside the worker; nobody answers them either.
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
