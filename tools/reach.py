"""Which tests reach a line: recorded once with coverage, then asked for each mutation."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tools.mutations import ROOT, SOURCE, Mutation

KEPT: Final = ROOT / ".mutants"
_LINES: Final = KEPT / "lines"
_TESTS: Final = KEPT / "tests.json"
_LAWS: Final = ("batching", "engine", "images", "replay", "tiers")  # those that take less than a minute
RECORDED: Final = (
    # Examples in docstrings run apart from the tests: importing a submodule for them may hide a function of its name.
    *(
        ("src/tailrace/" + name,)
        for name in ("bson", "events", "log", "lake", "client", "mongod/wire", "mongod/store")
    ),
    *(
        ("tests/" + name,)
        for name in ("bson", "query", "events", "log", "lake", "pipeline", "sources", "client")
    ),
    *(("tests/mongod/" + name,) for name in ("wire", "store", "language")),
    ("tests/cli/test_token_command.py", "tests/cli/test_replay_command.py"),
    ("tests/mongod/server/change_streams",),
    ("tests/mongod/server", "--ignore", "tests/mongod/server/change_streams"),
    tuple(f"tests/laws/test_{name}.py" for name in _LAWS),
)
"""What is recorded, process by process"""
_RUN_SECONDS: Final = 900


def environment(folder: Path) -> dict[str, str]:
    """For tests of a copy of the tree."""
    return {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}


def record(folder: Path, packages: Iterable[str]) -> None:
    """Run the tests in a copy of the tree and keep which lines each of them reached.

    Threads are measured, other processes are not. Tests that fail or are skipped are never chosen.
    """
    KEPT.mkdir(exist_ok=True)
    settings = folder / "coverage.ini"
    included = ", ".join(f"{SOURCE / package}/*" for package in packages)
    lines = ("[run]", "relative_files = true", "concurrency = thread, greenlet", f"data_file = {_LINES}")
    settings.write_text("\n".join((*lines, f"include = {included}", "")))
    _LINES.unlink(missing_ok=True)
    seconds: dict[str, float] = {}
    for number, paths in enumerate(RECORDED):
        listed = folder / f"seconds-{number}.json"
        command = [sys.executable, "-m", "coverage", "run", "--append", "--rcfile", str(settings)]
        command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.reach_plugin"]
        command += ["-m", "not slow", "--record-seconds", str(listed), *paths]
        ended = subprocess.run(
            command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=_RUN_SECONDS
        )
        print(" ".join(paths), *ended.stdout.splitlines()[-1:], flush=True)
        for line in ended.stdout.splitlines():
            if line.startswith(("FAILED", "ERROR")):
                print(f"    not recorded: {line[:160]}", flush=True)
        if listed.exists():
            seconds |= json.loads(listed.read_text())
    hashes = {str(path): _hash(path) for path in _sources()}
    _TESTS.write_text(json.dumps({"seconds": seconds, "hashes": hashes}, indent=0))


def is_recorded() -> bool:
    return _TESTS.exists()


class Reach:
    """The record, asked for mutations."""

    def __init__(self) -> None:
        from coverage import CoverageData

        kept = json.loads(_TESTS.read_text())
        self.seconds: dict[str, float] = kept["seconds"]
        self._hashes: dict[str, str] = kept["hashes"]
        self._data = CoverageData(str(_LINES))
        self._data.read()

    def tests(self, mutation: Mutation) -> list[str]:
        """The tests that reach a mutation, the quickest first.

        What runs at import is reached by every test that runs a function of the module. So is every line of a file
        that was changed since the record.
        """
        reached = self._tests_by_line(mutation.path)
        is_changed = self._hashes.get(str(mutation.path)) != _hash(mutation.path)
        lines = reached if mutation.at_import or is_changed else mutation.lines
        found = {test for line in lines for test in reached.get(line, ())}
        return sorted(found & self.seconds.keys(), key=lambda test: (self.seconds[test], test))

    @cache  # noqa: B019 - there is one record
    def _tests_by_line(self, path: Path) -> dict[int, list[str]]:
        return self._data.contexts_by_lineno(str(path))


def within(seconds: float, tests: list[str], record: dict[str, float]) -> list[str]:
    """The first of the tests that take this long together, at least one; file by file, the quickest file first."""
    files: dict[str, list[str]] = {}
    total = 0.0
    for test in tests:
        total += record[test]
        if files and total > seconds:
            break
        files.setdefault(test.partition("::")[0], []).append(test)
    # Fixtures of a file are made once if its tests run one after another.
    groups = sorted(files.values(), key=lambda group: sum(record[test] for test in group))
    return [test for group in groups for test in group]


def _sources() -> Iterator[Path]:
    return (path.relative_to(ROOT) for path in sorted((ROOT / SOURCE).rglob("*.py")))


def _hash(path: Path) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
