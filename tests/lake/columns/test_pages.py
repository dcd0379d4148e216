"""The examples of the pages that ask for fields of documents, run as they are written."""

from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from tests.events.stages.streams import delete, insert, update
from tests.lake.stored import canonical_events, fill, new_table
from tests.support.history import History
from tests.test_docs import ROOT, blocks

ORDERS: list[dict[str, Any]] = [
    {"key": ObjectId(), "customer": "Ada", "amount": 2.5},
    {"key": 2, "customer": "Grace", "amount": 7},
    {"key": "three", "customer": "Ada", "amount": 3.5, "tags": ["new"]},
]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    entries = [insert(number, **order) for number, order in enumerate(ORDERS, 1)]
    entries += [
        insert(4, 1, ns="shop.people", customer="nobody"),
        update(5, 2, {"u": {"amount": 8}}),
        delete(6, "three"),
    ]
    fill(new_table(folder / "history"), canonical_events(History(0, entries, [], {}, {})))
    return folder


@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        ("create_function", "Grace 7.0\nAda 6.0\n"),
        ("map_batches", "Grace 7.0\nAda 6.0\n"),
        ("bson_to_columns", "Ada 6.0\nGrace 7.0\n"),
    ],
)
def test_the_examples_of_the_history_print_what_documents_have(
    history: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mark: str, shown: str
) -> None:
    (code,) = [
        block for block in blocks((ROOT / "docs" / "history.md").read_text(), "python") if mark in block
    ]
    monkeypatch.chdir(history)
    exec(code, {})
    assert capsys.readouterr().out == shown


def test_the_example_of_tables_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "tables.md").read_text()
    exec(blocks(page, "python")[0], {})
    assert capsys.readouterr().out == blocks(page)[0]
