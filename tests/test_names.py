"""Class names are unique in the packages below `mongod`, so that a name has one meaning there."""

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
