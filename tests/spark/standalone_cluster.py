"""A standalone Spark cluster of two workers on this machine that share no folder with anybody.

Each worker has a mount namespace of its own, in which an empty file system hides the folder of the test.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from tailrace.pipeline.java import use_java
from tests.support.object_store import SECRET

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HIDDEN = 'mount -t tmpfs tailrace "$0" && exec "$@"'
"""The script of a shell that hides a folder, its first argument, from the program that follows."""


def require_namespaces() -> None:
    """Skip a test where mount namespaces are not permitted."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no program unshare, which makes mount namespaces")
    done = subprocess.run([unshare, "-m", "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this user may not make mount namespaces")


class StandaloneCluster:
    """A master and its workers; processes of their own."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """``environment`` are further variables of the workers."""
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        use_java()
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TAILRACE_"))
        } | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **(environment or {})}
        self._logs: list[Path] = []
        self._master = self._start(
            "master",
            [],
            ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)],
        )
        self.workers = [self._worker(number) for number in (1, 2)]

    def _worker(self, number: int) -> "subprocess.Popen[bytes]":
        hidden = ["unshare", "-m", "sh", "-c", HIDDEN, str(self._folder)]
        work = str(self._folder / "work")
        return self._start(
            f"worker{number}",
            hidden,
            ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", work,
             "--host", "127.0.0.1", self.master],
        )  # fmt: skip

    def _start(self, name: str, prefix: list[str], arguments: list[str]) -> "subprocess.Popen[bytes]":
        log = self._folder / f"{name}.log"
        self._logs.append(log)
        with open(log, "wb") as output:
            return subprocess.Popen(
                [*prefix, str(_SPARK_CLASS), *arguments, "--webui-port", "0"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, as if its machine had lost power."""
        _kill(self.workers[number])

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            _kill(process)

    def shown(self) -> str:
        """Everything that the master and the workers have logged."""
        return "".join(log.read_text(errors="replace") for log in self._logs)


@contextmanager
def standalone_cluster(
    folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[StandaloneCluster]:
    require_namespaces()
    cluster = StandaloneCluster(folder, environment)
    try:
        yield cluster
        assert SECRET not in cluster.shown()
    finally:
        cluster.stop()


def start_driver(
    cluster: StandaloneCluster, source: str, history: str, environment: Mapping[str, str], *options: str
) -> "subprocess.Popen[str]":
    """Start `tests.spark.cluster_driver` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.cluster_driver", cluster.master, source, history, *options],
        env={**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(driver: "subprocess.Popen[str]", seconds: float = 300) -> str:
    """What a driver wrote until it ended well."""
    try:
        output, _ = driver.communicate(timeout=seconds)
    finally:
        kill_driver(driver)
    assert driver.returncode == 0, output
    return output


def kill_driver(driver: "subprocess.Popen[str]") -> None:
    _kill(driver)
    if driver.stdout is not None:
        driver.stdout.close()


def _kill(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Kill a process and those that it started; all of them are of its own session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
