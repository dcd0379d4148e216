"""Watch a deployment for all pages together: one reading for any number of visitors.

Counters are read every few seconds, for the time line; everything else only while somebody looks at it. A
reading that takes long is followed by a pause that is many times longer, so that a page costs a small share
of a core however large the deployment is.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

from tailrace.places import is_object_store
from tailrace.sources.log_window import LogWindow
from tailrace.web.deployment import Deployment, Reading
from tailrace.web.history import HistoryBook
from tailrace.web.streams import OpenStream, StreamTable
from tailrace.web.subject import Figures, OnFault, Subject
from tailrace.web.timeline import Timeline

_PAUSE: Final = 2.0
_PAUSE_PER_SECOND: Final = 25.0
"""Seconds of pause for each second that a reading took."""
_SHOWN_STREAMS: Final = 100

State: TypeAlias = dict[str, Any]
"""What the page shows, as JSON has it."""


class Watcher:
    """Reads, remembers, and publishes to those who follow."""

    def __init__(self, subject: Subject, on_fault: OnFault) -> None:
        self.subject = subject
        self._on_fault = on_fault
        self.timeline = Timeline()
        self.book = HistoryBook(subject)
        self.deployment = None if subject.source is None else Deployment(subject.source)
        self.streams: list[OpenStream] = []
        self.reading = Reading(0.0)
        self._table = StreamTable()
        self._state: State | None = None
        self._began = 0.0
        self._followers = 0
        self._lock = asyncio.Lock()
        self._news = asyncio.Condition()
        self.ended = asyncio.Event()
        """Set when all followers have to leave."""

    # -- life ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read again and again, until it is cancelled."""
        while True:
            began = time.monotonic()
            try:
                async with self._lock:
                    await self._look(in_full=self._followers > 0)
            except Exception as error:
                self._on_fault(error)
            spent = time.monotonic() - began
            await asyncio.sleep(max(_PAUSE, spent * _PAUSE_PER_SECOND))

    async def close(self) -> None:
        if self.deployment is not None:
            await self.deployment.close()

    # -- who looks ----------------------------------------------------------------------------------------

    async def state(self) -> State:
        """The state now. Those who ask at the same time share a reading."""
        asked = time.monotonic()
        async with self._lock:
            if self._state is None or self._began < asked:
                await self._look(in_full=True)
        assert self._state is not None
        return self._state

    async def follow(self) -> AsyncGenerator[State]:
        """Each new state."""
        self._followers += 1
        try:
            yield await self.state()
            while True:
                async with self._news:
                    await self._news.wait()
                assert self._state is not None
                yield self._state
        finally:
            self._followers -= 1

    # -- reading ------------------------------------------------------------------------------------------

    async def _look(self, *, in_full: bool) -> None:
        began = time.monotonic()
        reading = Reading(time.time(), kind="archived oplogs")
        if self.deployment is not None:
            reading = await self.deployment.read(in_full=in_full)
        pipeline = None if self.subject.pipeline is None else self.subject.pipeline()
        self.timeline.add(reading.at, _counters(reading, pipeline))
        if in_full:
            history = await asyncio.to_thread(self.book.figures)
            self._take(reading, pipeline, history)
            self._began = began
            async with self._news:
                self._news.notify_all()

    def _take(self, reading: Reading, pipeline: Figures | None, history: Figures | None) -> None:
        oplogs = [node.oplog for node in reading.nodes if node.oplog is not None]
        window = self.book.window(history)
        self.reading = reading
        self.streams = self._table.look(reading.front, oplogs, window)
        if pipeline is None:
            pipeline = _section(reading, "pipeline")
        self._state = {
            "time": reading.at,
            "command": self.subject.command,
            "uri": self.subject.clients_uri,
            "deployment": _deployment(reading),
            "streams": {
                "open": len(self.streams),
                "areCounted": any(node.stream_counters is not None for node in reading.front),
                "shown": [stream.to_document() for stream in self.streams[:_SHOWN_STREAMS]],
                "maxLag": max(
                    (stream.lag for stream in self.streams if stream.lag is not None), default=None
                ),
            },
            "pipeline": None if pipeline is None else self._pipeline(pipeline, oplogs, history),
            "history": None if history is None else _with_lag(history, oplogs),
            "disks": _disks(self.subject),
            "timeline": [point.to_row() for point in list(self.timeline.samples)[-1:]],
        }

    def _pipeline(self, pipeline: Figures, oplogs: list[LogWindow], history: Figures | None) -> Figures:
        """The report of a pipeline, and how many changes it has not stored yet, about."""
        through = pipeline.get("through") or [0, 0]
        stored = max(through[0], (history or {}).get("through", 0))
        newest = max((window.newest for window in oplogs), default=stored)
        lag = max(newest - stored, 0) if stored else pipeline.get("lagSeconds", 0)
        return {**pipeline, "lagSeconds": lag, "backlog": self.timeline.changes_since(stored) if lag else 0}


def _counters(reading: Reading, pipeline: Figures | None) -> dict[str, int]:
    counted = {"stored": int(pipeline.get("rows", 0))} if pipeline is not None else {}
    nodes = [node for node in reading.front if "opcounters" in node.status]
    if len(nodes) < len(reading.front) or not nodes:
        return counted  # a sum without a node that is away would fall, and rise again
    for name in ("insert", "update", "delete"):
        counted[name] = sum(int(node.status["opcounters"][name]) for node in nodes)
    streams = [node.stream_counters for node in nodes]
    counted["delivered"] = sum(int((each or {}).get("events", 0)) for each in streams)
    return counted


def _section(reading: Reading, name: str) -> Figures | None:
    """A section of the first serverStatus that has it: all nodes of a process report the same."""
    found = (node.status.get(name) for node in reading.nodes)
    return next((dict(section) for section in found if section), None)


def _deployment(reading: Reading) -> Figures:
    first = next((node.status for node in reading.nodes if node.status), {})
    return {
        "kind": reading.kind,
        "name": reading.name,
        "version": first.get("version", ""),
        "uptime": first.get("uptime", 0),
        "error": reading.error,
        "shards": reading.shards,
        "nodes": [
            {
                "address": node.address,
                "role": "primary"
                if node.is_primary
                else ("secondary" if node.role == "member" else node.role),
                "shard": node.shard,
                "error": node.error,
                "connections": node.status.get("connections", {}).get("current"),
                "oplog": None if node.oplog is None else _shown_window(node.oplog),
            }
            for node in reading.nodes
        ],
    }


def _shown_window(window: LogWindow) -> Figures:
    return {**asdict(window), "seconds": window.seconds}


def _with_lag(history: Figures, oplogs: list[LogWindow]) -> Figures:
    newest = max((window.newest for window in oplogs), default=None)
    if newest is None or not history.get("through"):
        return history  # nothing is stored yet
    return {**history, "lagSeconds": max(newest - history["through"], 0)}


def _disks(subject: Subject) -> list[Figures]:
    """The free space where data and history are."""
    places: list[tuple[str, str | Path]] = []
    if subject.data is not None:
        places.append(("data", subject.data))
    if subject.history is not None and not is_object_store(subject.history):
        places.append(("history", subject.history))
    shown = []
    for what, place in places:
        try:
            usage = shutil.disk_usage(place)
        except OSError:
            continue  # it is not there yet
        shown.append({"of": what, "free": usage.free, "total": usage.total})
    return shown
