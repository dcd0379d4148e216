"""Change the source in one small place after another, and count how many changes the tests notice.

::

    make mutants [SEED=1] [COUNT=60] [ONLY=log]

Each mutation is applied to a copy of the tree. The fitting tests run in rounds, first those of the package,
then those of the packages that use it; the first failing test ends it. A round that takes too long counts as
noticed. Survivors are printed with their place: read each one, because a mutation may be equivalent, or change
only speed or the text of a message.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = Path("src/tailrace")
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
"""For each package the folders of tests, round by round"""
_ROUND_SECONDS: Final = 900
_TEST_SECONDS: Final = 120
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
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one file."""

    path: Path
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    @property
    def package(self) -> str:
        return next(name for name in ROUNDS if self.path.is_relative_to(SOURCE / name))

    def apply(self, folder: Path) -> None:
        """Write the changed file into a copy of the tree."""
        source = (ROOT / self.path).read_bytes()
        (folder / self.path).write_bytes(source[: self.start] + self.after.encode() + source[self.end :])

    def undo(self, folder: Path) -> None:
        shutil.copyfile(ROOT / self.path, folder / self.path)

    def __str__(self) -> str:
        before, after = (" ".join(text.split())[:80] for text in (self.before, self.after))
        return f"{self.path}:{self.line} {self.kind}: {before}  ->  {after}"


class Finder(ast.NodeVisitor):
    """Collect the mutations of one file."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._path = path
        self._source = source
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._returns_bool = False

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion states what holds anyway."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """The text of a message is not behaviour; its code is checked by hand."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Return(self, node: ast.Return) -> None:
        if self._returns_bool and node.value is not None:
            self._replace("retbool", node.value, f"not ({ast.unparse(node.value)})")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace("dropcall", node.value, "None")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        opposite = _OPPOSITES.get(type(node.ops[0]))
        if len(node.ops) == 1 and opposite is not None:
            changed = ast.Compare(node.left, [opposite()], node.comparators)
            self._replace("cmp", node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        self._replace("boolop", node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        if len(plain) == len(node.args) >= 2 and ast.dump(node.args[0]) != ast.dump(node.args[1]):
            changed = ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
            self._replace("swapargs", node, ast.unparse(changed))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace("const", node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace("const", node, str(node.value + 1))

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._remove_element(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._remove_element(node)

    def visit_List(self, node: ast.List) -> None:
        self._remove_element(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Its parts have no places of their own."""

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = self._returns_bool
        self._returns_bool = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._returns_bool = before

    def _negate(self, test: ast.expr) -> None:
        self._replace("negate", test, f"(not ({ast.unparse(test)}))")

    def _remove_element(self, node: ast.Tuple | ast.Set | ast.List) -> None:
        # A list of fixed length is unpacked or compared as a whole; three elements are a table.
        if isinstance(node, ast.List | ast.Set) or len(node.elts) > 2:
            names = [item for item in node.elts if isinstance(item, ast.Constant | ast.Attribute | ast.Name)]
            if len(names) == len(node.elts) >= 3 and not isinstance(getattr(node, "ctx", None), ast.Store):
                changed = type(node)(elts=node.elts[:-1])
                self._replace("rmelem", node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def _replace(self, kind: str, node: ast.expr, after: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        end = self._line_starts[node.end_lineno - 1] + node.end_col_offset
        before = self._source[start:end].decode()
        self.found.append(Mutation(self._path, node.lineno, kind, before, after, start, end))


def mutations(package: str) -> Iterator[Mutation]:
    """Every mutation of a package that is still Python."""
    for path in sorted((ROOT / SOURCE / package).rglob("*.py")):
        source = path.read_bytes()
        finder = Finder(path.relative_to(ROOT), source)
        finder.visit(ast.parse(source))
        for mutation in finder.found:
            changed = source[: mutation.start] + mutation.after.encode() + source[mutation.end :]
            try:
                ast.parse(changed)
            except SyntaxError:
                continue
            yield mutation


def sample(seed: int, count: int, packages: list[str]) -> list[Mutation]:
    """A seeded sample, spread over the packages by their size."""
    rng = random.Random(seed)
    return rng.sample([mutation for package in packages for mutation in mutations(package)], count)


def is_noticed(mutation: Mutation, folder: Path, report: Callable[[str], None]) -> bool:
    """Run the rounds of tests on a mutation until one fails."""
    mutation.apply(folder)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        for number, paths in enumerate(ROUNDS[mutation.package], 1):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            command += ["--timeout", str(_TEST_SECONDS), "-m", "not slow", *paths]
            try:
                ended = subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=_ROUND_SECONDS,
                )
            except subprocess.TimeoutExpired:
                report(f"noticed in round {number} by its time limit: {mutation}")
                return True
            if ended.returncode not in (0, 5):
                failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                report(f"noticed in round {number}: {mutation}\n    {(failed or ['?'])[0][:160]}")
                return True
    finally:
        mutation.undo(folder)
    report(f"SURVIVED: {mutation}")
    return False


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
    parser.add_argument("--only", choices=ROUNDS, action="append", help="a package; by default all")
    parser.add_argument("--list", action="store_true", help="print the sample and run nothing")
    options = parser.parse_args()
    chosen = sample(options.seed, options.count, options.only or list(ROUNDS))
    print(f"{len(chosen)} mutations, seed {options.seed}", flush=True)
    if options.list:
        print(*chosen, sep="\n")
        return
    noticed: dict[str, list[bool]] = defaultdict(list)
    survivors: list[Mutation] = []
    with TemporaryDirectory(prefix="tailrace-mutants-") as name:
        folders = [Path(name) / str(number) for number in range(options.jobs)]
        for folder in folders:
            copy_tree(folder)

        def run_share(number: int) -> None:
            for mutation in chosen[number :: options.jobs]:
                found = is_noticed(mutation, folders[number], lambda line: print(line, flush=True))
                noticed[mutation.package].append(found)
                if not found:
                    survivors.append(mutation)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run_share, range(options.jobs)))
    print(f"\n{'package':<16}{'noticed':>8}{'of':>5}")
    for package in ROUNDS:
        if noticed[package]:
            print(f"{package:<16}{sum(noticed[package]):>8}{len(noticed[package]):>5}")
    print(
        f"{'all':<16}{len(chosen) - len(survivors):>8}{len(chosen):>5}  {1 - len(survivors) / len(chosen):.0%}"
    )
    for mutation in sorted(survivors, key=str):
        print(f"survivor: {mutation}")


if __name__ == "__main__":
    main()
