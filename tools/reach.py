"""Which tests reach a line: recorded once with marks in the source, then asked for each mutation."""

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

from tools.marks import Marked
from tools.mutations import ROOT, SOURCE, Mutation
from tools.reach_plugin import MARKED

KEPT: Final = ROOT / ".mutants"
_RECORD: Final = KEPT / "reach.json"
_LAWS: Final = ("batching", "engine", "images", "replay", "tiers")  # those that take less than a minute
RECORDED: Final = (
    # The longest first.
    ("tests/mongod/server", "--ignore", "tests/mongod/server/change_streams"),
    ("tests/mongod/server/change_streams",),
    tuple(f"tests/laws/test_{name}.py" for name in _LAWS),
    *(("tests/mongod/" + name,) for name in ("wire", "store", "language")),
    *(
        ("tests/" + name,)
        for name in ("bson", "query", "events", "log", "lake", "pipeline", "sources", "client")
    ),
    tuple(f"tests/cli/test_{name}_command.py" for name in ("token", "replay", "check")),
    ("tests/mongod/cluster/test_cluster_history.py", "tests/mongod/cluster/test_cluster_transactions.py"),
    # Examples in docstrings.
    tuple(
        "src/tailrace/" + name
        for name in ("bson", "events", "log", "lake", "client", "mongod/wire", "mongod/store")
    ),
)
"""What is recorded, process by process"""
_RUN_SECONDS: Final = 1800


def environment(folder: Path) -> dict[str, str]:
    """For tests of a copy of the tree."""
    return {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}


def record(folders: list[Path], packages: Iterable[str]) -> None:
    """Run the tests in copies of the tree, at once, and keep which marks each of them reached.

    Threads are measured, other processes are not. Tests that fail or are skipped are never chosen.
    """
    KEPT.mkdir(exist_ok=True)
    seconds: dict[str, float] = {}
    reached: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    packages = list(packages)
    with ThreadPoolExecutor(len(folders)) as pool:
        free = list(folders)

        def run(paths: tuple[str, ...]) -> tuple[Path, Path]:
            folder = free.pop()
            try:
                return _record_one(folder, packages, paths), folder
            finally:
                free.append(folder)

        for listed, folder in pool.map(run, RECORDED):
            if not listed.exists():
                continue
            found = json.loads(listed.read_text())
            seconds |= zip(found["tests"], found["seconds"], strict=True)
            for path, marks in found["files"].items():
                file = str(Path(path).relative_to(folder))
                for mark, tests in enumerate(marks):
                    reached[file][mark] += [found["tests"][number] for number in tests]
    hashes = {str(path): _hash(folders[0] / path) for path in _sources()}
    tests = sorted(seconds)
    numbers = {test: number for number, test in enumerate(tests)}
    bits = {
        file: {mark: hex(sum(1 << numbers[test] for test in set(found))) for mark, found in marks.items()}
        for file, marks in reached.items()
    }
    kept = {"tests": tests, "seconds": [seconds[test] for test in tests], "hashes": hashes, "reached": bits}
    _RECORD.write_text(json.dumps(kept, indent=0))


def _record_one(folder: Path, packages: list[str], paths: tuple[str, ...]) -> Path:
    listed = folder / f"reach-{RECORDED.index(paths)}.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.reach_plugin"]
    command += ["-m", "not slow", "--record-reach", str(listed), *paths]
    marked = os.pathsep.join(str(folder / SOURCE / package) for package in packages)
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**environment(folder), MARKED: marked},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_RUN_SECONDS,
    )
    print(" ".join(paths), *ended.stdout.splitlines()[-1:], flush=True)
    for line in ended.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            print(f"    not recorded: {line[:160]}", flush=True)
    return listed


def is_recorded() -> bool:
    return _RECORD.exists()


class Reach:
    """The record, asked for mutations."""

    def __init__(self) -> None:
        kept = json.loads(_RECORD.read_text())
        self._tests: list[str] = kept["tests"]
        self.seconds: dict[str, float] = dict(zip(self._tests, kept["seconds"], strict=True))
        self._hashes: dict[str, str] = kept["hashes"]
        self._reached: dict[str, dict[str, str]] = kept["reached"]

    def tests(self, mutation: Mutation) -> list[str]:
        """The tests that reach a mutation, the quickest first.

        What runs at import is reached by every test that runs a function of the module. So is every line of a file
        that was changed since the record.
        """
        reached = self._reached.get(str(mutation.path), {})
        is_changed = self._hashes.get(str(mutation.path)) != hashlib.sha256(mutation.source).hexdigest()
        marks = (
            reached.keys()
            if mutation.at_import or is_changed
            else {str(_mark(mutation.source, mutation.lines[0]))}
        )
        bits = 0
        for mark in marks & reached.keys():
            bits |= int(reached[mark], 16)
        found = [test for number, test in enumerate(self._tests) if bits >> number & 1]
        return sorted(found, key=lambda test: (self.seconds[test], test))


@cache
def _lines(source: bytes) -> dict[int, int]:
    return Marked(source).by_line


def _mark(source: bytes, line: int) -> int | None:
    return _lines(source).get(line)


def within(seconds: float, tests: list[str], record: dict[str, float], own: tuple[str, ...]) -> list[str]:
    """The first of the tests that take this long together, at least one, file by file.

    The package's ``own`` folders come first, and the quickest file in each part.
    """
    files: dict[str, list[str]] = {}
    total = 0.0
    for test in tests:
        total += record[test]
        if files and total > seconds:
            break
        files.setdefault(test.partition("::")[0], []).append(test)
    # Fixtures of a file are made once if its tests run one after another.
    places = sorted(
        files, key=lambda file: (not file.startswith(own), sum(record[test] for test in files[file]))
    )
    return [test for file in places for test in files[file]]


def _sources() -> Iterator[Path]:
    return (path.relative_to(ROOT) for path in sorted((ROOT / SOURCE).rglob("*.py")))


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
