"""The supervisor of the pipeline, with small programs instead of the pipeline."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.streams.pipeline_child import PipelineChild, Progress

SECONDS = 20
SAYS_PROGRESS = """
import json, sys
line = {"s": "I", "c": "PIPELINE", "msg": "Progress", "attr": {"rows": 7}}
print(json.dumps(line), file=sys.stderr, flush=True)
print("a line of Java", file=sys.stderr, flush=True)
"""
UNTIL_INPUT_ENDS = "import sys; sys.stdin.read()"


def child_of(log: Logbook, program: str) -> PipelineChild:
    return PipelineChild([sys.executable, "-c", program], log)


async def until(child: PipelineChild, **wanted: Any) -> dict[str, Any]:
    """Wait until the status has these values."""
    deadline = monotonic() + SECONDS
    while True:
        status = child.status()
        if all(status.get(name) == value for name, value in wanted.items()):
            return status
        assert monotonic() < deadline, status
        await asyncio.sleep(0.01)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def lines(log: Logbook) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.newest()]


def test_a_child_is_watched_restarted_and_ended() -> None:
    async def play() -> None:
        log = Logbook("debug")
        child = child_of(log, SAYS_PROGRESS + UNTIL_INPUT_ENDS)
        child.start()
        first = await until(child, state="running", rows=7, starts=1)
        os.kill(first["pid"], 9)
        second = await until(child, state="running", starts=2)
        assert second["pid"] != first["pid"]
        await child.stop()
        assert not is_there(second["pid"])
        assert child.status()["state"] == "off"
        said = [line["msg"] for line in lines(log)]
        assert said.count("Progress") == 2
        assert "The pipeline ended and is restarted" in said
        assert {"text": "a line of Java"} in [line["attr"] for line in lines(log)]

    asyncio.run(play())


def test_a_command_that_cannot_work_is_not_retried() -> None:
    async def play() -> None:
        log = Logbook()
        program = "import sys; print('tailrace: there is no Java; install it', file=sys.stderr); sys.exit(2)"
        child = child_of(log, program)
        child.start()
        await until(child, state="failed", starts=1, pid=None)
        (line,) = lines(log)
        assert line["s"] == "W"
        assert line["attr"]["reason"] == "there is no Java; install it"
        await child.stop()

    asyncio.run(play())


def test_all_processes_of_a_childs_group_are_ended(tmp_path: Path) -> None:
    """A child that ignores signals, and a child of it that outlives it."""
    noted = tmp_path / "pid"
    program = f"""
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({str(noted)!r}, "w").write(str(other.pid))
print('{{"s": "I", "c": "PIPELINE", "msg": "Progress", "attr": {{"rows": 0}}}}', file=sys.stderr, flush=True)
time.sleep(600)
"""

    async def play(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tailrace.mongod.server.streams.pipeline_child._SECONDS_TO_END", 0.2)
        child = child_of(Logbook(), program)
        child.start()
        status = await until(child, state="running")
        await child.stop()
        assert not is_there(status["pid"])
        await gone(int(noted.read_text()))

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(play(monkeypatch))


async def gone(pid: int) -> None:
    """A killed process without a parent that waits is gone when the system has reaped it."""
    deadline = monotonic() + SECONDS
    while not has_ended(pid):
        assert monotonic() < deadline
        await asyncio.sleep(0.01)


def has_ended(pid: int) -> bool:
    try:
        return "State:\tZ" in (Path("/proc") / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


async def stays(child: PipelineChild, seconds: float) -> None:
    """Require that no second child is started for some time."""
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        assert child.status()["starts"] == 1
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("lags", [True, False])
def test_a_child_that_hangs_is_restarted_while_the_history_lags(lags: bool) -> None:
    async def play() -> None:
        log = Logbook()
        child = PipelineChild(
            [sys.executable, "-c", SAYS_PROGRESS + UNTIL_INPUT_ENDS],
            log,
            progress=lambda: Progress(through=5, lags=lags),
            silence_seconds=1.0,
        )
        child.start()
        first = await until(child, state="running", starts=1)
        os.kill(first["pid"], signal.SIGSTOP)
        if lags:
            second = await until(child, state="running", starts=2)
            assert second["pid"] != first["pid"]
            assert second["hangs"] == 1
            assert "The pipeline hangs and is killed" in [line["msg"] for line in lines(log)]
        else:  # it has nothing to do, so its silence means nothing
            await stays(child, seconds=2.5)
        await child.stop()
        assert not is_there(first["pid"])

    asyncio.run(play())


def test_a_child_that_moves_the_history_does_not_hang() -> None:
    async def play() -> None:
        moved = iter(range(1 << 30))
        child = PipelineChild(
            [sys.executable, "-c", SAYS_PROGRESS + UNTIL_INPUT_ENDS],
            Logbook(),
            progress=lambda: Progress(through=next(moved), lags=True),
            silence_seconds=0.5,
        )
        child.start()
        await until(child, state="running", starts=1)
        await stays(child, seconds=2)
        await child.stop()

    asyncio.run(play())
