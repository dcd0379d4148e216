"""Imports only go down: the floors of docs/architecture.md, enforced."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "tailrace"

FLOORS = (
    (
        "error_code_names",
        "error_codes",
        "errors",
        "log_lines",
        "namespaces",
        "pacing",
        "places",
        "traces",
        "unused",
        "bson",
        "query",
    ),
    ("events",),
    ("lake", "sources", "log"),
    ("pipeline",),
    ("spark", "client"),
    ("mongod",),
    ("testing", "spectest", "web"),
    ("cli",),
)
"""From the bottom up. On one floor, a package may import those to its left."""
ORDER = [package for floor in FLOORS for package in floor]
MONGOD = ("wire", "language", "store", "server", "front", "cluster")
"""The floors inside of `mongod`, from the bottom up"""
ONLY_UNDER = {
    "deltalake": "lake",
    "lmdb": "mongod",
    "opentelemetry": "traces",
    "prometheus_client": "web",
    "pyspark": "spark",
    "rich": "cli",
    "starlette": "web",
    "uvicorn": "web",
}


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements and those inside of them, without their expressions, which import nothing."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(node, field, ()))


@cache
def imports(path: Path) -> list[str]:
    names = []
    for node in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            names += [f"{base}.{alias.name}" for alias in node.names]
    return names


def modules() -> list[tuple[Path, tuple[str, ...]]]:
    found = [(path, path.relative_to(SRC).with_suffix("").parts) for path in sorted(SRC.rglob("*.py"))]
    return [(path, parts) for path, parts in found if parts[0] not in ("__init__", "__main__")]


def test_every_package_has_a_floor() -> None:
    assert {parts[0] for _, parts in modules()} <= set(ORDER)


def test_imports_only_go_down() -> None:
    wrong = []
    for path, parts in modules():
        package = parts[0]
        for name in imports(path):
            head, _, rest = name.partition(".")
            if head in ONLY_UNDER and ONLY_UNDER[head] != package:
                wrong.append(f"{path}: {head} belongs under {ONLY_UNDER[head]}")
            target = rest.split(".")[0]
            if head != "tailrace" or target in ("", "__version__", package):
                continue
            if ORDER.index(target) > ORDER.index(package):
                wrong.append(f"{path}: {package} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_imports_inside_of_mongod_only_go_down() -> None:
    wrong = []
    for path, parts in modules():
        if parts[0] != "mongod" or len(parts) < 3:
            continue
        for name in imports(path):
            target = name.split(".")[2:3]
            if not name.startswith("tailrace.mongod.") or target == [parts[1]]:
                continue
            if MONGOD.index(target[0]) > MONGOD.index(parts[1]):
                wrong.append(f"{path}: {parts[1]} imports {target[0]}")
    assert not wrong, "\n".join(wrong)


def test_spark_is_what_imports_pyspark() -> None:
    without = [
        str(path)
        for path, parts in modules()
        if parts[0] == "spark" and not any(name.split(".")[0] == "pyspark" for name in imports(path))
    ]
    assert not without


def test_no_folder_is_flat() -> None:
    folders = {path.parent for path, _ in modules()}
    full = {str(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert not {folder: count for folder, count in full.items() if count > 20}
