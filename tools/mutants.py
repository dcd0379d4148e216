"""Change the source in one small place after another, and count how many changes the tests notice.

::

    make mutants [SEED=1] [COUNT=60] [ONLY=log] [RECORD=1]

The first run records which tests reach which blocks, into `.mutants/`; `RECORD=1` does it again. Each mutation is
applied to a copy of the tree. The tests that reach it run, those of its package first, until one fails or their time is used
up; a failed test counts if it fails again alone, and passes without the mutation. If no recorded test reaches it,
folders of tests run: first that of the package, then those of the packages that use it. A test that takes much too
long counts as failed. Survivors are printed with their place and the rule that ended them: read each one, because a
mutation may be equivalent, or change only speed or the text of a message.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, Final

from tools.mutations import ROOT, SOURCE, Mutation, mutations
from tools.reach import RECORDED, Reach, environment, is_recorded, record, within
from tools.reach_plugin import FAILED

_STREAMS: Final = (
    "tests/mongod/server/change_streams",
    "tests/laws/test_replay.py",
    "tests/laws/test_resume.py",
)
_ALL_LAWS: Final = ("tests/laws",)
ROUNDS: Final = {
    "bson": (
        ("tests/bson",),
        ("tests/query", "tests/events"),
        ("tests/mongod/store", "tests/mongod/language"),
    ),
    "events": (("tests/events",), (*_STREAMS, "tests/log", "tests/lake"), ("tests/cli", "tests/sources")),
    "log": (
        ("tests/log",),
        (*_STREAMS, "tests/laws/test_tiers.py"),
        ("tests/mongod/server/test_history.py",),
    ),
    "lake": (("tests/lake",), ("tests/log", "tests/pipeline", "tests/spark"), ("tests/laws/test_tiers.py",)),
    "client": (("tests/client",), ("tests/spectest",), ("tests/cli",)),
    "mongod/wire": (("tests/mongod/wire",), ("tests/mongod/server/test_connections.py",), ("tests/client",)),
    "mongod/store": (
        ("tests/mongod/store", "tests/log"),
        ("tests/mongod/server",),
        ("tests/mongod/cluster", *_ALL_LAWS),
    ),
}
"""For each package the folders of tests that run if no recorded test reaches a line, round by round"""
_ROUND_SECONDS: Final = 600
_OUT_OF_TIME: Final = f"not done after {_ROUND_SECONDS} s"
_UNCHANGED: Final = "the change is not in a function"
_TEST_SECONDS: Final = 15
_LONG_TEST_SECONDS: Final = 120
_FILES_AT_ONCE: Final = 12
_COPIED: Final = (
    "src",
    "tests",
    "tools",
    "bench",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)


def sample(seed: int, count: int, packages: list[str]) -> list[Mutation]:
    """A seeded sample, spread over the packages by their size."""
    rng = random.Random(seed)
    return rng.sample([mutation for package in packages for mutation in mutations(package)], count)


@dataclass(frozen=True, slots=True)
class Outcome:
    mutation: Mutation
    noticed: bool
    rule: str
    """what ended it"""

    def __str__(self) -> str:
        return f"{'noticed' if self.noticed else 'SURVIVED'}: {self.mutation}\n    {self.rule}"


class Runner:
    """Run tests on one mutation after another, in one copy of the tree."""

    def __init__(self, folder: Path, reach: Reach, seconds: float) -> None:
        self._folder = folder
        self._reach = reach
        self._seconds = seconds
        self._forks = Forks(folder)
        self._sound: dict[str, bool] = {}

    def run(self, mutation: Mutation) -> Outcome:
        mutation.apply(self._folder)
        try:
            reaching = self._reach.tests(mutation)
            if not reaching:
                return self._unreached(mutation)
            own = ROUNDS[package_of(mutation)][0]
            chosen = within(self._seconds, reaching, self._reach.seconds, own)
            failure = self._in_forks(mutation, chosen)
            if failure is _UNCHANGED:
                failure = self._in_processes(chosen)
            if failure is not None:
                return Outcome(mutation, True, failure)
            if mutation.at_import:
                # A test may read a constant and run no function of the module.
                failure = self._failure(list(own), _LONG_TEST_SECONDS)
                if failure not in (None, _OUT_OF_TIME):
                    return Outcome(mutation, True, f"the package's own folder: {failure}")
            if len(chosen) == len(reaching):
                return Outcome(mutation, False, f"all {len(chosen)} tests that reach it passed")
            text = (
                f"{len(chosen)} of {len(reaching)} tests that reach it passed, and had {self._seconds:.0f} s"
            )
            return Outcome(mutation, False, text)
        finally:
            mutation.undo(self._folder)

    def _in_forks(self, mutation: Mutation, tests: list[str]) -> str | None:
        """How one of the tests fails; a test that fails by chance, or in any fork, does not count."""
        if mutation.at_import:
            return _UNCHANGED
        left = tests
        while left:
            reply = self._forks.run(mutation, left, self._limit(left))
            if "unchanged" in reply:
                return _UNCHANGED
            if "failed" not in reply:
                return None
            failed = reply["failed"]
            if failed not in left or self._fails_by(mutation, failed):
                return f"{failed}: {reply['text']}"
            left = left[left.index(failed) + 1 :]
        return None

    def _fails_by(self, mutation: Mutation, test: str) -> bool:
        limit = self._limit([test])
        if "failed" not in self._forks.run(mutation, [test], limit):
            return False
        if test not in self._sound:
            self._sound[test] = "failed" not in self._forks.run(None, [test], limit)
        return self._sound[test]

    def _limit(self, tests: list[str]) -> float:
        return _TEST_SECONDS + 5 * max(self._reach.seconds[test] for test in tests)

    def _in_processes(self, chosen: list[str]) -> str | None:
        for tests in batches(chosen):
            left = tests
            while left and (failure := self._failure_of(left)) is not None:
                failed = self._failed_test()
                if failed not in left or self._failure_of([failed]) is not None:
                    return failure
                left = [test for test in left if test != failed]  # it fails by chance
        return None

    def _failure_of(self, tests: list[str]) -> str | None:
        (self._folder / "chosen.json").write_text(json.dumps(tests))
        (self._folder / FAILED).unlink(missing_ok=True)
        files = dict.fromkeys(map(file_of, tests))
        return self._failure(["--chosen", "chosen.json", *files], self._limit(tests))

    def _failed_test(self) -> str | None:
        path = self._folder / FAILED
        return path.read_text() if path.exists() else None

    def _unreached(self, mutation: Mutation) -> Outcome:
        rule = "no recorded test reaches it; its folders"
        for paths in ROUNDS[package_of(mutation)]:
            failure = self._failure(list(paths), _LONG_TEST_SECONDS)
            if failure == _OUT_OF_TIME:
                # Each test has a time limit of its own, so this says nothing about the mutation.
                return Outcome(mutation, False, f"{rule} were {failure}")
            if failure is not None:
                return Outcome(mutation, True, f"{rule}: {failure}")
        return Outcome(mutation, False, f"{rule} passed")

    def _failure(self, arguments: list[str], test_seconds: float) -> str | None:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "tools.reach_plugin"]
        command += ["--timeout", f"{test_seconds:.0f}", "-m", "not slow", *arguments]
        try:
            ended = subprocess.run(
                command,
                cwd=self._folder,
                env=environment(self._folder),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_ROUND_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return _OUT_OF_TIME
        if ended.returncode in (0, 5):
            return None
        lines = ended.stdout.splitlines()
        failed = [line for line in lines if line.startswith(("FAILED ", "ERROR tests"))]
        found = failed or [line for line in lines if "Timeout" in line] or ["pytest ended by itself"]
        return found[0][:200]


class Forks:
    """A process that has collected the recorded tests, and forks for each mutation (`tools/forking.py`)."""

    def __init__(self, folder: Path) -> None:
        paths = [part for paths in RECORDED for part in paths if part.startswith(("src", "tests"))]
        requests, request = os.pipe()
        reply, replies = os.pipe()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-s",
            "-p",
            "no:cacheprovider",
            "-p",
            "tools.forking",
        ]
        command += ["-m", "not slow", "--requests", str(requests), "--replies", str(replies)]
        command += ["--whole-packages", *(f"tailrace.{name.replace('/', '.')}" for name in ROUNDS), "--"]
        subprocess.Popen(
            [*command, *dict.fromkeys(paths)],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(requests, replies),
        )
        os.close(requests)
        os.close(replies)
        self._requests = os.fdopen(request, "w")
        self._replies = os.fdopen(reply)
        self._next()

    def run(self, mutation: Mutation | None, tests: list[str], limit: float) -> dict[str, Any]:
        texts = {"path": "", "before": "", "after": ""}
        if mutation is not None:
            before, after = mutation.source.decode(), mutation.changed.decode()
            texts = {"path": str(mutation.path), "before": before, "after": after}
        print(json.dumps({**texts, "tests": tests, "limit": limit}), file=self._requests, flush=True)
        return self._next()

    def _next(self) -> dict[str, Any]:
        line = self._replies.readline()
        if not line:
            raise RuntimeError(
                "the tests could not be collected: see what pytest prints in a copy of the tree"
            )
        found: dict[str, Any] = json.loads(line)
        return found


def batches(tests: list[str]) -> Iterator[list[str]]:
    """The tests of one process after another: a few files, because most mutations are noticed early."""
    files = list(dict.fromkeys(map(file_of, tests)))
    for start in range(0, len(files), _FILES_AT_ONCE):
        some = files[start : start + _FILES_AT_ONCE]
        yield [test for test in tests if file_of(test) in some]


def file_of(test: str) -> str:
    return test.partition("::")[0]


def package_of(mutation: Mutation) -> str:
    return next(name for name in ROUNDS if mutation.path.is_relative_to(SOURCE / name))


def copy_tree(folder: Path) -> None:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copyfile(source, folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="count how many small changes of the source the tests notice"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="of tests for one mutation, as recorded")
    parser.add_argument("--only", choices=ROUNDS, action="append", help="a package; by default all")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    parser.add_argument("--record", action="store_true", help="record again which tests reach which lines")
    options = parser.parse_args()
    chosen = sample(options.seed, options.count, options.only or list(ROUNDS))
    if options.list:
        print(*chosen, sep="\n")
        return
    with TemporaryDirectory(prefix="tailrace-mutants-") as name:
        folders = [Path(name) / str(number) for number in range(options.jobs)]
        for folder in folders:
            copy_tree(folder)
        if options.record or not is_recorded():
            record(folders, ROUNDS)
        runners: SimpleQueue[Runner] = SimpleQueue()
        for folder in folders:
            runners.put(Runner(folder, Reach(), options.seconds))

        def run(mutation: Mutation) -> Outcome:
            runner = runners.get()
            try:
                outcome = runner.run(mutation)
            finally:
                runners.put(runner)
            print(outcome, flush=True)
            return outcome

        print(f"{len(chosen)} mutations, seed {options.seed}", flush=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            print_score(list(pool.map(run, chosen)))


def print_score(outcomes: list[Outcome]) -> None:
    print(f"\n{'package':<16}{'noticed':>8}{'of':>5}")
    for package in ROUNDS:
        noticed = [outcome.noticed for outcome in outcomes if package_of(outcome.mutation) == package]
        if noticed:
            print(f"{package:<16}{sum(noticed):>8}{len(noticed):>5}")
    survivors = [outcome for outcome in outcomes if not outcome.noticed]
    noticed_share = 1 - len(survivors) / len(outcomes)
    print(f"{'all':<16}{len(outcomes) - len(survivors):>8}{len(outcomes):>5}  {noticed_share:.0%}")
    for outcome in sorted(survivors, key=str):
        print(outcome)


if __name__ == "__main__":
    main()
