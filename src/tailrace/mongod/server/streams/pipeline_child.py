"""Run the Spark pipeline as a child process, and restart it when it fails.

The child is `tailrace pipeline` in its own process group. Its standard input is a pipe of the server, and it
ends when that closes, so a server that is killed leaves no process. Its log lines become lines of the
server's log. A child that dies is restarted after a pause that grows, unless its exit code is 2: the command
was used wrongly.

A child that hangs is ended, and so restarted: while the history lags, it has to say something or to move the
history within a number of trigger intervals. Each time it did not, it gets twice as long, because a batch of
a large backlog may take minutes on a slow machine.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tailrace.log_lines import ENDED, parse_line
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
_SILENT_INTERVALS: Final = 24
_SHORTEST_SILENCE: Final = 120.0
_LONGEST_SILENCE: Final = 3600.0
_LOOKS: Final = 10
"""How often a child is checked in the time that it may be silent."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the history is: a position, and whether there is more to build."""

    through: int
    lags: bool


def allowed_silence(trigger_seconds: float) -> float:
    """For how many seconds a child may be silent while the history lags."""
    return max(_SILENT_INTERVALS * trigger_seconds, _SHORTEST_SILENCE)


class PipelineChild:
    """Runs one pipeline. `start` and `stop` run in the server's event loop."""

    def __init__(
        self,
        command: Sequence[str],
        log: Logbook,
        *,
        niceness: int = 0,
        progress: Callable[[], Progress | None] = lambda: None,
        silence_seconds: float = _SHORTEST_SILENCE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``niceness`` lowers the child's priority; ``environment`` is by default that of this process.

        ``progress`` is that of the history, None if it is unknown. After ``silence_seconds`` without any, a
        child is restarted.
        """
        self._progress = progress
        self._first_silence = self._silence = silence_seconds
        self._heard = 0.0
        self._hangs = 0
        self._command = tuple(command)
        self._environment = environment
        self._log = log
        self._niceness = niceness
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._sentence = ""
        self._figures: dict[str, Any] = {}
        self._failures = 0
        self._failure = ""
        self._retry_at = 0.0
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
            "hangs": self._hangs,
            "failures": self._failures,
            **({"lastFailure": self._failure} if self._failure else {}),
            "retrySeconds": max(round(self._retry_at - time.monotonic(), 1), 0.0),
            **self._figures,
        }

    def _failed(self, reason: str, pause: float) -> None:
        """Count a failure after which the pipeline, or a query of it, is started again."""
        self._failures += 1
        self._failure = reason
        self._retry_at = time.monotonic() + pause

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
            self._failed(self._sentence or f"it ended with the exit code {code}", pause)
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
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        if self._niceness:
            with suppress(OSError):  # it has ended, or the system does not allow it
                os.setpriority(os.PRIO_PROCESS, process.pid, self._niceness)
        watch = asyncio.get_running_loop().create_task(self._watch(process), name="pipeline watch")
        try:
            assert process.stderr is not None
            await self._read_log(process.stderr)
            return await process.wait()
        finally:
            watch.cancel()
            await self._end(process)
            self._process = None

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Kill a child that hangs."""
        self._heard = time.monotonic()
        through = -1
        while True:
            await asyncio.sleep(self._silence / _LOOKS)
            progress = self._progress()
            if progress is None or not progress.lags or progress.through != through:
                if progress is not None and through not in (-1, progress.through):
                    self._silence = self._first_silence
                through = -1 if progress is None else progress.through
                self._heard = time.monotonic()
            silent = time.monotonic() - self._heard
            if silent < self._silence:
                continue
            self._hangs += 1
            self._sentence = f"it was silent for {silent:.0f} seconds, and the history did not move"
            self._log.warning(
                COMPONENT, "The pipeline hangs and is killed", pid=process.pid, silentSeconds=round(silent)
            )
            self._silence = min(self._silence * 2, _LONGEST_SILENCE)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            return

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
        self._heard = time.monotonic()
        parsed = parse_line(line)
        if parsed is None:
            if line.startswith(_ERROR_PREFIX):
                self._sentence = line.removeprefix(_ERROR_PREFIX)
            elif line:
                self._log.debug(COMPONENT, "Output of Spark", text=line)
            return
        if parsed.message == ENDED:
            self._sentence = str(parsed.attributes.get("error", ""))
            return
        if "rows" in parsed.attributes:
            self.state = "running"
            self._figures = parsed.attributes
        elif "pauseSeconds" in parsed.attributes:
            self._failed(str(parsed.attributes.get("reason", "")), parsed.attributes["pauseSeconds"])
        self._log.log(parsed.level, parsed.component, parsed.message, parsed.context, **parsed.attributes)
