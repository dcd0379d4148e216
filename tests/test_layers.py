"""Imports only go down: the level table of docs/architecture.md, enforced."""

import ast
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "tailrace"

LEVELS = {
    "errors": 0, "error_codes": 0, "bsonio": 0,
    "model": 1, "query": 1, "wire": 1,
    "stages": 2, "store": 2, "client": 2,
    "history": 3,
    "eventlog": 4,
    "spark": 5, "server": 5,
    "cluster": 6,
    "cli": 7, "web": 7, "spectest": 7, "testing": 7,
}  # fmt: skip
ONLY_UNDER = {"deltalake": "history", "lmdb": "store", "pyspark": "spark", "rich": "cli"}


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            names += [f"{base}.{alias.name}" for alias in node.names]
    return names


def package_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def test_every_package_has_a_level() -> None:
    packages = {package_of(path) for path in SRC.rglob("*.py")} - {"__init__", "__main__"}
    assert packages <= LEVELS.keys()


def test_imports_only_go_down() -> None:
    wrong = []
    for path in SRC.rglob("*.py"):
        package = package_of(path)
        if package in ("__init__", "__main__"):
            continue
        for name in imports(path):
            head, _, rest = name.partition(".")
            if head in ONLY_UNDER and ONLY_UNDER[head] != package:
                wrong.append(f"{path}: {head} belongs under {ONLY_UNDER[head]}")
            if head != "tailrace" or not rest:
                continue
            target = rest.split(".")[0]
            if target == "__version__" or target == package:
                continue
            level = LEVELS[package]
            allowed = LEVELS[target] < level or (level in (0, 7) and LEVELS[target] == level)
            if not allowed:
                wrong.append(f"{path}: {package} (level {level}) imports {target} (level {LEVELS[target]})")
    assert not wrong, "\n".join(wrong)
