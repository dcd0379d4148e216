"""A quarter of an hour of ordinary and careless use: what the server holds must not grow without end.

Writers, transactions and watchers work all the time on a small oplog, with pre-images and TTL indexes that
expire. Every fifth stream is left open, and many streams are never read: they end when they were idle for two
minutes, also those of sessions, which otherwise live as long as the session.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from attack.good_client import GoodClient
from attack.servers import Server

Document = dict[str, Any]

OPTIONS: Final = ("--oplog-size", "16")
SAMPLES: Final = 6
GROWTH_MEGABYTES: Final = 32
"""How much more memory may be used at the end than in the middle."""
_UNREAD: Final = 200
_EXPIRE_SECONDS: Final = 60
_IDLE_MILLISECONDS: Final = 120_000
_LEFT_OPEN: Final = 0.2
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """What the server holds at one moment."""

    seconds: float
    megabytes: float
    files: int
    cursors: int
    oplog_entries: int
    pre_images: int
    ping_p99: float

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.0f} s {self.megabytes:6.0f} MB {self.files:5d} files "
            f"{self.cursors:6,d} cursors {self.oplog_entries:8,d} entries {self.pre_images:7,d} pre-images "
            f"{self.ping_p99 * 1000:6.1f} ms ping p99"
        )


class _Work:
    """The threads that use the server; `counts` is what they have done."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._ending = threading.Event()
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self._left_open: list[Any] = []
        jobs = (self._write, self._write, self._watch, self._transact)
        self._threads = [
            threading.Thread(target=self._repeat, args=(job, _SEED + number))
            for number, job in enumerate(jobs)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(60)

    def _repeat(self, job: Any, seed: int) -> None:
        rng = random.Random(seed)
        with MongoClient[Document](self._uri) as client:
            while not self._ending.is_set():
                try:
                    job(client, rng)
                except PyMongoError as error:
                    self.errors.append(f"{type(error).__name__}: {error}"[:200])

    def _write(self, client: MongoClient[Document], rng: random.Random) -> None:
        used, key = client.soak.used, rng.randrange(2_000)
        choice = rng.randrange(5)
        if choice == 0:
            used.insert_many([{"text": "x" * rng.randrange(400), "at": datetime.now(UTC)} for _ in range(5)])
        elif choice == 1:
            used.delete_one({"_id": key})
        elif choice == 2:
            list(used.find({"n": {"$gt": key}}).sort("n").limit(20))
        else:
            used.update_one({"_id": key}, {"$inc": {"n": 1}, "$set": {"at": datetime.now(UTC)}}, upsert=True)
        self.counts["operations"] += 1

    def _transact(self, client: MongoClient[Document], rng: random.Random) -> None:
        def work(session: ClientSession) -> None:
            for name in ("left", "right"):
                client.soak[name].insert_one({"at": datetime.now(UTC), "n": rng.random()}, session=session)

        with client.start_session() as session:
            session.with_transaction(work)
        self.counts["transactions"] += 1

    def _watch(self, client: MongoClient[Document], rng: random.Random) -> None:
        stream = client.soak.used.watch(full_document_before_change="whenAvailable", max_await_time_ms=50)
        for _ in range(rng.randrange(3)):
            stream.try_next()
        self.counts["streams"] += 1
        if rng.random() < _LEFT_OPEN:
            self._left_open.append(stream)
        else:
            stream.close()


def soak(server: Server, seconds: float) -> tuple[list[Sample], Counter[str], list[str]]:
    """Use a server for some time; returns samples, what was done, and errors that clients have seen."""
    uri = f"mongodb://127.0.0.1:{server.port}/"
    with MongoClient[Document](uri) as client, _unread_streams(client):
        _prepare(client)
        work = _Work(uri)
        samples: list[Sample] = []
        work.start()
        began = time.monotonic()
        try:
            for number in range(1, SAMPLES + 1):
                good = GoodClient(server.port)
                time.sleep(max(began + seconds * number / SAMPLES - time.monotonic(), 0))
                samples.append(_sample(server, client, time.monotonic() - began, good.waits().ping_p99))
                print(f"    {samples[-1]}", flush=True)
        finally:
            work.end()
        return samples, work.counts, work.errors


def _prepare(client: MongoClient[Document]) -> None:
    client.admin.command(
        "setClusterParameter",
        {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": _EXPIRE_SECONDS}}},
    )
    client.admin.command(
        "setParameter",
        1,
        ttlMonitorSleepSecs=5,
        cursorTimeoutMillis=_IDLE_MILLISECONDS,
        enableTimeoutOfInactiveSessionCursors=True,
    )
    client.soak.create_collection("used", changeStreamPreAndPostImages={"enabled": True})
    for name in ("used", "left", "right"):
        client.soak[name].create_index("at", expireAfterSeconds=_EXPIRE_SECONDS)


@contextmanager
def _unread_streams(client: MongoClient[Document]) -> Iterator[None]:
    streams = [client.soak.watch() for _ in range(_UNREAD)]
    try:
        yield
    finally:
        with suppress(PyMongoError):
            for stream in streams:
                stream.close()


def _sample(server: Server, client: MongoClient[Document], seconds: float, ping_p99: float) -> Sample:
    status = client.admin.command("serverStatus")
    return Sample(
        seconds=seconds,
        megabytes=server.megabytes(),
        files=len(list(Path(f"/proc/{server.process_id}/fd").iterdir())),
        cursors=int(status["metrics"]["cursor"]["open"]["total"]),
        oplog_entries=client.local["oplog.rs"].estimated_document_count(),
        pre_images=client.config["system.preimages"].estimated_document_count(),
        ping_p99=ping_p99,
    )
