"""The page of a pipeline whose source is a real MongoDB."""

import json
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tailrace.web.http_thread import HttpThread
from tailrace.web.subject import Subject
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
