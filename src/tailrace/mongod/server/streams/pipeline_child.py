"""The Spark pipeline as a child process of the server: started, watched, started again, ended.

The child is `tailrace pipeline` in a session of its own. It reads a pipe of the server as its standard input
and ends when that closes, so a server that is killed leaves nothing behind. Its log lines become lines of the
server's log. A child that dies is started again after a pause that grows; one that says the command itself
cannot work (exit code 2) is not.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tailrace.log_lines import parse_line
from tailrace.mongod.server.admin.logbook import Logbook

COMPONENT: Final = "PIPELINE"
CANNOT_WORK: Final = 2
"""The exit code of a command that was used wrongly, or that lacks what it needs: trying again is no use."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_STABLE_SECONDS: Final = 60.0
"""A child that lived that long has recovered; the next pause is short again."""
_SECONDS_TO_END: Final = 10.0
_LONGEST_LINE: Final = 1 << 20
_SAID_BY_MAIN: Final = "tailrace: "


class PipelineChild:
    """Keeps one pipeline running. `start` and `stop` run in the server's event loop."""

    def __init__(self, command: Sequence[str], log: Logbook, *, niceness: int = 0) -> None:
        """``niceness`` is how much the child stands back behind the server."""
        self._command = tuple(command)
        self._log = log
        self._niceness = niceness
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._sentence = ""
        self._figures: dict[str, Any] = {}
        self.starts = 0
        self.state = "off"
        """off, starting, running, waiting (to be started again), failed (and not tried again)"""

    def start(self) -> None:
        """Begin to supervise; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name="pipeline")

    async def stop(self) -> None:
        """End the child and wait until it is gone."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.state = "off"

    def status(self) -> dict[str, Any]:
        """What is known of the pipeline, for serverStatus."""
        process = self._process
        return {
            "state": self.state,
            "pid": process.pid if process is not None else None,
            "starts": self.starts,
            **self._figures,
        }

    # -- life of a child ------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            code = await self._run_child()
            if code == CANNOT_WORK:
                self.state = "failed"
                self._log.warning(
                    COMPONENT, "The pipeline cannot run; going on without it", reason=self._sentence
                )
                return
            if time.monotonic() - began > _STABLE_SECONDS:
                pause = _FIRST_PAUSE
            self.state = "waiting"
            self._log.warning(
                COMPONENT,
                "The pipeline ended and is started again",
                exitCode=code,
                reason=self._sentence,
                pauseSeconds=pause,
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_child(self) -> int:
        """One child from start to end; its exit code. Cancelled, it ends the child."""
        self._sentence = ""
        self.state = "starting"
        self.starts += 1
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        if self._niceness:
            with suppress(OSError):  # it is gone already, or the system does not allow it
                os.setpriority(os.PRIO_PROCESS, process.pid, self._niceness)
        try:
            assert process.stderr is not None
            await self._read_log(process.stderr)
            return await process.wait()
        finally:
            await self._end(process)
            self._process = None

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Ask it to end, wait, then leave no choice to whatever is left of its group."""
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            # Not `asyncio.timeout`: before Python 3.11.3 it does not tell its own end from the cancellation
            # that this task comes from.
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=_SECONDS_TO_END)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    # -- what it says ---------------------------------------------------------------------------------------

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than anything we write; the JVM may do so
                continue
            if not line:
                return
            self._take(line.decode(errors="replace").rstrip())

    def _take(self, line: str) -> None:
        said = parse_line(line)
        if said is None:
            if line.startswith(_SAID_BY_MAIN):
                self._sentence = line.removeprefix(_SAID_BY_MAIN)
            elif line:
                self._log.debug(COMPONENT, "Spark says", text=line)
            return
        if "rows" in said.attributes:
            self.state = "running"
            self._figures = said.attributes
        self._log.log(said.level, said.component, said.message, said.context, **said.attributes)
