"""OpenTelemetry: a span of each command, in memory and at a collector; nothing without variables."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import StatusCode
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.cli.serving import READY
from tests.support.spans import traces_in_memory


@pytest.mark.parametrize("kind", [ReplicaSet, ShardedCluster])
def test_commands_and_streams_are_spans(kind: type[ReplicaSet | ShardedCluster]) -> None:
    traces, spans = traces_in_memory()
    with kind(traces=traces) as deployment:
        orders = deployment.client().shop.orders
        with orders.watch() as stream:
            orders.insert_one({"_id": 1})
            next(stream)
        with pytest.raises(OperationFailure):
            orders.database.command("find", "orders", filter={"$wrong": 1})
    by_name = {span.name: span for span in spans.get_finished_spans()}
    assert {"aggregate shop.orders", "getMore shop.orders", "insert shop.orders"} <= by_name.keys()
    assert not {name for name in by_name if name.startswith(("hello", "ping"))}
    insert, find = by_name["insert shop.orders"], by_name["find shop.orders"]
    assert insert.attributes == {
        "db.system.name": "mongodb",
        "db.operation.name": "insert",
        "db.namespace": "shop",
        "db.collection.name": "orders",
        "client.address": "127.0.0.1",
    }
    assert insert.end_time is not None
    assert insert.start_time is not None
    assert 0 < insert.end_time - insert.start_time < 60 * 10**9
    assert (find.status.status_code, find.status.description) == (StatusCode.ERROR, "BadValue")
    assert find.attributes is not None
    assert find.attributes["db.response.status_code"] == "2"


class Collector(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receive)
        self.names: set[str] = set()


class _Receive(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = {item.key: item.value.string_value for item in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.server.names |= {f"{service['service.name']} {span.name}" for span in scope.spans}
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def serve_and_insert(endpoint: str) -> list[str]:
    """The log of a server that was asked for traces."""
    command = [sys.executable, "-m", "tailrace", "serve", "--port", "0", "--no-spark", "--http", "off"]
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        found = READY.fullmatch(process.stdout.readline())
        assert found, process.communicate(timeout=30)
        with MongoClient[dict[str, object]](found[1]) as client:
            client.shop.orders.insert_one({"_id": 1})
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    return log.splitlines()


def test_a_server_sends_its_spans_where_the_environment_says() -> None:
    with collecting() as collector:
        serve_and_insert(f"http://127.0.0.1:{collector.server_port}")
    assert "tailrace insert shop.orders" in collector.names


def test_a_collector_that_is_away_stops_nothing() -> None:
    assert all(json.loads(line) for line in serve_and_insert("http://127.0.0.1:1"))
