"""The heart, all packages below `mongod`, works without LMDB and the emulated server."""

import subprocess
import sys
from pathlib import Path

from tests.events.stages.streams import insert
from tests.test_layers import ORDER, SRC, modules

HEART = ORDER[: ORDER.index("mongod")]

WITHOUT_STORE = """
import importlib, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "lmdb" or name.startswith("tailrace.mongod"):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse())
"""
REPLAY = """
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.pipeline.streams.oplog_events import OplogEvents
from tailrace.sources.archives.files import FilesSource

source = OplogEvents(FilesSource({"": (sys.argv[1],)}), is_archive=True)
run = source.run(Plan.open(Scope.parse_ns("shop"), {}), 0, source.promised())
print(sum(len(rows) for rows in run.rows()))
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_STORE + program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_the_heart_can_be_imported_without_a_store() -> None:
    names = [
        ".".join(("tailrace", *parts)).removesuffix(".__init__")
        for _, parts in modules()
        if parts[0] in HEART
    ]
    assert "tailrace.log.stream" in names
    assert SRC.is_dir()
    run(f"for name in {names!r}: importlib.import_module(name)")


def test_an_archive_is_replayed_without_a_store(tmp_path: Path) -> None:
    archive = tmp_path / "oplog.bson"
    archive.write_bytes(b"".join(insert(number, number) for number in range(1, 6)))
    assert run(REPLAY, str(archive)) == "5\n"
