"""The runners pass and fail tests correctly: small test files in both formats."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import UsageError
from tailrace.spectest.deployment import Deployment
from tailrace.spectest.drivers import DRIVERS
from tailrace.spectest.legacy_match import check_match
from tailrace.spectest.outcome import Mismatch, Outcome, Status, Unsupported
from tailrace.spectest.suite import find_tests
from tailrace.spectest.unified_match import MISSING, check_unified
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster

Document = dict[str, Any]

LEGACY: Document = {
    "database_name": "legacy",
    "collection_name": "test",
    "database2_name": "legacy2",
    "collection2_name": "test2",
    "tests": [
        {
            "description": "an insert is seen",
            "minServerVersion": "3.6",
            "target": "collection",
            "topology": ["replicaset"],
            "changeStreamPipeline": [],
            "changeStreamOptions": {},
            "operations": [
                {
                    "database": "legacy",
                    "collection": "test",
                    "name": "insertOne",
                    "arguments": {"document": {"x": 1}},
                }
            ],
            "expectations": [
                {"command_started_event": {"command": {"aggregate": "test"}, "command_name": "aggregate"}},
                {"command_started_event": {"command": {"getMore": 42}, "command_name": "getMore"}},
            ],
            "result": {"success": [{"_id": "42", "operationType": "insert", "fullDocument": {"x": 1}}]},
        }
    ],
}

UNIFIED: Document = {
    "description": "ours",
    "schemaVersion": "1.7",
    "runOnRequirements": [{"minServerVersion": "3.6", "topologies": ["replicaset"]}],
    "createEntities": [
        {"client": {"id": "c", "observeEvents": ["commandStartedEvent"]}},
        {"database": {"id": "d", "client": "c", "databaseName": "unified"}},
        {"collection": {"id": "t", "database": "d", "collectionName": "test"}},
    ],
    "initialData": [{"databaseName": "unified", "collectionName": "test", "documents": [{"_id": 1}]}],
    "tests": [
        {
            "description": "a delete is seen",
            "operations": [
                {"name": "createChangeStream", "object": "t", "saveResultAsEntity": "s", "arguments": {}},
                {"name": "deleteOne", "object": "t", "arguments": {"filter": {"_id": 1}}},
                {
                    "name": "iterateUntilDocumentOrError",
                    "object": "s",
                    "expectResult": {"operationType": "delete", "documentKey": {"_id": 1}},
                },
            ],
            "expectEvents": [
                {
                    "client": "c",
                    "events": [
                        {"commandStartedEvent": {"commandName": "aggregate", "databaseName": "unified"}},
                        {"commandStartedEvent": {"command": {"delete": "test"}}},
                        {"commandStartedEvent": {"command": {"getMore": {"$$type": "long"}}}},
                    ],
                }
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def deployment(tailrace_server: ReplicaSet) -> Deployment:
    return Deployment.at(tailrace_server.uri)


def changed(document: Document, path: str, value: Any) -> Document:
    """A copy of a test file with another value at a path."""
    copied = copy.deepcopy(document)
    place: Any = copied
    *way, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    for part in way:
        place = place[part]
    place[last] = value
    return copied


def run(tmp_path: Path, document: Document, deployment: Deployment, driver: str = "tailrace") -> Outcome:
    file = tmp_path / "test.json"
    file.write_text(json.dumps(document))
    (test,) = find_tests([tmp_path])
    return test.run(deployment, DRIVERS[driver])


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("document", [LEGACY, UNIFIED], ids=["legacy", "unified"])
def test_expected_behaviour_passes(
    tmp_path: Path, document: Document, deployment: Deployment, driver: str
) -> None:
    assert run(tmp_path, document, deployment, driver).status is Status.PASSED


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("tests/0/result/success/0/fullDocument/x", 2, "events[0].fullDocument.x is 1, not 2"),
        ("tests/0/result", {"error": {"code": 1}}, "there was no error"),
        (
            "tests/0/expectations/0/command_started_event/command",
            {"aggregate": 1},
            "command 0.command.aggregate",
        ),
        ("tests/0/operations/0/name", "insertTwo", "insertTwo is not known"),
        ("tests/0/changeStreamPipeline", [{"$nonsense": 1}], "there was an error"),
    ],
)
def test_other_behaviour_than_a_legacy_test_expects_fails(
    tmp_path: Path, deployment: Deployment, path: str, value: Any, reason: str
) -> None:
    outcome = run(tmp_path, changed(LEGACY, path, value), deployment)
    assert outcome.status is Status.FAILED
    assert reason in outcome.reason


RESULT = "tests/0/operations/2/expectResult"
EVENTS = "tests/0/expectEvents/0"


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (RESULT, {"operationType": "insert"}, "operationType is 'delete', not 'insert'"),
        (RESULT, {"documentKey": {}}, "documentKey._id is not expected"),
        (RESULT, {"fullDocument": {"$$exists": True}}, "fullDocument is missing"),
        (RESULT, {"_id": {"$$unheard": 1}}, "$$unheard is not known"),
        ("tests/0/operations/0/expectError", {"errorCode": 1}, "there was no error"),
        ("tests/0/operations/1/name", "deleteTwo", "deleteTwo is not known"),
        ("tests/0/operations/1/object", "nobody", "there is no entity nobody"),
        (f"{EVENTS}/events", [], "0 commands are expected"),
        (f"{EVENTS}/events/0/commandStartedEvent", {"commandName": "find"}, "the name is 'aggregate'"),
        (f"{EVENTS}/eventType", "cmap", "cmap are not known"),
        ("schemaVersion", "2.0", "schema version 2.0"),
        ("createEntities/0", {"session": {"id": "x"}}, "the entity session is not known"),
        ("createEntities/0/client/observeEvents", ["poolReadyEvent"], "poolReadyEvent is not known"),
        ("runOnRequirements/0/auth", True, "the requirement auth is not known"),
    ],
)
def test_other_behaviour_than_a_unified_test_expects_fails(
    tmp_path: Path, deployment: Deployment, path: str, value: Any, reason: str
) -> None:
    outcome = run(tmp_path, changed(UNIFIED, path, value), deployment)
    assert outcome.status is Status.FAILED
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("document", "path", "value", "reason"),
    [
        (LEGACY, "tests/0/topology", ["sharded"], "for the topology sharded, and this is a replicaset"),
        (LEGACY, "tests/0/minServerVersion", "99.1", "from version 99.1 on"),
        (LEGACY, "tests/0/maxServerVersion", "4.2.99", "up to version 4.2.99"),
        (UNIFIED, "runOnRequirements/0/topologies", ["single"], "for the topology single"),
        (UNIFIED, "runOnRequirements/0/maxServerVersion", "4.2.99", "up to version 4.2.99"),
        (UNIFIED, "tests/0/runOnRequirements", [{"minServerVersion": "99.0"}], "from version 99.0 on"),
        (UNIFIED, "tests/0/runOnRequirements", [{"serverless": "require"}], "serverless"),
        (UNIFIED, "tests/0/skipReason", "DRIVERS-1", "DRIVERS-1"),
    ],
)
def test_a_test_that_does_not_apply_is_skipped_with_a_reason(
    tmp_path: Path, deployment: Deployment, document: Document, path: str, value: Any, reason: str
) -> None:
    outcome = run(tmp_path, changed(document, path, value), deployment)
    assert outcome.status is Status.SKIPPED
    assert reason in outcome.reason


@pytest.mark.parametrize(("routers", "status"), [(1, Status.FAILED), (2, Status.PASSED)])
def test_a_client_of_several_routers_needs_several(tmp_path: Path, routers: int, status: Status) -> None:
    document = changed(UNIFIED, "createEntities/0/client/useMultipleMongoses", True)
    document["runOnRequirements"] = [{"topologies": ["sharded"]}]
    with ShardedCluster(shards=1, routers=routers) as cluster:
        outcome = run(tmp_path, document, Deployment.at(cluster.uri))
    assert outcome.status is status, outcome.reason
    assert status is Status.PASSED or "several routers" in outcome.reason


@pytest.mark.parametrize("content", ["{", "[]", '{"a": 1}'])
def test_a_file_that_is_not_a_spec_test_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "test.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"test\.json"):
        find_tests([file])


def test_a_folder_without_tests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no JSON files"):
        find_tests([tmp_path])
    with pytest.raises(UsageError, match="does not exist"):
        find_tests([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (42, None),
        ({"a": 42}, {}),
        ([1, 2], [1]),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
        (True, 1),
        (1, True),
        ("a", 1),
    ],
)
def test_legacy_mismatches(expected: Any, actual: Any) -> None:
    with pytest.raises(Mismatch):
        check_match(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        ({"$$exists": False}, MISSING),
        ({"$$exists": True}, None),
        ({"$$unsetOrMatches": {"a": 1}}, MISSING),
        ({"$$unsetOrMatches": {"a": 1}}, {"a": 1, "b": 2}),
        ({"$$type": ["int", "string"]}, "x"),
        ({"a": [{"b": {"$$type": "bool"}}]}, {"a": [{"b": True}], "c": 1}),
    ],
)
def test_unified_matches(expected: Any, actual: Any) -> None:
    check_unified(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, MISSING),
        (1, True),
        ({"$$exists": True}, MISSING),
        ({"$$exists": False}, None),
        ({"$$unsetOrMatches": 1}, 2),
        ({"$$type": "int"}, True),
        ({"$$type": "long"}, "x"),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}),
        ([1], [1, 2]),
        ([1], "x"),
        ({"a": 1}, [1]),
    ],
)
def test_unified_mismatches(expected: Any, actual: Any) -> None:
    with pytest.raises(Mismatch):
        check_unified(expected, actual)


def test_an_unknown_type_is_reported() -> None:
    with pytest.raises(Unsupported, match="anything"):
        check_unified({"$$type": "anything"}, 1)
