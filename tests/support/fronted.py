"""`tailrace serve --source` in a thread of the test."""

from typing import Any, Unpack

from pymongo import MongoClient

from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.front.front import Front
from tailrace.mongod.server.options import ServerOptions
from tailrace.sources.recorded.via import Via
from tailrace.testing.in_thread import Document, InThread, Options


class Fronted(InThread[Front]):
    """A server in front of a deployment, for a `with` block."""

    name = "front"

    def __init__(self, source: str, *, via: Via | None = None, **options: Unpack[Options]) -> None:
        options.setdefault("port", 0)
        super().__init__(ServerOptions(**options), None)
        self._source = source
        self._via = via

    def _new(self) -> Front:
        return Front(FrontedDeployment(self._source, self._via), self.options, log=self._log)

    @property
    def server(self) -> Front:
        return self._running

    def client(self, **options: Any) -> "MongoClient[Document]":
        return self._client(self.uri, options)

    def wait_stopped(self) -> BaseException | None:
        """Wait until it has stopped by itself; return why."""
        self.call(self.server.wait_stopped())
        return self.server.failure
