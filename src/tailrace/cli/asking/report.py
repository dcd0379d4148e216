"""What `tailrace status` found: for people, for programs, and whether it is as it should be."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tailrace.cli.asking import words
from tailrace.cli.asking.deployment import Deployment, faults_of
from tailrace.cli.asking.groups import faults_of_group
from tailrace.cli.asking.history import HistoryFacts
from tailrace.cli.asking.mirror import MirrorFacts
from tailrace.cli.consuming.report import as_document, as_line
from tailrace.client.groups.control_flow import GroupStatus

_LABEL_WIDTH: Final = 12
_MOST_STREAMS: Final = 20
_RUNS: Final = ("running", "starting")
_SOON: Final = 0.25
"""A position with less than this part of its time left in the oplog is in danger."""


class State(StrEnum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNREACHABLE = "unreachable"


@dataclass(slots=True)
class Report:
    """One look at a deployment, a history or a mirror."""

    source: str
    now: float
    deployment: Deployment | None = None
    history: HistoryFacts | None = None
    mirror: MirrorFacts | None = None
    kernel: str | None = None
    """What makes the rows of the pipeline; None if there is no pipeline."""
    unreachable: str | None = None
    faults: list[str] = field(default_factory=list)

    @property
    def state(self) -> State:
        if self.unreachable is not None:
            return State.UNREACHABLE
        return State.DEGRADED if self.faults else State.HEALTHY

    def judge(self, max_lag: float) -> None:
        """Find what is wrong; a lag of more than ``max_lag`` seconds is."""
        found = self.deployment
        if found is not None:
            self.faults += faults_of(found)
            self.faults += [f"not everything can be shown: {sentence}" for sentence in found.hidden]
            self._judge_pipeline(found)
            self._judge_streams(found, max_lag)
            if isinstance(found.groups, list):
                self.faults += [fault for group in found.groups for fault in faults_of_group(group, max_lag)]
        has_pipeline = found is not None and found.pipeline is not None  # which is judged by its state
        if self.history is not None and self.history.is_empty and not has_pipeline:
            self.faults.append("nothing is stored in the history yet; read the log of the pipeline")
        if self.history is not None and self.history.lag_seconds > max_lag:
            self.faults.append(
                f"the history is {words.span(self.history.lag_seconds)} after its source, more than "
                f"{words.span(max_lag)}; read the log of the pipeline; if it is busy, add cores"
            )

        if self.mirror is not None and self.mirror.lag_seconds > max_lag:
            self.faults.append(
                f"the mirror is {words.span(self.mirror.lag_seconds)} after its source, more than "
                f"{words.span(max_lag)}; read the log of tailrace mirror, or start it again"
            )

    def _judge_pipeline(self, found: Deployment) -> None:
        if found.pipeline is None:
            return
        state = found.pipeline.get("state")
        if state == "failed":
            self.faults.append(
                "the pipeline cannot run, and is not restarted; the server's log has the reason"
            )
        elif state not in _RUNS:
            reason = found.pipeline.get("lastFailure")
            self.faults.append(
                f"the pipeline is {state} after {found.pipeline.get('starts')} starts; the server's log has "
                "the reason"
                if reason is None
                else f"the pipeline is {state} after a failure: {reason}"
            )

    def _judge_streams(self, found: Deployment, max_lag: float) -> None:
        for stream in found.streams:
            if stream.lag_seconds > max_lag:
                who = "a client" if stream.client is None else f"the client {stream.client}"
                gone = (
                    ", or gone: a MongoDB keeps its cursor for ten minutes" if stream.client is None else ""
                )
                self.faults.append(
                    f"{who} has not asked for events of {stream.scope} for "
                    f"{words.span(self.now - stream.asked)}; see whether it is stuck{gone}"
                )
            whole = [oplog.stays(self.now, self.now) or 0 for oplog in found.oplogs]
            if stream.stays_seconds is not None and stream.stays_seconds < _SOON * min(whole, default=0):
                self.faults.append(
                    f"the position of {stream.client or 'a client'} in {stream.scope} leaves the oplog in "
                    f"{words.span(stream.stays_seconds)}; make the oplog larger, or the client faster"
                )

    # -- forms ----------------------------------------------------------------------------------------------

    def as_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "state": self.state.value,
            "source": self.source,
            "time": words.moment(self.now),
        }
        found = self.deployment
        if self.unreachable is not None:
            document["reason"] = self.unreachable
        if found is not None:
            document |= {
                "deployment": {"name": found.name, "kind": found.kind, "uptimeSeconds": round(found.uptime)},
                "members": [{"name": name, "state": state} for name, state in found.members],
                "oplogs": [oplog.as_document(self.now) for oplog in found.oplogs],
                "streams": [stream.as_document() for stream in found.streams],
                "groups": _documents(found.groups),
                "pipeline": found.pipeline,
            }
            if found.source is not None:
                document["deployment"]["source"] = {
                    name: found.source[name] for name in ("address", "version", "via", "away")
                }
        if self.history is not None:
            document["history"] = self.history.as_document()
        if self.mirror is not None:
            document["mirror"] = self.mirror.as_document()
        return document | {"kernel": self.kernel, "faults": self.faults}

    def as_text(self) -> str:
        rows: list[tuple[str, str]] = []
        found = self.deployment
        if found is not None:
            rows.append(("deployment", found.in_words()))
            rows += [("member", f"{name}  {state}") for name, state in found.members]
            if found.source is not None:
                rows.append(("source", _source(found.source)))
            rows += [("oplog", oplog.in_words(self.now)) for oplog in found.oplogs]
            rows += [("stream", stream.in_words()) for stream in found.streams[:_MOST_STREAMS]]
            if len(found.streams) > _MOST_STREAMS:
                rows.append(("stream", f"and {len(found.streams) - _MOST_STREAMS} more; --json lists all"))
            if not found.streams:
                rows.append(("stream", "none is open"))
            rows += _groups(found.groups)
            if found.pipeline is not None:
                rows.append(("pipeline", _pipeline(found.pipeline)))
        if self.history is not None:
            rows.append(("history", self.history.in_words()))
            if not self.history.is_empty:
                rows.append(("lag", words.span(self.history.lag_seconds)))
        elif found is not None and found.has_history:
            rows.append(("history", "not there yet; the pipeline creates it"))
        if self.mirror is not None:
            rows += self.mirror.lines()
        if self.kernel is not None:
            rows.append(("kernel", self.kernel))
        rows += [("wrong", fault) for fault in self.faults]
        lines = [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in rows]
        last = f"{self.state}: {self.unreachable}" if self.unreachable is not None else str(self.state)
        return "\n".join([*lines, last])


def _documents(groups: list[GroupStatus] | str | None) -> list[dict[str, Any]] | None:
    return [as_document(group) for group in groups] if isinstance(groups, list) else None


def _groups(groups: list[GroupStatus] | str | None) -> list[tuple[str, str]]:
    if groups is None:
        return []
    if isinstance(groups, str):
        return [("group", f"not shown: {groups}")]
    return [("group", as_line(group)) for group in groups]


def _source(section: dict[str, Any]) -> str:
    how = "its oplog" if section["via"] == "oplog" else "its change stream"
    through = f" through {words.moment(section['through'].time)}" if section.get("through") else ""
    return f"{section['address']}, MongoDB {section['version']}, read from {how}{through}"


def _pipeline(section: dict[str, Any]) -> str:
    parts = [str(section.get("state"))]
    for name, what in (("rowsPerSecond", "rows/s"), ("rows", "rows"), ("batches", "batches")):
        if name in section:
            parts.append(f"{section[name]:,} {what}")
    restarts = int(section.get("starts", 1)) - 1
    if restarts > 0:
        parts.append(words.counted(restarts, "restart"))
    return ", ".join(parts)
