"""`tailrace serve` as a process."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

READY = re.compile(r"ready (mongodb://127\.0\.0\.1:(\d+)/\S*)\n")


@contextmanager
def serving(
    *options: str | Path, run_by: Sequence[str] = ()
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process and its connection string; by default it has no page."""
    command = [*run_by, sys.executable, "-m", "tailrace", "serve", "--port", "0", "--no-spark"]
    command += map(str, options if "--http" in options else ("--http", "off", *options))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = READY.fullmatch(process.stdout.readline())
        assert found, process.communicate(timeout=30)
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def end(process: "subprocess.Popen[str]", number: int) -> tuple[str, list[dict[str, object]]]:
    """End the process; return what it wrote to standard output after the line, and the log."""
    process.send_signal(number)
    output, log = process.communicate(timeout=30)
    assert process.returncode == 0
    return output, [json.loads(line) for line in log.splitlines()]
