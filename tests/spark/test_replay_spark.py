"""`tailrace replay` on Spark: pieces in order, and the same output as the local engine."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.cli.replaying.on_spark import LARGE, chooses_spark
from tailrace.events.scope import Scope
from tailrace.pipeline.replay import ReplayJob
from tailrace.pipeline.streams.stream_spec import StreamSpec
from tailrace.sources.archives.archive import ArchivedOplog
from tailrace.sources.archives.files import FilesSource
from tailrace.spark.replay import replay_pieces
from tests.cli.console import Here, Outcome, tailrace
from tests.cli.replay_inputs import write
from tests.sources.archive_samples import entry
from tests.support.history import dump
from tests.support.workload import generate_bulk


@pytest.fixture
def here(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)


@pytest.fixture(scope="module")
def oplog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oplog") / "oplog.bson"
    path.write_bytes(dump(islice(generate_bulk(seed=1, count=3_000), 3_000)))
    return path


def job_on(path: Path) -> ReplayJob:
    spec = StreamSpec.of(Scope.cluster(), {"allChangesForCluster": True})
    return ReplayJob(FilesSource({"": [str(path)]}), spec, spec.open().variables)


def test_pieces_are_in_order_and_end_with_the_first_that_fails(
    spark: SparkSession, oplog: Path, tmp_path: Path, here: Here
) -> None:
    expected = here("replay", oplog, "--engine", "local").output
    job = job_on(oplog)
    intervals = job.intervals(piece_bytes=50_000) or []
    assert len(intervals) > 8
    pieces = list(replay_pieces(spark, job, intervals))
    assert b"".join(piece.lines for piece in pieces) == expected
    assert sum(piece.entries for piece in pieces) == 3_000
    assert [piece.interval for piece in pieces] == intervals

    whole = oplog.read_bytes()
    place = whole.index(b"\x02op\0", len(whole) // 2)
    damaged = tmp_path / "damaged.bson"
    damaged.write_bytes(whole[:place] + b"\x02oq\0" + whole[place + 4 :])
    job = job_on(damaged)
    intervals = job.intervals(piece_bytes=50_000) or []
    pieces = list(replay_pieces(spark, job, intervals))
    assert len(pieces) < len(intervals)
    assert [piece.has_failed for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    lines = b"".join(piece.lines for piece in pieces)
    assert len(pieces) > 2
    assert lines == expected[: len(lines)]


@pytest.mark.slow
def test_a_damaged_input_is_reported_as_by_the_local_engine(oplog: Path, tmp_path: Path, java: None) -> None:
    cut = tmp_path / "cut.bson"
    cut.write_bytes(oplog.read_bytes()[:-100])
    arguments = [
        "replay",
        str(cut),
        "--ns",
        "shop.orders",
        "--pipeline",
        '[{"$project": {"documentKey": 1}}]',
    ]
    expected = tailrace(*arguments, "--engine", "local")
    command = [sys.executable, "-m", "tailrace", *arguments, "--engine", "spark", "--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert expected.code == 1
    assert "middle of a document" in expected.sentence
    assert Outcome(done.returncode, done.stdout, done.stderr.decode()) == expected


def test_an_input_that_can_be_read_only_once_is_refused(here: Here, java: None) -> None:
    outcome = here("replay", "-", "--engine", "spark")
    assert outcome.code == 2
    assert "only be read once" in outcome.sentence


def test_spark_is_chosen_for_large_inputs_that_can_be_split(tmp_path: Path, java: None) -> None:
    large = tmp_path / "large.bson"
    with open(large, "wb") as file:
        file.truncate(LARGE)
    packed = tmp_path / "large.bson.gz"
    packed.write_bytes(b"")
    with open(packed, "wb") as file:
        file.truncate(LARGE)
    small = write(tmp_path / "small.bson", entry(1))
    for path, engine, expected in (
        (large, None, True),
        (large, "local", False),
        (small, None, False),
        (small, "spark", True),
        (packed, None, False),
    ):
        assert chooses_spark(engine, {"": ArchivedOplog([str(path)])}) == expected, (path, engine)


def test_output_into_a_folder(here: Here, oplog: Path, tmp_path: Path) -> None:
    expected = here("replay", oplog).output
    out = tmp_path / "events"
    assert here("replay", oplog, "--out", f"{out}/").code == 0
    assert [path.name for path in out.iterdir()] == ["part-00000.jsonl"]
    assert (out / "part-00000.jsonl").read_bytes() == expected
    again = here("replay", oplog, "--out", out)
    assert again.code == 2
    assert "not empty" in again.sentence
