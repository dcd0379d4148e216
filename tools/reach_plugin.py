"""A pytest plugin of `tools.mutants`: record which test reaches which lines, or run chosen tests in their order."""

import json
from collections.abc import Generator
from pathlib import Path
from time import perf_counter
from typing import Final

import pytest

FAILED: Final = "failed.txt"
"""In the working directory: the chosen test that failed"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-seconds", type=Path, help="write the seconds of each passed test to this file")
    parser.addoption("--chosen", type=Path, help="run the tests that this file lists, in its order")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-seconds"):
        config.pluginmanager.register(Recorder(config.getoption("--record-seconds")))
    if config.getoption("--chosen"):
        config.pluginmanager.register(Chooser(config.getoption("--chosen")))


class Recorder:
    """Make each test a context of the running measurement of coverage."""

    def __init__(self, path: Path) -> None:
        from coverage import Coverage

        measurement = Coverage.current()
        assert measurement is not None
        self._measurement = measurement
        self._path = path
        self._seconds: dict[str, float] = {}
        self._passed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._measurement.switch_context(item.nodeid)
        start = perf_counter()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = perf_counter() - start
            self._measurement.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.failed:
            self._passed.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        seconds = {test: round(self._seconds[test], 3) for test in sorted(self._passed)}
        self._path.write_text(json.dumps(seconds, indent=0))


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
