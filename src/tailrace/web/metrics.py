"""The metrics of a process for Prometheus; docs/metrics.md has their table."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.registry import Collector

from tailrace.web.deployment import NodeReading
from tailrace.web.watcher import State, Watcher

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PIPELINE_STATES: Final = ("off", "starting", "running", "waiting", "failed")
_OPERATIONS: Final = ("insert", "query", "update", "delete", "getmore", "command")
_STREAM_COUNTERS: Final = {
    "opened": "Change streams that were opened.",
    "resumed": "Change streams that were opened at a resume token.",
    "failed": "Change streams that ended with an error.",
    "closed": "Change streams that were closed.",
}


def metrics_text(watcher: Watcher, state: State) -> bytes:
    """All metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_State(watcher, state))
    return generate_latest(registry)


class _State(Collector):
    def __init__(self, watcher: Watcher, state: State) -> None:
        self._watcher = watcher
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state, watcher = self._state, self._watcher
        yield _info(state)
        if watcher.deployment is not None:
            is_up = not state["deployment"]["error"]
            yield GaugeMetricFamily("tailrace_deployment_up", "1 if the deployment answers.", value=is_up)
        nodes = [node for node in watcher.reading.nodes if node.status]
        if watcher.reading.nodes:
            yield from _nodes(watcher.reading.nodes, nodes)
            yield from _streams(nodes, watcher)
        yield from _oplogs(nodes)
        if state["history"] is not None:
            yield from _history(state["history"])
        if state["pipeline"] is not None:
            yield from _pipeline(state["pipeline"])
        yield from _disks(state["disks"])


def _info(state: State) -> Metric:
    deployment = state["deployment"]
    labels = {"command": state["command"], "kind": deployment["kind"], "version": deployment["version"]}
    return InfoMetricFamily("tailrace", "What this process serves.", value=labels)


def _nodes(all_nodes: Iterable[NodeReading], nodes: list[NodeReading]) -> Iterator[Metric]:
    up = GaugeMetricFamily("tailrace_node_up", "1 if a node answers.", labels=["node", "shard"])
    for node in all_nodes:
        up.add_metric([node.address, node.shard], float(bool(node.status)))
    connections = GaugeMetricFamily("tailrace_connections", "Open connections of clients.", labels=["node"])
    operations = CounterMetricFamily(
        "tailrace_operations",
        "Operations; each statement of a batch counts.",
        labels=["node", "kind"],
    )
    received = CounterMetricFamily("tailrace_received_bytes", "Bytes from clients.", labels=["node"])
    sent = CounterMetricFamily("tailrace_sent_bytes", "Bytes to clients.", labels=["node"])
    for node in nodes:
        status = node.status
        connections.add_metric([node.address], status.get("connections", {}).get("current", 0))
        for kind in _OPERATIONS:
            operations.add_metric([node.address, kind], status.get("opcounters", {}).get(kind, 0))
        received.add_metric([node.address], status.get("network", {}).get("bytesIn", 0))
        sent.add_metric([node.address], status.get("network", {}).get("bytesOut", 0))
    yield from (up, connections, operations, received, sent)


def _streams(nodes: list[NodeReading], watcher: Watcher) -> Iterator[Metric]:
    streams = watcher.streams
    yield GaugeMetricFamily("tailrace_streams_open", "Open change streams.", value=len(streams))
    yield from _stream_counters(nodes)
    yield from _greatest(
        "tailrace_stream_lag_seconds_max",
        "Seconds between the newest event and the position of the stream that lags most.",
        max((stream.lag for stream in streams if stream.lag is not None), default=0.0),
    )
    yield from _greatest(
        "tailrace_stream_oplog_left_seconds_min",
        "Seconds until the first position of an open stream is removed from the oplog, at the present rate.",
        min((stream.oplog_left for stream in streams if stream.oplog_left is not None), default=None),
    )
    yield from _greatest(
        "tailrace_stream_history_left_seconds_min",
        "Seconds until the first position of an open stream is removed from the history.",
        min((stream.history_left for stream in streams if stream.history_left is not None), default=None),
    )


def _stream_counters(nodes: list[NodeReading]) -> Iterator[Metric]:
    """What nodes count about streams; nothing for those that do not."""
    sections = [(node.address, node.stream_counters) for node in nodes if node.stream_counters is not None]
    if not sections:
        return
    for name, text in _STREAM_COUNTERS.items():
        counter = CounterMetricFamily(f"tailrace_streams_{name}", text, labels=["node"])
        for address, counted in sections:
            counter.add_metric([address], counted.get(name, 0))
        yield counter
    events = CounterMetricFamily("tailrace_stream_events", "Events returned to streams.", labels=["node"])
    for address, counted in sections:
        events.add_metric([address], counted.get("events", 0))
    yield events


def _oplogs(nodes: list[NodeReading]) -> Iterator[Metric]:
    windows = [(node.shard, node.oplog) for node in nodes if node.oplog is not None]
    if not windows:
        return
    for name, text, field in (
        ("tailrace_oplog_bytes", "Size of the oplog.", "bytes"),
        ("tailrace_oplog_limit_bytes", "Size above which old entries are removed.", "limit"),
        ("tailrace_oplog_window_seconds", "From the oldest entry to the newest.", "seconds"),
        ("tailrace_oplog_newest_timestamp_seconds", "Time of the newest entry.", "newest"),
    ):
        gauge = GaugeMetricFamily(name, text, labels=["shard"])
        for shard, window in windows:
            gauge.add_metric([shard], getattr(window, field) or 0)
        yield gauge


def _history(history: dict[str, Any]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "tailrace_history_up", "1 if the history can be read.", value=float(history["exists"])
    )
    if not history["exists"]:
        return
    for name, text, field in (
        ("tailrace_history_events", "Events in the history.", "events"),
        ("tailrace_history_bytes", "Size of the history's files.", "bytes"),
        ("tailrace_history_files", "Files of the history.", "files"),
        ("tailrace_history_oldest_timestamp_seconds", "Time of its oldest event.", "oldest"),
        ("tailrace_history_through_timestamp_seconds", "The time up to which it is complete.", "through"),
        ("tailrace_history_lag_seconds", "Seconds of the oplog that it does not hold yet.", "lagSeconds"),
    ):
        if field in history:
            yield GaugeMetricFamily(name, text, value=history[field])


def _pipeline(pipeline: dict[str, Any]) -> Iterator[Metric]:
    state = pipeline.get("state", "running")
    yield StateSetMetricFamily(
        "tailrace_pipeline_state",
        "What the pipeline does.",
        value={name: name == state for name in _PIPELINE_STATES},
    )
    for name, text, field in (
        ("tailrace_pipeline_starts", "Starts of the pipeline's process.", "starts"),
        ("tailrace_pipeline_hangs", "Times that it was killed because it was silent.", "hangs"),
        ("tailrace_pipeline_failures", "Failures after which it was tried again.", "failures"),
        ("tailrace_pipeline_rows", "Rows that it has stored since its start.", "rows"),
        ("tailrace_pipeline_batches", "Batches that it has stored since its start.", "batches"),
    ):
        yield CounterMetricFamily(name, text, value=pipeline.get(field, 0))
    for name, text, field in (
        ("tailrace_pipeline_lag_seconds", "Seconds of the source that are not stored yet.", "lagSeconds"),
        ("tailrace_pipeline_backlog_events", "Changes that are not stored yet, about.", "backlog"),
        ("tailrace_pipeline_retry_seconds", "Seconds until the next attempt; 0 if it runs.", "retrySeconds"),
    ):
        yield GaugeMetricFamily(name, text, value=pipeline.get(field, 0))


def _disks(disks: list[dict[str, Any]]) -> Iterator[Metric]:
    free = GaugeMetricFamily("tailrace_disk_free_bytes", "Free space of the disk.", labels=["of"])
    total = GaugeMetricFamily("tailrace_disk_total_bytes", "Size of the disk.", labels=["of"])
    for disk in disks:
        free.add_metric([disk["of"]], disk["free"])
        total.add_metric([disk["of"]], disk["total"])
    yield from (free, total)


def _greatest(name: str, text: str, value: float | None) -> Iterator[Metric]:
    """A figure over all streams; none if there is nothing that it is about."""
    gauge = GaugeMetricFamily(name, text)
    if value is not None:
        gauge.add_metric([], value)
    yield gauge
