"""Run the Spark pipeline as a child process, and restart it when it fails.

The child is `tailrace pipeline` in its own process group. Its standard input is a pipe of the server, and it
ends when that closes, so a server that is killed leaves no process. Its log lines become lines of the
server's log. A child that dies is restarted after a pause that grows, unless its exit code is 2: the command
was used wrongly.
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
"""The exit code of a command that was used wrongly or lacks a package: a restart would not help."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
_STABLE_SECONDS: Final = 60.0
"""After a child ran that long, the next pause is short again."""
_SECONDS_TO_END: Final = 10.0
_LONGEST_LINE: Final = 1 << 20
_ERROR_PREFIX: Final = "tailrace: "


class PipelineChild:
    """Runs one pipeline. `start` and `stop` run in the server's event loop."""

    def __init__(self, command: Sequence[str], log: Logbook, *, niceness: int = 0) -> None:
        """``niceness`` lowers the child's priority."""
        self._command = tuple(command)
        self._log = log
        self._niceness = niceness
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._sentence = ""
        self._figures: dict[str, Any] = {}
        self.starts = 0
        self.state = "off"
        """off, starting, running, waiting (to be restarted), failed (and not restarted)"""

    def start(self) -> None:
        """Start the child; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name="pipeline")

    async def stop(self) -> None:
        """End the child and wait for it."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.state = "off"

    def status(self) -> dict[str, Any]:
        """The section `pipeline` of serverStatus."""
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
                    COMPONENT,
                    "The pipeline cannot run; the server continues without it",
                    reason=self._sentence,
                )
                return
            if time.monotonic() - began > _STABLE_SECONDS:
                pause = _FIRST_PAUSE
            self.state = "waiting"
            self._log.warning(
                COMPONENT,
                "The pipeline ended and is restarted",
                exitCode=code,
                reason=self._sentence,
                pauseSeconds=pause,
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_child(self) -> int:
        """Run one child; returns its exit code. If this is cancelled, the child is ended."""
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
            with suppress(OSError):  # it has ended, or the system does not allow it
                os.setpriority(os.PRIO_PROCESS, process.pid, self._niceness)
        try:
            assert process.stderr is not None
            await self._read_log(process.stderr)
            return await process.wait()
        finally:
            await self._end(process)
            self._process = None

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """Terminate the child, wait, then kill what is left of its process group."""
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            # Not `asyncio.timeout`: before Python 3.11.3 it confuses its timeout with the cancellation of
            # this task.
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=_SECONDS_TO_END)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    # -- its output -----------------------------------------------------------------------------------------

    async def _read_log(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # longer than our lines; the JVM may write such lines
                continue
            if not line:
                return
            self._take(line.decode(errors="replace").rstrip())

    def _take(self, line: str) -> None:
        parsed = parse_line(line)
        if parsed is None:
            if line.startswith(_ERROR_PREFIX):
                self._sentence = line.removeprefix(_ERROR_PREFIX)
            elif line:
                self._log.debug(COMPONENT, "Output of Spark", text=line)
            return
        if "rows" in parsed.attributes:
            self.state = "running"
            self._figures = parsed.attributes
        self._log.log(parsed.level, parsed.component, parsed.message, parsed.context, **parsed.attributes)
