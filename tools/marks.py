"""Mark the blocks of functions, so that a run shows which of them it reached.

A mark is one assignment before the first statement of a block, and before the first statement after an inner block.
That is much cheaper than tracing every line.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from tools.mutations import statement_lines

_NAME: Final = "__reached__"
_ROOM: Final = 1 << 16
_COMPOUND: Final = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match,
)  # fmt: skip
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Marked:
    """A source file with marks, numbered from `first`."""

    def __init__(self, source: bytes, first: int = 0) -> None:
        self.by_line: dict[int, int] = {}
        """for each line of a function its mark, counted from 0"""
        self.count = 0
        self._first = first
        self.tree = ast.parse(source)
        self._outside(self.tree.body)
        ast.fix_missing_locations(self.tree)

    def _outside(self, body: Sequence[ast.stmt]) -> None:
        """Of functions: what runs at import has no marks."""
        for statement in body:
            if isinstance(statement, _FUNCTION):
                statement.body = self._block(statement.body)
            else:
                for inner in _bodies(statement):
                    self._outside(inner)

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        mark = None
        for statement in body:
            if not found and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                found.append(statement)
                continue
            if mark is None:
                mark = self.count
                self.count += 1
                found.append(self._assignment(mark, statement))
            self._inside(statement, mark)
            found.append(statement)
            if isinstance(statement, _COMPOUND):
                mark = None
        return found

    def _inside(self, statement: ast.stmt, mark: int) -> None:
        self._head(statement, mark)
        if isinstance(statement, ast.ClassDef):
            for inner in statement.body:
                self._inside(inner, mark)
            return
        if isinstance(statement, ast.Try | ast.TryStar):
            for handler in statement.handlers:
                self._head(handler, mark)
        elif isinstance(statement, ast.Match):
            for case in statement.cases:
                self._head(case, mark)
        for body in _bodies(statement):
            body[:] = self._block(body)

    def _head(self, node: ast.stmt | ast.ExceptHandler | ast.match_case, mark: int) -> None:
        for line in statement_lines(node):
            self.by_line.setdefault(line, mark)

    def _assignment(self, mark: int, before: ast.stmt) -> ast.stmt:
        place = ast.Subscript(ast.Name(_NAME, ast.Load()), ast.Constant(self._first + mark), ast.Store())
        return ast.copy_location(ast.Assign([place], ast.Constant(1)), before)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield from filter(None, [getattr(statement, name, None)])
    for name in ("handlers", "cases"):
        for inner in getattr(statement, name, ()):
            yield inner.body


class Marks(MetaPathFinder):
    """Import the modules of some folders with marks."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._reached = bytearray(_ROOM)
        self._files: list[tuple[str, int]] = []
        self._free = 0

    def install(self) -> None:
        vars(sys.modules["builtins"])[_NAME] = self._reached
        sys.meta_path.insert(0, self)

    def take(self) -> list[int]:
        """The marks that were reached since the last call."""
        found = [mark for mark in range(self._free) if self._reached[mark]]
        self._reached[:] = bytes(_ROOM)
        return found

    def files(self) -> Iterator[tuple[str, range]]:
        """The marks of each imported file."""
        ends = [first for _, first in self._files[1:]] + [self._free]
        for (path, first), end in zip(self._files, ends, strict=True):
            yield path, range(first, end)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith("tailrace.") else None
        if spec is None or spec.origin is None or not self._is_marked(Path(spec.origin)):
            return None
        spec.loader = _Loader(self, fullname, spec.origin)
        return spec

    def compiled(self, path: str) -> CodeType:
        marked = Marked(Path(path).read_bytes(), self._free)
        self._files.append((path, self._free))
        self._free += marked.count
        assert self._free <= _ROOM
        return compile(marked.tree, path, "exec")

    def _is_marked(self, path: Path) -> bool:
        return path.suffix == ".py" and any(path.is_relative_to(folder) for folder in self._folders)


class _Loader(SourceFileLoader):
    def __init__(self, marks: Marks, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self._marks = marks

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Never from a file of bytecode, which has no marks."""
        return self._marks.compiled(self.path)
