"""Find the files of spec tests, and run each test with the runner of its format."""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from bson import json_util
from bson.json_util import JSONOptions
from pymongo.errors import PyMongoError

from tailrace.errors import UsageError
from tailrace.spectest import legacy, unified
from tailrace.spectest.deployment import Deployment
from tailrace.spectest.drivers import Driver
from tailrace.spectest.outcome import Mismatch, NotApplicable, Outcome, Status, Unsupported

Document = dict[str, Any]

_JSON = JSONOptions(tz_aware=False)


@dataclass(frozen=True, slots=True)
class SpecTest:
    """One test of a file."""

    file: Path
    name: str
    document: Document
    definition: Document

    def objection(self, deployment: Deployment) -> str | None:
        """Why the test does not apply to a server; None if it does."""
        try:
            _runner(self.document).check_applies(self.document, self.definition, deployment)
        except NotApplicable as skip:
            return str(skip)
        return None

    def run(self, deployment: Deployment, driver: Driver) -> Outcome:
        """Run the test; a failure is an outcome, not an exception."""
        try:
            objection = self.objection(deployment)
            if objection is not None:
                return Outcome(self.file, self.name, Status.SKIPPED, objection)
            # PyMongo adds an `_id` to documents that it inserts; another run must not see it.
            document, test = copy.deepcopy((self.document, self.definition))
            _runner(document).run_test(document, test, deployment, driver)
        except (Mismatch, Unsupported, PyMongoError) as error:
            return Outcome(self.file, self.name, Status.FAILED, str(error) or type(error).__name__)
        return Outcome(self.file, self.name, Status.PASSED)


def find_tests(paths: Iterable[Path]) -> list[SpecTest]:
    """The tests in files, and in the JSON files of folders."""
    return [test for path in paths for file in _files(path) for test in _tests(file)]


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"{path} does not exist; give files or folders of spec tests in JSON")
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*.json"))
    if not found:
        raise UsageError(f"there are no JSON files in {path}")
    return found


def _tests(file: Path) -> Iterator[SpecTest]:
    try:
        document = json_util.loads(file.read_text(encoding="utf-8"), json_options=_JSON)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file} is not Extended JSON: {error}") from None
    if not isinstance(document, dict) or not (unified.is_unified(document) or legacy.is_legacy(document)):
        raise UsageError(f"{file} is not a spec test of the legacy or the unified format")
    for test in document["tests"]:
        yield SpecTest(file, test["description"], document, test)


def _runner(document: Document) -> ModuleType:
    """The module that runs tests of a file's format."""
    return unified if unified.is_unified(document) else legacy
