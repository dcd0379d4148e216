"""A pytest plugin of `tools.mutants`: collect the tests once, then run chosen ones in a fork for each mutation.

The fork replaces the code of the functions that a mutation changes, so nothing is imported or collected again. What a
mutation changes at import cannot be replaced; `tools.mutants` runs its tests in a process of their own.
"""

import gc
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import CodeType, FunctionType
from typing import Any, Final

import pytest

_PATIENCE: Final = 10
"""Seconds after a test's own limit: its fixtures may take long to end"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requests", type=int, help="a file descriptor: one JSON object in each line")
    parser.addoption("--replies", type=int, help="a file descriptor")
    parser.addoption("--whole-packages", nargs="+", default=[], help="import all modules of these packages")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    for package in session.config.getoption("--whole-packages"):
        _import_all(package)
    loop = _Loop(session)
    session.config.pluginmanager.register(loop)
    with (
        os.fdopen(session.config.getoption("--requests")) as requests,
        os.fdopen(session.config.getoption("--replies"), "w") as replies,
    ):
        print(json.dumps({"collected": len(session.items)}), file=replies, flush=True)
        for line in requests:
            print(json.dumps(loop.run(**json.loads(line))), file=replies, flush=True)
    os._exit(0)


def _import_all(package: str) -> None:
    found = importlib.import_module(package)
    for module in pkgutil.walk_packages(found.__path__, package + "."):
        importlib.import_module(module.name)


class _Loop:
    def __init__(self, session: pytest.Session) -> None:
        self._config = session.config
        self._items = {item.nodeid: item for item in session.items}
        self._failure: dict[str, object] | None = None

    def run(self, path: str, before: str, after: str, tests: list[str], limit: float) -> dict[str, Any]:
        """Run tests in a fork until one fails; the reply has it, and whether it took too long."""
        items = [self._items[test] for test in tests if test in self._items]
        folder = mkdtemp(prefix="tailrace-mutant-")
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if not child:
            os.close(reading)
            self._child(Path(path), (before, after), items, limit, Path(folder), writing)
        os.close(writing)
        try:
            return _watch(reading, limit + _PATIENCE)
        finally:
            os.close(reading)
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            shutil.rmtree(folder, ignore_errors=True)

    def _child(
        self,
        path: Path,
        texts: tuple[str, str],
        items: list[pytest.Item],
        limit: float,
        folder: Path,
        out: int,
    ) -> None:
        def say(**fields: object) -> None:
            os.write(out, json.dumps(fields).encode() + b"\n")

        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            vars(self._config)["_env_timeout"] = limit
            vars(vars(self._config)["_tmp_path_factory"])["_basetemp"] = folder
            if not replace(path.resolve(), *texts):
                say(unchanged=True)
                return
            for item, after in zip(items, [*items[1:], None], strict=True):
                say(test=item.nodeid)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if self._failure is not None:
                    say(**self._failure)
                    return
            say(passed=len(items))
        except BaseException as error:  # the mutation broke pytest itself
            say(failed=None, text=f"{type(error).__name__}: {error}"[:200], timeout=False)
        finally:
            os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failure is None:
            text = str(report.longrepr).splitlines()
            lines = [line for line in text if line.startswith("E  ")] or text[-1:] or [""]
            timeout = any("Timeout" in line and "from pytest-timeout" in line for line in text)
            self._failure = {"failed": report.nodeid, "text": lines[0][:200], "timeout": timeout}


def _watch(reading: int, limit: float) -> dict[str, Any]:
    """Wait for the end of the child, or until one of its tests has taken too long."""
    rest = b""
    test = None
    while select.select([reading], [], [], limit)[0]:
        data = os.read(reading, 1 << 16)
        if not data:
            return {"failed": test, "text": "the process ended", "timeout": False}
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            reply: dict[str, Any] = json.loads(line)
            if "test" not in reply:
                return reply
            test = reply["test"]
    return {"failed": test, "text": f"not done after {limit:.0f} s", "timeout": True}


def replace(path: Path, before: str, after: str) -> bool:
    """Replace the code of the functions of a file that a change of its source changes."""
    if before == after:
        return True
    pairs = _pairs(compile(before, str(path), "exec"), compile(after, str(path), "exec"))
    changed = {_place(old): new for old, new in pairs if old != new}
    found = False
    for function in _functions(str(path)):
        code = changed.get(_place(function.__code__))
        if code is not None:
            function.__code__ = code
            found = True
    return found


def _place(code: CodeType) -> tuple[str, int, bytes]:
    """What identifies a code. Not all of it: pytest rewrites assertions, here also those of the source."""
    return code.co_qualname, code.co_firstlineno, code.co_code if code.co_name == "<lambda>" else b""


def _pairs(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    yield before, after
    inner = [[code for code in outer.co_consts if isinstance(code, CodeType)] for outer in (before, after)]
    if [code.co_name for code in inner[0]] == [code.co_name for code in inner[1]]:
        for pair in zip(*inner, strict=True):
            yield from _pairs(*pair)


@cache
def _functions(path: str) -> list[FunctionType]:
    return [
        value
        for value in gc.get_objects()
        if isinstance(value, FunctionType) and value.__code__.co_filename == path
    ]
