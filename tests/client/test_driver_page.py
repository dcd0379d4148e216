"""docs/driver.md: every rule names code and tests that exist, and the example runs."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from tailrace.testing.replica_set import ReplicaSet

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "driver.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.partition("## Rule by rule")[2], re.MULTILINE)[2:]
CODE = re.compile(r"`([^`]+)`")
MODULES = ("change_stream", "commands", "driver", "options", "resumable", "stream", "sync")


def test_there_are_rules() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_every_rule_names_code_and_tests_that_exist(row: tuple[str, str, str]) -> None:
    _, code, tests = row
    modules = [import_module(f"tailrace.client.{name}") for name in MODULES]
    for name in CODE.findall(code):
        if name.startswith("_id"):
            continue
        first, _, rest = name.partition(".")
        (found, *_) = [getattr(module, first) for module in modules if hasattr(module, first)]
        assert not rest or hasattr(found, rest), name
    file = "tests/client/test_change_stream.py"
    for name in CODE.findall(tests):
        if name.endswith(".py"):
            file = name
        else:
            assert f"def {name}(" in (ROOT / file).read_text(), f"{name} in {file}"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import" in block]
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        code = example.replace("mongodb://127.0.0.1:27017/?replicaSet=rs0", replica_set.uri)
        code = code.replace(
            "for event in stream:", "orders.insert_one({'_id': 1})\n        for event in stream:"
        )
        exec(code + "            break\n", {"orders": orders})
    assert capsys.readouterr().out == "{'_id': 1}\n"
