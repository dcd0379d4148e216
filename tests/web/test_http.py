"""Probes, metrics and the JSON that the page uses."""

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bson import Int64
from prometheus_client.parser import text_string_to_metric_families

from tailrace.testing.sharded_cluster import ShardedCluster
from tailrace.web.http_thread import HttpThread
from tailrace.web.subject import Subject
from tests.cli.console import Here
from tests.clients.programs import MODULES, need
from tests.web.conftest import STORED
from tests.web.site import Site, get

ROOT = Path(__file__).parents[2]


def figures(site: Site) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of /metrics by name and labels, without the label of the node."""
    families = text_string_to_metric_families(site.get("/metrics").body.decode())
    samples = [sample for family in families for sample in family.samples]
    for sample in samples:
        sample.labels.pop("node", None)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


def watched(site: Site) -> set[str]:
    """What the open streams watch."""
    return {stream["ns"] for stream in site.get("/api/state").json["streams"]["shown"]}


def test_probes_answer(site: Site) -> None:
    assert [site.get(path).body for path in ("/healthz", "/readyz")] == [b"ok\n", b"ok\n"]


def test_metrics_are_what_happened(site: Site) -> None:
    orders = site.client.metrics.orders
    before = figures(site)
    with orders.watch() as stream:
        orders.insert_many([{"_id": number} for number in range(5)])
        orders.delete_one({"_id": 0})
        for _ in range(6):
            next(stream)
        after = figures(site)

    def grown(name: str, **labels: str) -> float:
        key = name, tuple(sorted(labels.items()))
        return after[key] - before[key]

    assert grown("tailrace_operations_total", kind="insert") == 5
    assert grown("tailrace_operations_total", kind="delete") == 1
    assert grown("tailrace_streams_open") == 1
    assert grown("tailrace_streams_opened_total") == 1
    assert grown("tailrace_stream_events_total") == 6
    assert after["tailrace_deployment_up", ()] == 1
    assert after["tailrace_history_events", ()] >= STORED
    assert after["tailrace_oplog_limit_bytes", (("shard", ""),)] == 256 << 20


def test_the_state_shows_each_stream(site: Site) -> None:
    database = site.client.streams
    database.orders.insert_one({"_id": 0})
    with database.orders.watch(), database.watch() as second, site.client.watch():
        database.orders.insert_one({"_id": 1})
        next(second)
        state = site.get("/api/state").json
    own = [
        stream for stream in state["streams"]["shown"] if stream["ns"] in ("streams.orders", "streams", "all")
    ]
    assert sorted((stream["scope"], stream["ns"], stream["events"]) for stream in own) == [
        ("collection", "streams.orders", 0),
        ("database", "streams", 1),
        ("deployment", "all", 0),
    ]
    for stream in own:
        assert stream["position"] <= state["time"] + 1
        assert stream["lag"] >= 0
        assert stream["oplog_left"] > 0
        assert (stream["is_in_history"], stream["history_left"]) == (True, None)
    assert state["deployment"]["nodes"][0]["role"] == "primary"
    assert state["history"]["events"] >= STORED


def test_a_live_tail_shows_what_its_filter_accepts(site: Site) -> None:
    orders = site.client.live.orders
    messages = site.follow("/api/tail", ns="live", filter='{"fullDocument.qty": {"$gt": 1}}')
    assert next(messages)[0] == "begin"
    orders.insert_many([{"_id": "few", "qty": 1}, {"_id": "many", "qty": 2}])
    kind, event = next(message for message in messages if message[0] != "idle")
    assert (kind, event["documentKey"]) == ("event", {"_id": "many"})
    assert "live" in watched(site)
    messages.close()
    while "live" in watched(site):  # until the server has noticed; the test has a limit of time
        pass


@pytest.mark.parametrize(
    ("text", "sentence"), [("{", "the filter is not JSON"), ("[1]", "the filter is a document")]
)
def test_a_wrong_filter_is_a_sentence(site: Site, text: str, sentence: str) -> None:
    answer = site.get("/api/tail", filter=text)
    assert answer.status == 400
    assert answer.json["error"].startswith(sentence)


def test_events_of_a_range_come_from_the_history_too(site: Site) -> None:
    begins, through = (site.get("/api/state").json["history"][name] for name in ("begins", "through"))
    found = site.get("/api/events", ns="past.orders", **{"from": begins, "to": through}).json
    kinds = [event["operationType"] for event in found["events"]]
    assert kinds == ["create"] + ["insert"] * STORED
    assert found["isAll"]


def test_the_history_by_day_and_by_collection(site: Site) -> None:
    details = site.get("/api/history").json
    assert sum(day["events"] for day in details["days"]) == details["countedRows"]
    assert {"ns": "past.orders", "events": STORED + 1} in details["collections"]


@pytest.mark.parametrize("language", ["PyMongo", "Node.js"])
def test_the_code_resumes_after_the_event(site: Site, language: str) -> None:
    orders = site.client["resumed_by_" + language.partition(".")[0]].orders
    with orders.watch() as stream:
        orders.insert_many([{"_id": Int64(number)} for number in range(3)])
        token = next(stream)["_id"]
    # A MongoDB finds the event of a large long only with these (tests/oracle/test_page.py).
    bits = base64.b64encode(token["_typeBits"]).decode()
    found = site.get("/api/token", token=token["_data"], typeBits=bits, ns=orders.full_name).json
    assert dict(found["rows"])["document key"] == '{"_id": 0}'
    written = {bits, token["_typeBits"].hex()}
    assert all(any(text in snippet["code"] for text in written) for snippet in found["code"])
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
    assert re.search(r"documentKey\W+_id\W+1\b", line)


def test_a_wrong_token_is_a_sentence(site: Site) -> None:
    answer = site.get("/api/token", token="0")
    assert answer.status == 400
    assert "give the whole _data" in answer.json["error"]


def test_a_site_whose_name_points_to_this_machine_is_refused(site: Site) -> None:
    assert site.get("/api/state", {"Host": "evil.example:80"}).status == 421
    assert site.get("/api/state", {"Host": "localhost"}).status == 200


def test_nothing_may_come_from_another_host(site: Site) -> None:
    answer = site.get("/")
    assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
    static = ROOT / "src" / "tailrace" / "web" / "static"
    for path in static.iterdir():
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", path.read_text()), path


def test_a_cluster_has_its_shards_and_their_oplogs(here: Here) -> None:
    faults: list[Exception] = []
    page = HttpThread("127.0.0.1", 0)
    with ShardedCluster(shards=2) as cluster:
        page.start(Subject(command="serve", source=cluster.uri, clients_uri=cluster.uri), faults.append)
        site = Site(cluster.uri, page.address.rstrip("/"), cluster.client())
        deployment = site.get("/api/state").json["deployment"]
        oplogs = {key[1] for key in figures(site) if key[0] == "tailrace_oplog_bytes"}
        status = here("status", page.address)
        page.stop()
    assert not faults
    assert deployment["kind"] == "sharded cluster"
    assert [node["role"] for node in deployment["nodes"]] == ["router", "primary", "primary"]
    assert len(deployment["shards"]) == 2
    assert not any(node["error"] for node in deployment["nodes"])
    assert oplogs == {(("shard", name),) for name in deployment["shards"]}
    assert [line.split()[-1] for line in status.lines if line.startswith("member")] == [
        "ROUTER",
        "SHARD",
        "SHARD",
    ]
    assert (status.code, status.lines[-1]) == (0, "healthy")


def test_status_asks_the_page(here: Here, site: Site) -> None:
    with site.client.asked.orders.watch():
        outcome = here("status", site.url, "--max-lag", "1000d")
        shown = json.loads(here("status", site.url, "--max-lag", "1000d", "--json").output)
    assert (outcome.code, outcome.lines[-1]) == (0, "healthy"), outcome
    assert outcome.lines[0].startswith("deployment  tailrace serve of MongoDB 8.2.1, replica set rs0, up ")
    assert any(line.startswith("stream      asked.orders  client 127.0.0.1:") for line in outcome.lines)
    assert shown["history"]["events"] >= STORED
    assert shown["oplogs"][0]["mostBytes"] > 0
    # As the deployment itself is described.
    asked = json.loads(here("status", site.uri, "--max-lag", "1000d", "--json").output)
    assert (shown.keys(), shown["members"]) == (asked.keys(), asked["members"])


def test_status_of_a_pipeline_whose_source_is_away(here: Here) -> None:
    away = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
    section = {"state": "waiting", "starts": 1, "rows": 7, "retrySeconds": 3.0, "lastFailure": "it is away"}
    page = HttpThread("127.0.0.1", 0)
    page.start(Subject("pipeline", away, away, pipeline=lambda: section), lambda _: None)
    address = page.address
    outcome = here("status", address)
    metrics = get(f"{address}metrics")
    page.stop()
    assert b"tailrace_deployment_up 0.0" in metrics.body
    faults = [line for line in outcome.lines if line.startswith("wrong")]
    assert (outcome.code, outcome.lines[-1]) == (1, "degraded")
    assert "the deployment does not answer: " in faults[0]
    assert faults[1].endswith("the pipeline is waiting after a failure: it is away")
    ended = here("status", address)
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert ended.lines[0].startswith("unreachable: the page at http://127.0.0.1:")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--http", "0.0.0.0:0"], "see the page without a user and TLS; serve it on 127.0.0.1"),
        (["--http", "27080"], "--http takes HOST:PORT or off, not 27080"),
        (["--http", "127.0.0.1:70000"], "--http takes HOST:PORT or off"),
    ],
)
def test_an_address_that_the_page_cannot_have(here: Here, options: list[str], sentence: str) -> None:
    outcome = here("serve", "--no-spark", "--port", "0", *options)
    assert outcome.code == 2
    assert sentence in outcome.error


def test_an_address_in_use_is_one_sentence(here: Here, site: Site) -> None:
    outcome = here("serve", "--no-spark", "--port", "0", "--http", site.url.removeprefix("http://"))
    assert outcome.code == 2
    assert "the page cannot be served on" in outcome.error
