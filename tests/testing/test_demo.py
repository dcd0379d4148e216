"""The tour that `make run` gives, run as a user would see it."""

from pathlib import Path

import pytest

from tailrace.testing import demo


def test_the_tour_ends_well_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert demo.main([str(tmp_path)]) == 0
    output = capfd.readouterr().out
    assert output.count("$ tailrace serve") == 2
    assert output.count("ready mongodb://127.0.0.1:") == 2
    assert "the 14 events are the same" in output
    lines = [line for line in output.splitlines() if line.startswith("  ")]
    events = [line for line in lines if not line.startswith("    ")]
    tokens = [line.strip() for line in lines if line.startswith("    ")]
    assert len(events) == 14 + 1
    assert len(tokens) == 14
    assert all(token.startswith("82") for token in tokens)
    assert max(map(len, lines)) == 90
