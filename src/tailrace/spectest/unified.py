"""Run tests of the unified format, schema version 1."""

from typing import Any, Final

from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError

from tailrace.spectest.deployment import CLIENT_OPTIONS, Deployment, parse_version
from tailrace.spectest.drivers import Driver, error_details
from tailrace.spectest.entities import Entities
from tailrace.spectest.outcome import Mismatch, NotApplicable, Unsupported
from tailrace.spectest.unified_match import check_unified
from tailrace.spectest.unified_operations import operate

Document = dict[str, Any]

_OLDEST_SCHEMA: Final = "1.0"
_NEWEST_SCHEMA: Final = "1.7"
_REQUIREMENTS: Final = {"minServerVersion", "maxServerVersion", "topologies", "serverless"}
_ERROR_FIELDS: Final = {"isError", "isClientError", "errorCode", "errorCodeName", "errorLabelsContain"}


def is_unified(document: Document) -> bool:
    return "schemaVersion" in document


def check_applies(document: Document, test: Document, deployment: Deployment) -> None:
    """Raise `NotApplicable` if a test is for other servers."""
    version = document["schemaVersion"]
    if not parse_version(_OLDEST_SCHEMA) <= parse_version(version) <= parse_version(_NEWEST_SCHEMA):
        raise Unsupported(f"its schema version {version} is not one of {_OLDEST_SCHEMA} to {_NEWEST_SCHEMA}")
    for requirements in (document.get("runOnRequirements"), test.get("runOnRequirements")):
        _check_requirements(requirements, deployment)
    if "skipReason" in test:
        raise NotApplicable(test["skipReason"])


def run_test(document: Document, test: Document, deployment: Deployment, driver: Driver) -> None:
    """Run one test; raise unless it passes."""
    with MongoClient[Document](deployment.uri, **CLIENT_OPTIONS) as internal:
        _Run(document, test, deployment, driver, internal).run()


def _check_requirements(requirements: list[Document] | None, deployment: Deployment) -> None:
    """Raise `NotApplicable` unless one of several requirements is met."""
    if not requirements:
        return
    objections = []
    for requirement in requirements:
        unknown = requirement.keys() - _REQUIREMENTS
        if unknown:
            raise Unsupported(f"the requirement {min(unknown)} is not known")
        topologies = requirement.get("topologies")
        objection = deployment.objection_to_topologies(topologies)
        objection = objection or deployment.objection_to_versions(
            requirement.get("minServerVersion"), requirement.get("maxServerVersion")
        )
        if objection is None and requirement.get("serverless") == "require":
            objection = "it is for serverless deployments"
        if objection is None:
            return
        objections.append(objection)
    raise NotApplicable("; ".join(objections))


class _Run:
    """The run of one test."""

    def __init__(
        self,
        document: Document,
        test: Document,
        deployment: Deployment,
        driver: Driver,
        internal: MongoClient[Document],
    ) -> None:
        self._document = document
        self._test = test
        self._deployment = deployment
        self._driver = driver
        self._internal = internal
        self._fail_points: list[str] = []

    def run(self) -> None:
        self._fill()
        try:
            with Entities(self._deployment) as entities:
                for definition in self._document.get("createEntities", ()):
                    entities.create(definition)
                for number, operation in enumerate(self._test["operations"], 1):
                    self._operate(operation, entities, f"operation {number}, {operation['name']}")
                for expectation in self._test.get("expectEvents", ()):
                    _check_commands(expectation, entities)
        finally:
            for name in self._fail_points:
                self._internal.admin.command("configureFailPoint", name, mode="off")

    def _fill(self) -> None:
        """Create the collections of `initialData`."""
        for data in self._document.get("initialData", ()):
            database = self._internal[data["databaseName"]]
            database.drop_collection(data["collectionName"])
            concern = WriteConcern("majority") if self._deployment.topology != "single" else None
            if data["documents"]:
                collection = database.get_collection(data["collectionName"], write_concern=concern)
                collection.insert_many(data["documents"])
            else:
                database.create_collection(data["collectionName"], write_concern=concern)

    def _operate(self, operation: Document, entities: Entities, place: str) -> None:
        name, target = operation["name"], operation["object"]
        arguments = operation.get("arguments", {})
        if target == "testRunner":
            self._run_special(name, arguments, entities)
            return
        expected = operation.get("expectError")
        try:
            result = operate(name, entities[target], arguments, self._driver)
        except PyMongoError as error:
            if expected is None:
                raise Mismatch(f"{place}: {error}") from error
            _check_error(expected, error, place)
            return
        if expected is not None:
            raise Mismatch(f"{place}: there was no error")
        if "saveResultAsEntity" in operation:
            entities.save(operation["saveResultAsEntity"], result)
        if "expectResult" in operation:
            check_unified(operation["expectResult"], result, place)

    def _run_special(self, name: str, arguments: Document, entities: Entities) -> None:
        """Run an operation of the object `testRunner`."""
        if name != "failPoint":
            raise Unsupported(f"the operation {name} is not known")
        fail_point = arguments["failPoint"]
        self._fail_points.append(fail_point["configureFailPoint"])
        entities.client(arguments["client"]).admin.command(fail_point)


def _check_error(expected: Document, error: PyMongoError, place: str) -> None:
    unknown = expected.keys() - _ERROR_FIELDS
    if unknown:
        raise Unsupported(f"{min(unknown)} of an expected error is not known")
    details = error_details(error)
    if "isClientError" in expected and expected["isClientError"] != (details is None):
        raise Mismatch(
            f"{place}: the error should be one of the {'client' if details else 'server'}: {error}"
        )
    answer = details or {}
    if "errorCode" in expected:
        check_unified(expected["errorCode"], answer.get("code"), f"{place}: the code")
    if "errorCodeName" in expected:
        check_unified(expected["errorCodeName"], answer.get("codeName"), f"{place}: the code's name")
    for label in expected.get("errorLabelsContain", ()):
        if not error.has_error_label(label):
            raise Mismatch(f"{place}: the error has no label {label}")


def _check_commands(expectation: Document, entities: Entities) -> None:
    """Compare the commands of one client with the expected ones."""
    if expectation.get("eventType", "command") != "command":
        raise Unsupported(f"events of type {expectation['eventType']} are not known")
    sent = entities.recorder(expectation["client"]).commands
    wanted = expectation["events"]
    names = ", ".join(started.name for started in sent)
    is_enough = len(sent) >= len(wanted) if expectation.get("ignoreExtraEvents") else len(sent) == len(wanted)
    if not is_enough:
        raise Mismatch(f"{len(wanted)} commands are expected, but these were sent: {names}")
    for number, (expected, started) in enumerate(zip(wanted, sent, strict=False), 1):
        ((kind, fields),) = expected.items()
        if kind != "commandStartedEvent":
            raise Unsupported(f"the event {kind} is not known")
        place = f"command {number}"
        if "commandName" in fields:
            check_unified(fields["commandName"], started.name, f"{place}: the name")
        if "databaseName" in fields:
            check_unified(fields["databaseName"], started.database, f"{place}: the database")
        check_unified(fields.get("command", {}), started.command, place)
