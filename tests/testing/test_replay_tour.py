"""The tour of `make tour`, run as a user runs it."""

from pathlib import Path

import pytest

from examples import replay_tour


def test_the_tour_succeeds_and_shows_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    assert replay_tour.main([str(tmp_path)]) == 0
    output = capfd.readouterr().out
    assert "$ tailrace replay" in output
    assert "are identical: 13 events" in output
    assert "operation number 2 of its transaction" in output
    events = [line for line in output.splitlines() if line.startswith("  ")]
    assert len(events) == 13 + 3
    assert max(map(len, events)) == 90


def test_the_tour_fails_when_the_merged_events_differ(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An entry that is missing in a shard's oplog is noticed."""
    files = replay_tour.write_sample(tmp_path)
    shard = files[2]  # its second entry creates a collection
    data = shard.read_bytes()
    first = int.from_bytes(data[:4], "little")
    second = int.from_bytes(data[first : first + 4], "little")
    shard.write_bytes(data[:first] + data[first + second :])
    assert replay_tour.tour(tmp_path, files) == 1
    assert "DIFFERENT" in capfd.readouterr().out
