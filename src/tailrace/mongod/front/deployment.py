"""The deployment that is served: who it is, what it presents, and questions to it.

Everything here asks the deployment through PyMongo and waits for it, so it runs in other threads than the
event loop's.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.events.entry_mark import EntryMark
from tailrace.events.stages.lookups import DocumentQuestion, PreImageQuestion
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.emulation.release import WIRE_VERSIONS
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import client_of, close_clients
from tailrace.sources.deployments.current_documents import CurrentDocuments
from tailrace.sources.deployments.driver_errors import driver_errors, hosts_of
from tailrace.sources.deployments.shard_oplog import ShardOplog
from tailrace.sources.deployments.stored_pre_images import StoredPreImages
from tailrace.sources.process_cache import Owner

_PORT: Final = 27017
_ROUTER: Final = "isdbgrid"
_SELECTION: Final = "serverSelectionTimeoutMS"
_SELECTION_MS: Final = 3000
"""How long one question waits for a member; what waits for the source asks again."""


class FrontedDeployment:
    """A replica set whose streams are served; raises `UsageError` if it cannot be."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.address = hosts_of(uri)
        """Where clients reach it, without credentials."""
        self._owner = Owner()
        asked = _impatient(uri)
        self.oplog = ShardOplog(client_of(self._owner, asked), asked, self._owner)
        hello = self.oplog.hello()
        if hello.get("msg") == _ROUTER:
            raise UsageError(
                f"{self.address} is a router; serve --source is for replica sets so far. Name one shard's "
                "members instead, or build a history of the cluster with tailrace pipeline"
            )
        if "setName" not in hello:
            raise UsageError(
                f"{self.address} is a standalone server, which has no oplog; start it as a replica set"
            )
        self.set_name: str = hello["setName"]
        self.release = self.oplog.release()
        """What its change streams show."""
        newest = self.oplog.newest()
        if newest is None:
            raise UsageError(f"the oplog of {self.address} has no entries; is the replica set initiated?")
        self.newest = EntryMark.of(newest)
        """The newest majority committed entry when it was opened."""

    @property
    def presented_version(self) -> str:
        """The version that `hello` and buildInfo show: its own, or the newest that can be presented."""
        return self.release.version if self.release.number[:2] in WIRE_VERSIONS else VERSION

    @cached_property
    def identity(self) -> str:
        """The id that the replica set has for life."""
        return self.oplog.replica_set_id()

    def close(self) -> None:
        close_clients(self._owner)

    # -- questions ----------------------------------------------------------------------------------------

    def last_applied(self) -> int:
        """The time of the newest entry, majority committed or not: what happened before has that time."""
        return self.oplog.applied_time()

    def collection_type(self, ns: str) -> str | None:
        """What has a name: collection, view or timeseries; None if nothing has."""
        database, _, name = ns.partition(".")
        with driver_errors(self.uri, rights.documents_of(ns)):
            for found in self.oplog.client[database].list_collections(filter={"name": name}):
                return str(found["type"])
        return None

    # -- users --------------------------------------------------------------------------------------------

    def server(self) -> tuple[str, int]:
        """Host and port of the primary, or of another member that answers."""
        client = self.oplog.client
        self.oplog.hello()
        host, port = client.primary or min(client.nodes)
        return host, port or _PORT

    def login_mechanisms(self, user: str) -> list[str]:
        """How a user can log in, who is named as ``database.name``; empty if there is no such user."""
        with driver_errors(self.uri, rights.NONE):
            hello = self.oplog.client.admin.command("hello", saslSupportedMechs=user)
        return list(hello.get("saslSupportedMechs", []))

    def users(self, principals: Sequence[Principal]) -> dict[Principal, dict[str, Any]]:
        """What the deployment lists for some of its users."""
        named = [principal.to_document("user") for principal in principals]
        with driver_errors(self.uri, rights.USERS):
            listed = self.oplog.client.admin.command(
                "usersInfo", named, showPrivileges=True, showAuthenticationRestrictions=True
            )["users"]
        return {Principal(user["user"], user["db"]): user for user in listed}

    # -- look-ups -----------------------------------------------------------------------------------------

    def entry(self, through: int, ts: int, term: int) -> bytes | None:
        """The entry of a cluster time and term; ``through`` is a majority committed time not before it."""
        return self.oplog.entry(through, ts, term)

    def pre_images(self, through: int, wanted: Sequence[PreImageQuestion]) -> dict[PreImageQuestion, bytes]:
        """The documents before some operations, those that are stored."""
        return StoredPreImages(self.oplog.client, self.uri, through, through).find_all(wanted)

    def documents(self, through: int, wanted: Sequence[DocumentQuestion]) -> dict[DocumentQuestion, bytes]:
        """The documents with some keys in one collection, as they are at a cluster time or later."""
        ns, _, uuid = wanted[0]
        documents = CurrentDocuments(self.oplog.client, self.uri, through)
        found = documents.find_all(ns, [key for _, key, _ in wanted], uuid)
        return {(ns, key, uuid): document for key, document in found.items()}


def _impatient(uri: str) -> str:
    """The connection string with a short time for finding a member, unless it names one.

    >>> _impatient("mongodb://a:1,b:2")
    'mongodb://a:1,b:2/?serverSelectionTimeoutMS=3000'
    >>> _impatient("mongodb://a:1/?replicaSet=rs0")
    'mongodb://a:1/?replicaSet=rs0&serverSelectionTimeoutMS=3000'
    """
    if _SELECTION.lower() in uri.lower():
        return uri
    place, _, options = uri.partition("?")
    slash = "" if "/" in place.partition("://")[2] else "/"
    kept = f"{options}&" if options else ""
    return f"{place}{slash}?{kept}{_SELECTION}={_SELECTION_MS}"
