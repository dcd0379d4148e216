"""The page of a pipeline whose source is a real MongoDB."""

import base64
import json
import os
import re
import subprocess
import sys
import urllib.request
from urllib.parse import urlencode

import pytest
from bson import Int64
from bson.json_util import dumps
from prometheus_client.parser import text_string_to_metric_families

from tailrace.web.http_thread import HttpThread
from tailrace.web.subject import Subject
from tests.cli.console import Here
from tests.clients.programs import MODULES, need
from tests.oracle.real_server import RealReplicaSet


def test_the_page_shows_a_real_deployment_and_its_streams(real_set: RealReplicaSet) -> None:
    page = HttpThread("127.0.0.1", 0)
    faults: list[Exception] = []
    page.start(Subject(command="pipeline", source=real_set.uri, clients_uri=real_set.uri), faults.append)
    try:
        with real_set.client() as client, client.page_of_a_pipeline.orders.watch() as stream:
            client.page_of_a_pipeline.orders.insert_one({"_id": 1})
            next(stream)
            state = json.loads(urllib.request.urlopen(f"{page.address}api/state").read())
            text = urllib.request.urlopen(f"{page.address}metrics").read().decode()
    finally:
        page.stop()
    assert not faults
    deployment = state["deployment"]
    assert (deployment["kind"], deployment["name"]) == ("replica set", "rs0")
    assert [(node["role"], node["error"]) for node in deployment["nodes"]] == [("primary", "")]
    assert deployment["nodes"][0]["oplog"]["limit"] > 0
    # Streams of other tests may still be open.
    assert ("page_of_a_pipeline.orders", 1) in [
        (shown["ns"], shown["events"]) for shown in state["streams"]["shown"]
    ]
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"tailrace_oplog_window_seconds", "tailrace_streams_open"} <= names
    # A MongoDB does not count what its streams received: unknown is not zero.
    assert not state["streams"]["areCounted"]
    assert "tailrace_stream_events" not in names


LARGE = 1 << 34
"""A MongoDB does not find the event of a key that is so large without the type bits of its token."""


@pytest.mark.parametrize("language", ["PyMongo", "Node.js"])
def test_the_code_of_the_page_resumes_at_a_real_deployment(real_set: RealReplicaSet, language: str) -> None:
    page = HttpThread("127.0.0.1", 0)
    faults: list[Exception] = []
    page.start(Subject(command="pipeline", source=real_set.uri, clients_uri=real_set.uri), faults.append)
    try:
        with real_set.client() as client:
            orders = client["code_for_" + language.partition(".")[0]].orders
            with orders.watch() as stream:
                orders.insert_many([{"_id": Int64(LARGE + number)} for number in range(3)])
                token = next(stream)["_id"]
        asked = {"token": token["_data"], "ns": orders.full_name}
        asked["typeBits"] = base64.b64encode(token["_typeBits"]).decode()
        found = json.loads(urllib.request.urlopen(f"{page.address}api/token?{urlencode(asked)}").read())
    finally:
        page.stop()
    assert not faults
    code = {snippet["language"]: snippet["code"] for snippet in found["code"]}[language]
    command = [sys.executable, "-u", "-c", code]
    if language == "Node.js":
        need("mongodb")
        command = ["node", "-e", code]
    environment = {**os.environ, "NODE_PATH": str(MODULES)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    assert re.search(rf"documentKey\W+_id\D+{LARGE + 1}\b", line)


def test_a_token_without_its_type_bits_has_a_hint(real_set: RealReplicaSet, here: Here) -> None:
    with real_set.client() as client, client.without_bits.orders.watch() as stream:
        client.without_bits.orders.insert_one({"_id": Int64(LARGE)})
        token = next(stream)["_id"]
    refused = here("token", token["_data"], "--source", real_set.uri)
    assert refused.code == 1
    assert any(line.endswith("has _typeBits, give the whole document") for line in refused.lines)
    assert here("token", dumps(token), "--source", real_set.uri).code == 0


def test_status_says_the_same_by_the_page_and_by_the_deployment(real_set: RealReplicaSet, here: Here) -> None:
    page = HttpThread("127.0.0.1", 0)
    faults: list[Exception] = []
    page.start(Subject(command="pipeline", source=real_set.uri, clients_uri=real_set.uri), faults.append)
    try:
        with real_set.client() as client, client.asked_twice.watch() as stream:
            client.asked_twice.orders.insert_many([{"_id": 1}, {"_id": 2}])
            next(stream)  # the second event waits here, so the cursor is idle
            by_page, by_deployment = [
                [
                    (shown["askedAt"], shown["events"], shown["lagSeconds"] > 100)
                    for shown in json.loads(here("status", place, "--json").output)["streams"]
                    if shown["scope"] == "asked_twice.*"
                ]
                for place in (page.address, real_set.uri)
            ]
    finally:
        page.stop()
    assert not faults
    assert by_page == by_deployment
    assert len(by_page) == 1
