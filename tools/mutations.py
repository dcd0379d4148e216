"""Every small change of a source file that the tests should notice."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = Path("src/tailrace")
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one file."""

    path: Path
    source: bytes = field(repr=False)
    line: int
    kind: str
    before: str
    after: str
    start: int
    end: int
    lines: range
    """of the statement; of a compound statement only its head"""
    at_import: bool
    """whether the statement runs when the module is imported, not in a function"""

    @property
    def changed(self) -> bytes:
        """The source after the change."""
        return self.source[: self.start] + self.after.encode() + self.source[self.end :]

    def apply(self, folder: Path) -> None:
        """Write the changed file into a copy of the tree."""
        self._write(folder, self.changed)

    def undo(self, folder: Path) -> None:
        self._write(folder, self.source)

    def _write(self, folder: Path, text: bytes) -> None:
        (folder / self.path).write_bytes(text)
        # It may have the same size and second as the file that was compiled.
        Path(cache_from_source(str(folder / self.path))).unlink(missing_ok=True)

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
        self._statement = range(0)
        self._at_import = True

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            self._statement = statement_lines(node)
        super().visit(node)

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
        outside, self._at_import = self._at_import, False
        for statement in node.body:
            self.visit(statement)
        self._returns_bool, self._at_import = before, outside

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
        place = (self._statement, self._at_import)
        self.found.append(
            Mutation(self._path, self._source, node.lineno, kind, before, after, start, end, *place)
        )


def statement_lines(node: ast.stmt | ast.ExceptHandler | ast.match_case) -> range:
    """The lines of a statement; of a compound statement only those of its head."""
    first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    inner = getattr(node, "body", None) or getattr(node, "cases", None)
    if not inner:
        return range(first, (getattr(node, "end_lineno", None) or first) + 1)
    end = inner[0].pattern.lineno if isinstance(inner[0], ast.match_case) else inner[0].lineno
    return range(first, max(first + 1, end))


def mutations(package: str) -> Iterator[Mutation]:
    """Every mutation of a package that is still Python."""
    for path in sorted((ROOT / SOURCE / package).rglob("*.py")):
        source = path.read_bytes()
        finder = Finder(path.relative_to(ROOT), source)
        finder.visit(ast.parse(source))
        for mutation in finder.found:
            try:
                ast.parse(mutation.changed)
            except SyntaxError:
                continue
            yield mutation
