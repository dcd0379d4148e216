"""`import tailrace`: its names, what it does not import, and that examples import nothing deeper."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailrace

ROOT = Path(__file__).parents[1]
HEAVY = ("pyspark", "lmdb", "pyarrow", "deltalake", "numpy", "pymongo", "bson")
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = sorted([ROOT / "README.md", *(ROOT / "examples").glob("*.md"), *(ROOT / "docs").glob("*.md")])


def loaded_after(code: str) -> set[str]:
    """The modules of a new interpreter that has run this code."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_it_imports_nothing_heavy() -> None:
    loaded = loaded_after("import tailrace; dir(tailrace); tailrace.__version__")
    assert not loaded.intersection(HEAVY)
    assert "typing" not in loaded_after("import tailrace") - loaded_after("")
    assert {name for name in loaded if name.startswith("tailrace")} == {"tailrace"}


@pytest.mark.parametrize("name", ["watch", "process_async", "explain_token", "CommandError"])
def test_a_name_imports_only_what_it_needs(name: str) -> None:
    assert not loaded_after(f"import tailrace; tailrace.{name}").intersection(HEAVY[:5])


@pytest.mark.parametrize("name", tailrace.__all__)
def test_every_name_resolves(name: str) -> None:
    if name in ("change_stream", "mirror"):
        pytest.importorskip("pyspark")
    assert name in dir(tailrace)
    value = getattr(tailrace, name)
    assert getattr(value, "__name__", name) == name
    assert getattr(tailrace, name) is value


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="whatch"):
        _ = tailrace.whatch  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(tailrace.__file__).read_text())
    (block,) = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == tailrace._MODULES
    assert sorted([*seen, "__version__"]) == sorted(tailrace.__all__)


def deeper_imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from (name for name in names if name.startswith("tailrace."))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_nothing_deeper(path: Path) -> None:
    assert not list(deeper_imports(path.read_text()))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_import_nothing_deeper(path: Path) -> None:
    for code in FENCE.findall(path.read_text()):
        assert not list(deeper_imports(code))
