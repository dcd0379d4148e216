"""A server of Spark Connect in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from tailrace.pipeline.java import use_java

_SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
_SECONDS = 240
"""A JVM on a busy machine needs a minute to start."""


@contextmanager
def connect_server(folder: Path, *arguments: str) -> Iterator[str]:
    """Yield the address of a server that was started with ``arguments`` of `spark-submit`."""
    pytest.importorskip("grpc", reason="Spark Connect needs the package grpcio")
    use_java()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "connect.log"
    command = [
        str(_SUBMIT), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
        "--conf", "spark.driver.memory=800m", "--conf", "spark.ui.enabled=false",
        "--conf", f"spark.local.dir={folder / 'local'}",
        "--conf", f"spark.sql.warehouse.dir={folder / 'warehouse'}",
        *arguments, "spark-internal",
    ]  # fmt: skip
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with open(log, "wb") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_for(server, port, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(60)


def _wait_for(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert server.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)
