"""`tailrace spec-test` as users call it; `tests/spectest/` tests the runners."""

import json
from pathlib import Path

import pytest

from tests.cli.console import Here
from tests.spectest.test_runners import LEGACY, UNIFIED, changed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "legacy.json").write_text(json.dumps(LEGACY))
    failing = changed(UNIFIED, "tests/0/operations/2/expectResult", {"operationType": "insert"})
    (tmp_path / "unified.json").write_text(json.dumps(failing))
    (tmp_path / "skipped.json").write_text(json.dumps(changed(LEGACY, "tests/0/topology", ["sharded"])))
    return tmp_path


def test_a_report_by_test_and_the_numbers(here: Here, folder: Path) -> None:
    outcome = here("spec-test", folder)
    assert outcome.code == 1
    assert outcome.lines == [
        str(folder / "legacy.json"),
        "  passed   an insert is seen",
        str(folder / "skipped.json"),
        "  skipped  an insert is seen: it is for the topology sharded, and this is a replicaset",
        str(folder / "unified.json"),
        "  failed   a delete is seen: operation 3, iterateUntilDocumentOrError.operationType "
        "is 'delete', not 'insert'",
        "3 tests with tailrace: 1 passed, 1 failed, 1 skipped",
    ]


def test_a_running_server_and_the_other_driver(here: Here, folder: Path, tailrace_uri: str) -> None:
    outcome = here(
        "spec-test", folder / "legacy.json", "--uri", tailrace_uri, "--driver", "pymongo", "--json"
    )
    assert outcome.code == 0
    (line,) = outcome.lines
    assert json.loads(line) == {
        "file": str(folder / "legacy.json"),
        "test": "an insert is seen",
        "status": "passed",
        "reason": "",
    }


def test_a_single_server(here: Here, folder: Path) -> None:
    outcome = here("spec-test", folder / "legacy.json", "--topology", "single")
    assert outcome.code == 0
    assert outcome.lines[-1] == "1 tests with tailrace: 0 passed, 0 failed, 1 skipped"


def test_a_sharded_cluster(here: Here, folder: Path) -> None:
    outcome = here("spec-test", folder / "legacy.json", folder / "skipped.json", "--topology", "sharded")
    assert outcome.code == 0
    assert outcome.lines[1] == (
        "  skipped  an insert is seen: it is for the topology replicaset, and this is a sharded"
    )
    assert outcome.lines[-1] == "2 tests with tailrace: 1 passed, 0 failed, 1 skipped"


def test_wrong_use_is_one_sentence(here: Here, tmp_path: Path, folder: Path) -> None:
    assert "nowhere does not exist" in here("spec-test", tmp_path / "nowhere").sentence
    outcome = here("spec-test", folder, "--uri", "nonsense://")
    assert outcome.code == 2
    assert "there is no server at nonsense://" in outcome.sentence
