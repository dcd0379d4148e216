"""The deployment that is served: who it is, what it presents, its shards, and questions to it.

Everything here asks the deployment through PyMongo and waits for it, so it runs in other threads than the
event loop's.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.stream_release import StreamRelease
from tailrace.mongod.front.source_shard import RecordedShard, SourceShard
from tailrace.mongod.server.access.principals import Principal
from tailrace.mongod.server.emulation.release import WIRE_VERSIONS
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client, client_of, close_clients, shard_uri
from tailrace.sources.deployments.driver_errors import driver_errors, hosts_of
from tailrace.sources.deployments.shard_list import ShardList
from tailrace.sources.deployments.shard_oplog import ShardOplog
from tailrace.sources.process_cache import Owner
from tailrace.sources.recorded.choice import choose, open_deployment
from tailrace.sources.recorded.stream_oplog import StreamOplog
from tailrace.sources.recorded.via import Via

_PORT: Final = 27017
_ROUTER: Final = "isdbgrid"
_SELECTION: Final = "serverSelectionTimeoutMS"
_SELECTION_MS: Final = 3000
"""How long one question waits for a member; what waits for the source asks again."""


class FrontedDeployment:
    """A replica set or a cluster whose streams are served; raises `UsageError` if they cannot be."""

    def __init__(self, uri: str, via: Via | None = None) -> None:
        """``via`` is how its changes are read; None for its oplog, or its stream if that may not be read."""
        self.uri = uri
        self.address = hosts_of(uri)
        """Where clients reach it, without credentials."""
        self._owner = Owner()
        self._asked = _impatient(uri)
        self._entrance = ShardOplog(client_of(self._owner, self._asked), self._asked, self._owner)
        hello = self._entrance.hello()
        self.is_router = hello.get("msg") == _ROUTER
        self.set_name: str | None = hello.get("setName")
        """The name of the replica set; None for a router."""
        if not self.is_router and self.set_name is None:
            raise UsageError(
                f"{self.address} is a standalone server, which has no oplog; start it as a replica set"
            )
        self.via, self.oplog_refusal = choose(self._entrance, via, is_router=self.is_router)
        """How its changes are read, and why not from the oplog if nobody has asked for the stream."""
        self.list = ShardList()
        if self.is_router:
            self.refresh_list()
        self.release = self.read_release()
        """What its change streams show."""

    def read_release(self) -> StreamRelease:
        """The release that it has now: that of the first shard, which the others have, or will have soon."""
        return self.oplog_of(self.shard_names()[0]).release()

    # -- shards -------------------------------------------------------------------------------------------

    def shard_names(self) -> list[str]:
        """The shards that it has; of a replica set, one without a name."""
        return self.list.members.present() if self.is_router else [""]

    def refresh_list(self, clock: Mapping[str, Any] | None = None, time: int | None = None) -> None:
        """Read the router's list of shards as it is at a cluster time, which ``clock`` has reached."""
        with driver_errors(self.uri, rights.CLUSTER):
            self.list.refresh(
                self.client, lambda name: self.oplog_of(name).majority_time(), clock=clock, time=time
            )

    def oplog_of(self, name: str) -> ShardOplog:
        if self.via is Via.STREAM:
            return StreamOplog.of(self._entrance)
        if not self.is_router:
            return self._entrance
        uri = _impatient(shard_uri(self.uri, self.list.members[name].host))
        return ShardOplog(client_of(self._owner, uri), uri, self._owner)

    def open_shard(self, name: str) -> SourceShard:
        """Begin to read a shard that it has now."""
        kind = RecordedShard if self.via is Via.STREAM else SourceShard
        return kind(self.oplog_of(name), (self.client, self.uri), name)

    def clock(self) -> Mapping[str, Any]:
        """What the cluster's clock shows, with the signature of a server."""
        clock: Mapping[str, Any] = self._entrance.hello()["$clusterTime"]
        return clock

    @property
    def client(self) -> Client:
        """The client of the connection string."""
        return self._entrance.client

    @property
    def presented_version(self) -> str:
        """The version that `hello` and buildInfo show: its own, or the newest that can be presented."""
        return self.release.version if self.release.number[:2] in WIRE_VERSIONS else VERSION

    @cached_property
    def identity(self) -> str:
        """The id that the replica set or the cluster has for life."""
        with open_deployment(self._asked, self.via) as source:
            return source.identity()

    def close(self) -> None:
        close_clients(self._owner)

    # -- questions ----------------------------------------------------------------------------------------

    def last_applied(self) -> int:
        """A time not before anything that has happened, majority committed or not."""
        if self.is_router:
            return from_timestamp(self.clock()["clusterTime"])
        return self._entrance.applied_time()

    def collection_type(self, ns: str) -> str | None:
        """What has a name: collection, view or timeseries; None if nothing has."""
        database, _, name = ns.partition(".")
        with driver_errors(self.uri, rights.documents_of(ns)):
            for found in self.client[database].list_collections(filter={"name": name}):
                return str(found["type"])
        return None

    # -- users --------------------------------------------------------------------------------------------

    def server(self) -> tuple[str, int]:
        """Host and port of the primary, or of another member that answers."""
        self._entrance.hello()
        host, port = self.client.primary or min(self.client.nodes)
        return host, port or _PORT

    def login_mechanisms(self, user: str) -> list[str]:
        """How a user can log in, who is named as ``database.name``; empty if there is no such user."""
        with driver_errors(self.uri, rights.NONE):
            hello = self.client.admin.command("hello", saslSupportedMechs=user)
        return list(hello.get("saslSupportedMechs", []))

    def users(self, principals: Sequence[Principal]) -> dict[Principal, dict[str, Any]]:
        """What the deployment lists for some of its users."""
        named = [principal.to_document("user") for principal in principals]
        with driver_errors(self.uri, rights.USERS):
            listed = self.client.admin.command(
                "usersInfo", named, showPrivileges=True, showAuthenticationRestrictions=True
            )["users"]
        return {Principal(user["user"], user["db"]): user for user in listed}


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
