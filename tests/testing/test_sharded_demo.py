"""The tour of `make run SHARDS=3`, run as a user runs it."""

import re
from pathlib import Path

import pytest

from examples import sharded_demo


@pytest.mark.usefixtures("java")
@pytest.mark.timeout(1200)  # the pipeline has a low priority, and other tests run beside it
@pytest.mark.slow  # it starts its own Spark; the tour of a replica set is in the quick run
def test_the_tour_of_a_cluster_succeeds_and_shows_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert sharded_demo.main(["3", str(tmp_path)]) == 0
    output = capfd.readouterr().out
    shown = re.findall(r"^  (shard\d)  (\w+)", output, re.MULTILINE)
    assert {shard for shard, _ in shown} == {"shard0", "shard1", "shard2"}
    assert [kind for _, kind in shown].count("update") == 10
    tokens = [line.strip() for line in output.splitlines() if line.startswith("    8")]
    assert len(tokens) == len(shown)
    assert tokens == sorted(tokens)
    assert f"replayed, the {len(shown)} events are the same" in output
