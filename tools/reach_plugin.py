"""A pytest plugin of `tools.mutants`: record which test reaches which marks, or run chosen tests in their order."""

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from time import perf_counter
from typing import Final

import pytest

from tools.marks import Marks

FAILED: Final = "failed.txt"
"""In the working directory: the chosen test that failed"""
MARKED: Final = "TAILRACE_MARKED"
"""An environment variable: the folders whose modules are imported with marks"""

_marks = Marks([Path(name) for name in os.environ.get(MARKED, "").split(os.pathsep) if name])
if MARKED in os.environ:
    _marks.install()  # before other plugins import anything


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-reach", type=Path, help="write the seconds and marks of each passed test")
    parser.addoption("--chosen", type=Path, help="run the tests that this file lists, in its order")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-reach"):
        config.pluginmanager.register(Recorder(config.getoption("--record-reach")))
    if config.getoption("--chosen"):
        config.pluginmanager.register(Chooser(config.getoption("--chosen")))


class Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        self._reached: dict[str, list[int]] = {}
        self._passed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        _marks.take()
        start = perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = perf_counter() - start
            self._reached[item.nodeid] = _marks.take()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        tests = sorted(self._passed)
        by_mark: dict[int, list[int]] = defaultdict(list)
        for number, test in enumerate(tests):
            for mark in self._reached[test]:
                by_mark[mark].append(number)
        files = {path: [by_mark[mark] for mark in marks] for path, marks in _marks.files()}
        seconds = [round(self._seconds[test], 3) for test in tests]
        self._path.write_text(json.dumps({"tests": tests, "seconds": seconds, "files": files}))


class Chooser:
    def __init__(self, path: Path) -> None:
        self._chosen: list[str] = json.loads(path.read_text())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._chosen if test in found]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            Path(FAILED).write_text(report.nodeid)
