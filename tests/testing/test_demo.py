"""The tour of `make run`, run as a user runs it."""

import re
from pathlib import Path

import pytest

from examples import demo


@pytest.mark.jvm
@pytest.mark.usefixtures("java")
@pytest.mark.timeout(1200)  # the pipeline has a low priority, and other tests run beside it
def test_the_tour_succeeds_and_shows_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert demo.main([str(tmp_path)]) == 0
    output = capfd.readouterr().out
    assert output.count("$ tailrace serve") == 2
    assert output.count("ready mongodb://127.0.0.1:") == 2
    assert re.search(r"^  11 events in \d+ ms, from insert to drop$", output, re.MULTILINE)
    assert re.search(r"^  shop +insert +5$", output, re.MULTILINE)
    assert "from the history and replayed, the 14 events are the same" in output
    tokens = [line.strip() for line in output.splitlines() if line.startswith("    8")]
    assert len(tokens) == 14
    assert tokens == sorted(tokens)
    assert max(len(line) for line in output.splitlines() if line.startswith("  ")) == 90
