"""Run tests of the legacy format.

A test opens a stream, runs operations with another client, and expects events or an error, and the first
commands that the driver sends.
"""

from contextlib import closing
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tailrace.spectest.deployment import CLIENT_OPTIONS, Deployment, options_of
from tailrace.spectest.drivers import Driver, Stream, Watched, error_code, next_event
from tailrace.spectest.legacy_match import check_match
from tailrace.spectest.outcome import Mismatch, NotApplicable, Unsupported
from tailrace.spectest.recorder import CommandRecorder

Document = dict[str, Any]


def is_legacy(document: Document) -> bool:
    return "database_name" in document and "tests" in document


def check_applies(_document: Document, test: Document, deployment: Deployment) -> None:
    """Raise `NotApplicable` if a test is for other servers."""
    objection = deployment.objection_to_topologies(test.get("topology"))
    objection = objection or deployment.objection_to_versions(
        test.get("minServerVersion"), test.get("maxServerVersion")
    )
    if objection is not None:
        raise NotApplicable(objection)


def run_test(document: Document, test: Document, deployment: Deployment, driver: Driver) -> None:
    """Run one test; raise unless it passes."""
    with MongoClient[Document](deployment.uri, **CLIENT_OPTIONS) as other_client:
        _prepare(other_client, document)
        fail_point = test.get("failPoint")
        if fail_point is not None:
            other_client.admin.command(fail_point)
        try:
            _run(document, test, deployment, driver, other_client)
        finally:
            if fail_point is not None:
                other_client.admin.command("configureFailPoint", fail_point["configureFailPoint"], mode="off")
            for name in _databases(document):
                other_client.drop_database(name)


def _prepare(client: MongoClient[Document], document: Document) -> None:
    for name in _databases(document):
        client.drop_database(name)
    client[document["database_name"]].create_collection(document["collection_name"])
    if "database2_name" in document:
        client[document["database2_name"]].create_collection(document["collection2_name"])


def _databases(document: Document) -> list[str]:
    return [document[name] for name in ("database_name", "database2_name") if name in document]


def _run(
    document: Document,
    test: Document,
    deployment: Deployment,
    driver: Driver,
    other_client: MongoClient[Document],
) -> None:
    recorder = CommandRecorder()
    with MongoClient[Document](deployment.uri, event_listeners=[recorder], **CLIENT_OPTIONS) as client:
        expected = test["result"]
        error, events = None, []
        try:
            with closing(_open(document, test, driver, client)) as stream:
                for operation in test["operations"]:
                    _operate(other_client, operation)
                wanted = 1 if "error" in expected else len(expected.get("success", ()))
                events = [next_event(stream) for _ in range(wanted)]
        except PyMongoError as raised:
            error = raised
        _check_result(expected, events, error)
        _check_commands(test.get("expectations") or [], recorder)


def _open(document: Document, test: Document, driver: Driver, client: MongoClient[Document]) -> Stream:
    database = client[document["database_name"]]
    targets: dict[str, Watched] = {
        "client": client,
        "database": database,
        "collection": database[document["collection_name"]],
    }
    options = options_of(test.get("changeStreamOptions") or {})
    return driver(targets[test["target"]], test.get("changeStreamPipeline") or [], **options)


def _operate(client: MongoClient[Document], operation: Document) -> None:
    collection = client[operation["database"]][operation["collection"]]
    arguments = operation.get("arguments", {})
    match operation["name"]:
        case "insertOne":
            collection.insert_one(arguments["document"])
        case "updateOne":
            collection.update_one(arguments["filter"], arguments["update"])
        case "replaceOne":
            collection.replace_one(arguments["filter"], arguments["replacement"])
        case "deleteOne":
            collection.delete_one(arguments["filter"])
        case "rename":
            collection.rename(arguments["to"])
        case "drop":
            collection.drop()
        case name:
            raise Unsupported(f"the operation {name} is not known")


def _check_result(expected: Document, events: list[Document], error: PyMongoError | None) -> None:
    if "error" in expected:
        if error is None:
            raise Mismatch(f"there was no error, but {events!r}")
        check_match(expected["error"], {"code": error_code(error)}, "the error")
    elif error is not None:
        raise Mismatch(f"there was an error: {error}") from error
    else:
        check_match(expected.get("success", []), events, "events")


def _check_commands(expectations: list[Document], recorder: CommandRecorder) -> None:
    """Compare the first commands with the expected ones; later ones are not checked."""
    sent = [started for started in recorder.commands if started.name != "killCursors"]
    if len(sent) < len(expectations):
        raise Mismatch(f"{len(sent)} commands were sent, not {len(expectations)}")
    for number, (expectation, started) in enumerate(zip(expectations, sent, strict=False)):
        actual = {
            "command": started.command,
            "command_name": started.name,
            "database_name": started.database,
        }
        check_match(expectation["command_started_event"], actual, f"command {number}")
