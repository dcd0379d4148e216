"""The servers under attack: `tailrace serve` as a process, its router, and a real mongod."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from attack.good_client import Raw
from tests.oracle.real_server import RealReplicaSet, missing_mongod

_READY = re.compile(r"ready mongodb://127\.0\.0\.1:(\d+)/")


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    port: int
    process_id: int

    @property
    def is_real(self) -> bool:
        return self.name == "mongod"

    def connect(self, seconds: float = 120) -> Raw:
        return Raw(self.port, seconds)

    def megabytes(self) -> float:
        """Resident memory now."""
        return self._status("VmRSS") / 1024

    def peak_megabytes(self) -> float:
        """The largest resident memory since `reset_peak`."""
        return self._status("VmHWM") / 1024

    def reset_peak(self) -> None:
        Path(f"/proc/{self.process_id}/clear_refs").write_text("5")

    def is_alive(self) -> bool:
        try:
            self._status("VmRSS")
        except (OSError, KeyError):  # a process that has ended has no memory
            return False
        return True

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.process_id}/status").read_text().splitlines()
        return int(dict(line.split(":", 1) for line in lines)[name].split()[0])


@contextmanager
def alone(server: Server, servers: Sequence[Server]) -> Iterator[None]:
    """Stop the other servers meanwhile: a command that could not be ended there takes a whole core."""
    others = [other.process_id for other in servers if other is not server and other.is_alive()]
    for process in others:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in others:
            os.kill(process, signal.SIGCONT)


@contextmanager
def tailrace(name: str = "tailrace", *options: str, held: Path | None = None) -> Iterator[Server]:
    """A server with a data directory of its own; ``held`` is where it reports what kept its event loop."""
    with TemporaryDirectory(prefix="tailrace-attack-") as folder:
        command = [
            sys.executable,
            "-m",
            *(["tailrace"] if held is None else ["attack.held", str(held)]),
            "serve",
            "--port",
            "0",
            "--no-spark",
            "--log-level",
            "error",
        ]
        # Commands of a client that ignores time limits may wait for a transaction that nobody ends.
        command += ["--set-parameter", "transactionLifetimeLimitSeconds=5"]
        command += ["--data", folder, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                found = _READY.match(process.stdout.readline())
                if found is None:
                    raise SystemExit("the server did not start")
                yield Server(name, int(found[1]), process.pid)
            finally:
                process.kill()


@contextmanager
def real_mongod() -> Iterator[Server | None]:
    """A real server of one member; None where there is none."""
    if missing_mongod() is not None:
        yield None
        return
    with TemporaryDirectory(prefix="tailrace-attack-") as folder:
        replica_set = RealReplicaSet(Path(folder))
        try:
            replica_set.start()
            member = replica_set.members[0]
            assert member.process is not None
            yield Server("mongod", member.port, member.process.pid)
        finally:
            replica_set.stop()
