"""The entities of a unified test: clients, databases, collections, and results of operations."""

from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self

from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from tailrace.spectest.deployment import CLIENT_OPTIONS, Deployment
from tailrace.spectest.outcome import Unsupported
from tailrace.spectest.recorder import CommandRecorder

Document = dict[str, Any]

_CLIENT_FIELDS: Final = {
    "id", "uriOptions", "observeEvents", "ignoreCommandMonitoringEvents", "useMultipleMongoses"
}  # fmt: skip
_OBSERVED: Final = ("commandStartedEvent",)


class Entities:
    """The entities of one test by name; closed at the end of the `with` block, newest first."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._named: dict[str, Any] = {}
        self._recorders: dict[str, CommandRecorder] = {}
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def __getitem__(self, name: str) -> Any:
        if name not in self._named:
            raise Unsupported(f"there is no entity {name}")
        return self._named[name]

    def client(self, name: str) -> MongoClient[Document]:
        client = self[name]
        assert isinstance(client, MongoClient)
        return client

    def recorder(self, client: str) -> CommandRecorder:
        """The commands that a client has sent."""
        return self._recorders[client]

    def save(self, name: str, value: Any) -> None:
        """Add a result of an operation; it is closed with the test if it can be."""
        self._named[name] = value
        if hasattr(value, "close"):
            self._closing.callback(value.close)

    def create(self, definition: Document) -> None:
        """Create one entity of `createEntities`."""
        ((kind, fields),) = definition.items()
        match kind:
            case "client":
                self._create_client(fields)
            case "database":
                database = self.client(fields["client"])[fields["databaseName"]]
                _refuse_options(kind, fields)
                self._named[fields["id"]] = database
            case "collection":
                parent = self[fields["database"]]
                assert isinstance(parent, Database)
                _refuse_options(kind, fields)
                collection: Collection[Document] = parent[fields["collectionName"]]
                self._named[fields["id"]] = collection
            case _:
                raise Unsupported(f"the entity {kind} is not known")

    def _create_client(self, fields: Document) -> None:
        unknown = fields.keys() - _CLIENT_FIELDS
        if unknown:
            raise Unsupported(f"the field {min(unknown)} of a client is not known")
        for event in fields.get("observeEvents", ()):
            if event not in _OBSERVED:
                raise Unsupported(f"the event {event} is not known")
        recorder = CommandRecorder(fields.get("ignoreCommandMonitoringEvents", ()))
        client = MongoClient[Document](
            self._uri(wants_several=fields.get("useMultipleMongoses")),
            event_listeners=[recorder],
            **{**CLIENT_OPTIONS, **fields.get("uriOptions", {})},
        )
        self.save(fields["id"], client)
        self._recorders[fields["id"]] = recorder

    def _uri(self, *, wants_several: bool | None) -> str:
        """The connection string for a client; only a sharded cluster can have several routers."""
        deployment = self._deployment
        if not wants_several or deployment.topology != "sharded":
            return deployment.uri
        if deployment.routers is None:
            raise Unsupported("it needs several routers, and there is one")
        return deployment.routers


def _refuse_options(kind: str, fields: Document) -> None:
    for name in ("databaseOptions", "collectionOptions"):
        if name in fields:
            raise Unsupported(f"{name} of a {kind} are not known")
