"""`tailrace status` on the folder of a mirror."""

import json
from pathlib import Path

import pytest

from tailrace.lake.columns.kinds import TableKind
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.given_schemas import given_schemas
from tailrace.pipeline.mirror.scope import mirrored_namespaces
from tailrace.pipeline.mirror.settings import MirrorSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A mirror of two collections, the copy of one of which is not complete."""
    root = str(tmp_path_factory.mktemp("mirror"))
    chosen = mirrored_namespaces(["shop"])
    schemas = given_schemas({"shop.items": "_id bigint, price bigint"}, chosen, TableKind.VERSIONS)
    settings = MirrorSettings(root, chosen, TableKind.VERSIONS, schemas, range_documents=1)
    with ReplicaSet() as server, DeploymentSource(server.uri) as source:
        shop = server.client().shop
        shop.items.insert_many([{"_id": 1}, {"_id": "one"}])
        engine = MirrorEngine(source, settings)
        while engine.copy_some():
            pass
        shop.items.update_one({"_id": 1}, {"$set": {"price": 5}})
        while not engine.apply_some() or engine.tables["shop.items"].rows < 2:
            pass
        shop.orders.insert_many([{"_id": number} for number in range(40)])
        engine = MirrorEngine(source, settings)
        engine.copy_some()
    return root


def test_a_mirror_is_shown_by_its_tables(here: Here, folder: str) -> None:
    outcome = here("status", folder, "--max-lag", "1000d")
    assert (outcome.code, outcome.lines[-1]) == (0, "healthy")
    lines = [line.split(maxsplit=1) for line in outcome.lines[:-1]]
    assert [label for label, _ in lines] == ["mirror", "table", "table", "lag", "schema"]
    assert lines[0][1].startswith(f"{folder}: 2 tables, ")
    assert lines[1][1].startswith("shop.items  versions  2 rows in 2 files, ")
    assert lines[1][1].endswith(", 1 dead letters")
    assert "of the copy done" in lines[2][1]
    assert {text.rpartition("  ")[0] for label, text in lines if label == "schema"} == {
        "shop.orders  field added: _id bigint",
    }


def test_a_program_reads_how_far_a_mirror_is(here: Here, folder: str) -> None:
    outcome = here("status", folder, "--json", "--max-lag", "0s")
    assert outcome.code == 1
    shown = json.loads(outcome.output)
    assert "the mirror is" in shown["faults"][0]
    items, orders = shown["mirror"]["tables"]
    assert (items["ns"], items["rows"], items["copied"]) == ("shop.items", 2, 1)
    assert 0 < orders["copied"] < 1
    assert (items["deadLetters"], orders["deadLetters"]) == (1, 0)
    assert shown["mirror"]["schemaChanges"][-1]["what"] == "field added"


def test_a_damaged_mirror_is_named(here: Here, folder: str, tmp_path: Path) -> None:
    (tmp_path / "_mirror.json").write_text("{")
    outcome = here("status", str(tmp_path))
    assert outcome.code == 2
    assert "_mirror.json is damaged; restore it" in outcome.lines[-1]
