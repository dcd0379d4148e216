"""Names: in /metrics, in the table of docs/metrics.md, in the alert rules and in the dashboard."""

import json
import logging
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tailrace.cli.serving.pipeline_page import PipelinePage
from tailrace.events.cluster_time import cluster_time
from tailrace.log_lines import fields
from tailrace.pipeline.history.progress import Progress
from tests.web.site import Site, get

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "tailrace.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "tailrace.json"
METRIC = re.compile(r"\b(?:tailrace|process)_[a-z_]+\b")
LABELS = re.compile(r"\{[^}]*\}")
TIME = re.compile(r"\d+[smhd]")


@pytest.fixture(scope="module")
def pipeline_metrics(site: Site) -> str:
    """What a pipeline answers that has stored a batch, and has failed once since."""
    addresses: list[str] = []

    class Addresses(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            addresses.append(record.attributes["address"])  # type: ignore[attr-defined]

    log = logging.getLogger("tailrace.pipeline")
    handler, level = Addresses(), log.level
    log.setLevel(logging.INFO)
    options = Namespace(
        http="127.0.0.1:0", insecure=False, source=[site.uri], history=None, keep_age=None, keep_size=None
    )
    progress = Progress()
    log.addHandler(handler)
    try:
        with PipelinePage(options) as page:
            report = page.start(progress)
            log.removeHandler(handler)
            progress.committed(7, through=cluster_time(100), promised=cluster_time(130))
            log.warning("Trying again", extra=fields(reason="the source is away", pauseSeconds=60.0))
            report.state = "running"
            ready = get(f"{addresses[0]}readyz")
            assert (ready.status, ready.body) == (503, b"the pipeline is waiting\n")
            assert get(f"{addresses[0]}healthz").status == 200
            return get(f"{addresses[0]}metrics").body.decode()
    finally:
        log.setLevel(level)


@pytest.fixture(scope="module")
def metrics(site: Site, pipeline_metrics: str) -> set[str]:
    """All names of metrics, of samples and of families."""
    text = site.get("/metrics").body.decode() + pipeline_metrics
    families = text_string_to_metric_families(text.replace("# EOF\n", ""))
    return {sample.name for family in families for sample in family.samples} | set(METRIC.findall(text))


def test_a_pipeline_shows_its_progress_and_failures(pipeline_metrics: str) -> None:
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(pipeline_metrics)
        for sample in family.samples
        if sample.labels.get("tailrace_pipeline_state", "waiting") == "waiting"
    }
    assert samples["tailrace_pipeline_rows_total"] == 7
    assert samples["tailrace_pipeline_failures_total"] == 1
    assert samples["tailrace_pipeline_state"] == 1
    assert 0 < samples["tailrace_pipeline_retry_seconds"] <= 60


def test_the_table_has_every_metric(metrics: set[str]) -> None:
    lines = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    documented = {match[1] for line in lines if (match := re.match(r"\| `(tailrace_\w+)` \|", line))}
    shown = {name for name in metrics if name.startswith("tailrace_")}
    assert documented == shown


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [rule["expr"] for rule in rules()] + [
        target["expr"] for panel in panels for target in panel["targets"]
    ]


def test_rules_and_dashboard_ask_only_for_metrics_that_exist(metrics: set[str]) -> None:
    asked = {name for expression in expressions() for name in METRIC.findall(LABELS.sub("", expression))}
    assert asked <= metrics
    assert len(asked) > 20


def test_expressions_are_balanced() -> None:
    for expression in expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression


def test_rules_say_what_is_wrong_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert TIME.fullmatch(rule.get("for", "1m"))
        assert all(rule["annotations"][name] for name in ("summary", "description"))


def test_panels_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not own & cells
        cells |= own
