"""Class names are unique in the packages below `mongod`; no module hides a function of its name."""

import ast
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "tailrace"
PACKAGES = ("bson", "query", "events", "log", "lake", "sources", "pipeline", "spark", "client")


def test_class_names_are_unique() -> None:
    modules = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((SRC / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(str(path.relative_to(SRC)))
    shared = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert not shared


def test_no_package_exports_a_function_under_the_name_of_its_module() -> None:
    """Importing the module later would replace the function."""
    hidden = []
    for path in sorted(SRC.rglob("__init__.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [name.asname or name.name for name in node.names]
                module = node.module.rpartition(".")[2]
                if module in names and (path.parent / f"{module}.py").exists():
                    hidden.append((str(path.relative_to(SRC)), module))
    assert not hidden
