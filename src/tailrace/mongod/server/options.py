"""The options of a server, fixed when it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.mongod.server.admin.audit import AuditLog
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.net.tls import Tls
from tailrace.mongod.store.store import DEFAULT_OPLOG_SIZE
from tailrace.mongod.store.tables import DEFAULT_MAP_SIZE
from tailrace.namespaces import EVERYTHING_KEPT, NamespaceChoice
from tailrace.traces import Traces

DEFAULT_PORT: Final = 27017
DEFAULT_CONNECTIONS: Final = 65_536
DEFAULT_REPLICA_SET: Final = "rs0"
MAX_MEMBERS: Final = 50
MAX_SHARDS: Final = 100
MAX_ROUTERS: Final = 50
_PORTS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ServerOptions:
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0: the system chooses a free one."""
    data: Path | None = None
    """The data directory; None is a temporary one, removed when the server stops."""
    replica_set: str | None = DEFAULT_REPLICA_SET
    """The set's name; None is a standalone server."""
    advertise: str | None = None
    """The `host:port` that the set's configuration shows; None is the address it listens on. For several
    members, one for each, separated by commas."""
    members: int = 1
    """Number of members of the set; the others listen on the next ports."""
    member_ports: tuple[int, ...] = ()
    """The ports of the other members, if they are not the next ones."""
    shards: int = 0
    """Number of shards of the cluster; 0 is a replica set without routers."""
    routers: int = 1
    """Number of routers, on `port` and the next ports; the config server and the shards follow."""
    auth: bool = False
    """Whether clients have to log in, and may do only what their users have rights to."""
    first_user: tuple[str, str] | None = None
    """Name and password of a user with the role root, created if there are no users."""
    tls: Tls | None = None
    """The certificates, if clients may use TLS."""
    audit: AuditLog | None = None
    """Where log-ins, refusals and changes of users, roles and the catalog are written."""
    traces: Traces | None = None
    """Where a span of each command goes."""
    history: str | Path | None = None
    """The folder or the URL of this deployment's history; None is a server without one."""
    kept: NamespaceChoice = EVERYTHING_KEPT
    """The namespaces whose streams are served, and whose events the history has."""
    rebuilds_images: bool = False
    """Whether streams of another deployment show images that it did not store (`front/images/`)."""
    records_snapshot: bool = False
    """Whether the documents that were there before the history are recorded for such images."""
    head: bool = True
    """Whether streams see entries of the oplog that are not yet in the history."""
    oplog_bytes: int = DEFAULT_OPLOG_SIZE
    max_bytes: int = DEFAULT_MAP_SIZE
    """The largest size of the data directory; it reserves address space, not memory."""
    max_connections: int = DEFAULT_CONNECTIONS
    log_level: str = "info"
    server_version: str = VERSION
    """The MongoDB version to present; see `emulation/release.py`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Server parameters that differ from their defaults."""
    arguments: tuple[str, ...] = ()
    """The command line, as getCmdLineOpts shows it."""

    def advertised(self, number: int) -> str | None:
        """The address of a member in the set's configuration; None if it is the one it listens on."""
        return None if self.advertise is None else self.advertise.split(",")[number]

    def check_cluster(self) -> None:
        """Raise `UsageError` for options that no cluster can have."""
        if not 1 <= self.shards <= MAX_SHARDS:
            raise UsageError(f"a cluster has 1 to {MAX_SHARDS} shards, not {self.shards}")
        if not 1 <= self.routers <= MAX_ROUTERS:
            raise UsageError(f"a cluster has 1 to {MAX_ROUTERS} routers, not {self.routers}")
        if self.members != 1:
            raise UsageError("the shards of a cluster have one member each; leave out the number of members")
        ports = self.routers + 1 + self.shards
        if self.port + ports > _PORTS:
            raise UsageError(f"there are fewer than {ports} ports from {self.port} on; choose a lower port")

    def check_members(self) -> None:
        """Raise `UsageError` for options that no replica set can have."""
        if not 1 <= self.members <= MAX_MEMBERS:
            raise UsageError(f"a set has 1 to {MAX_MEMBERS} members, not {self.members}")
        if self.advertise is not None and self.advertise.count(",") != self.members - 1:
            raise UsageError(
                "every member needs an address to advertise, HOST:PORT,HOST:PORT and so on; "
                f"name {self.members} of them, in the order of the ports"
            )
        if self.members == 1:
            return
        if self.replica_set is None:
            raise UsageError(
                "a standalone server has one member; start a replica set, or leave out the number of members"
            )
        if self.port + self.members > _PORTS:
            raise UsageError(
                f"there are fewer than {self.members} ports from {self.port} on; choose a lower port"
            )
