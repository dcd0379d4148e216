"""Real MongoDB servers on loopback: one mongod, and replica sets of them."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tools.get_mongod import BINARY, LIBRARIES, folder

Document = dict[str, Any]
START_SECONDS = 60
_OPTIONS = (
    *("--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", "0.5"),
    *("--setParameter", "enableTestCommands=1"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    # It writes to the oplog every five minutes, which moves the positions of streams.
    *("--setParameter", "disableLogicalSessionCacheRefresh=true"),
)


def missing_mongod() -> str | None:
    """Return why no real server can be started here, or None."""
    if (folder() / BINARY).exists():
        return None
    return f"no real mongod in {folder()}; `make oracle` fetches one where it can"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealMongod:
    """One process; `start` after `kill` continues on the same files and port."""

    def __init__(self, data: Path, *options: str, replica_set: str | None = "rs0") -> None:
        self.port = free_port()
        self.data = data
        self._options = options
        self._replica_set = replica_set
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.data.with_suffix(".log")

    def client(self, **options: Any) -> MongoClient[Document]:
        """Return a client of this process alone."""
        return MongoClient(f"mongodb://{self.address}/?directConnection=true", **options)

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        command = [str(folder() / BINARY), "--port", str(self.port), "--dbpath", str(self.data)]
        if self._replica_set is not None:
            command += ["--replSet", self._replica_set]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *_OPTIONS, *self._options],
                stdout=log,
                stderr=log,
                env={**os.environ, "LD_LIBRARY_PATH": str(folder() / LIBRARIES)},
            )
        deadline = time.monotonic() + START_SECONDS
        with self.client(serverSelectionTimeoutMS=200) as client:
            while True:
                try:
                    client.admin.command("ping")
                except PyMongoError:
                    assert self.process.poll() is None, self.log.read_text()[-2000:]
                    assert time.monotonic() < deadline, "the real mongod does not answer"
                else:
                    return

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        """End the process and wait for its end."""
        if self.process is not None:
            self.process.send_signal(signal_number)
            self.process.wait()
            self.process = None


class RealReplicaSet:
    """A real replica set that has a primary once it was started."""

    def __init__(self, data: Path, *options: str, members: int = 1, name: str = "rs0") -> None:
        self.name = name
        self.members = [
            RealMongod(data / f"member{number}", *options, replica_set=name) for number in range(members)
        ]

    @property
    def uri(self) -> str:
        return f"mongodb://{','.join(member.address for member in self.members)}/?replicaSet={self.name}"

    def client(self, **options: Any) -> MongoClient[Document]:
        return MongoClient(self.uri, **options)

    def start(self, settings: Document | None = None) -> None:
        for member in self.members:
            member.start()
        config = {
            "_id": self.name,
            "members": [
                {"_id": number, "host": member.address} for number, member in enumerate(self.members)
            ],
            **({} if settings is None else {"settings": settings}),
        }
        with self.members[0].client() as client:
            try:
                client.admin.command("replSetInitiate", config)
            except OperationFailure as error:
                if error.code != 23:  # AlreadyInitialized: it continues on older files
                    raise
        self.primary()

    def primary(self, seconds: float = START_SECONDS) -> RealMongod:
        """Wait for a primary that accepts writes, and return it."""
        deadline = time.monotonic() + seconds
        while True:
            for member in self.members:
                if member.process is not None and _is_primary(member):
                    return member
            assert time.monotonic() < deadline, "the real replica set has no primary"
            time.sleep(0.05)

    def stop(self) -> None:
        for member in self.members:
            member.kill()


def _is_primary(member: RealMongod) -> bool:
    try:
        with member.client(serverSelectionTimeoutMS=1000) as client:
            return bool(client.admin.command("hello")["isWritablePrimary"])
    except PyMongoError:
        return False


@contextmanager
def real_replica_set(data: Path, *options: str, members: int = 1) -> Iterator[RealReplicaSet]:
    """A started real replica set, killed after the block; its files are removed unless the block raises."""
    replica_set = RealReplicaSet(data, *options, members=members)
    try:
        replica_set.start()
        yield replica_set
    finally:
        replica_set.stop()
    for member in replica_set.members:
        shutil.rmtree(member.data)
