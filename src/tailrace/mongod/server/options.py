"""How a server is started."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.store.store import DEFAULT_OPLOG_SIZE
from tailrace.mongod.store.tables import DEFAULT_MAP_SIZE

DEFAULT_PORT: Final = 27017
DEFAULT_REPLICA_SET: Final = "rs0"
MAX_MEMBERS: Final = 50
MAX_SHARDS: Final = 100
MAX_ROUTERS: Final = 50
_PORTS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Everything that is fixed when a server starts."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 lets the system choose one."""
    data: Path | None = None
    """The data directory; None is a temporary one that ends with the server."""
    replica_set: str | None = DEFAULT_REPLICA_SET
    """The set's name; None is a standalone server."""
    advertise: str | None = None
    """The `host:port` under which the set names its member; None is the address it listens on. For several
    members as many of them, separated by commas."""
    members: int = 1
    """How many members the set has: the others listen on the next ports."""
    member_ports: tuple[int, ...] = ()
    """The ports of the others, if they are not the next ones."""
    shards: int = 0
    """How many shards the cluster has; 0 is a replica set without routers."""
    routers: int = 1
    """How many routers the cluster has, on `port` and behind it; config server and shards come next."""
    history: Path | None = None
    """Where the pipeline keeps the history of this deployment; None is a server without one."""
    head: bool = True
    """Whether streams see what is in the oplog but not yet in the history."""
    oplog_bytes: int = DEFAULT_OPLOG_SIZE
    max_bytes: int = DEFAULT_MAP_SIZE
    """What the data directory may grow to; it takes that much address space, not memory."""
    max_connections: int = 65_536
    log_level: str = "info"
    server_version: str = VERSION
    """The MongoDB version to present; see `emulation.py` for what that changes."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Server parameters that differ from their defaults."""
    arguments: tuple[str, ...] = ()
    """The command line, as getCmdLineOpts shows it."""

    def advertised(self, number: int) -> str | None:
        """The address under which the set names a member; None if it is the one it listens on."""
        return None if self.advertise is None else self.advertise.split(",")[number]

    def check_cluster(self) -> None:
        """Refuse a cluster that cannot be."""
        if not 1 <= self.shards <= MAX_SHARDS:
            raise UsageError(f"a cluster has 1 to {MAX_SHARDS} shards, not {self.shards}")
        if not 1 <= self.routers <= MAX_ROUTERS:
            raise UsageError(f"a cluster has 1 to {MAX_ROUTERS} routers, not {self.routers}")
        if self.members != 1:
            raise UsageError("the shards of a cluster have one member each; leave out the number of members")
        ports = self.routers + 1 + self.shards
        if self.port + ports > _PORTS:
            raise UsageError(f"there are not {ports} ports from {self.port} on; choose a lower one")

    def check_members(self) -> None:
        """Refuse a number of members that cannot be, or addresses for others than these."""
        if not 1 <= self.members <= MAX_MEMBERS:
            raise UsageError(f"a set has 1 to {MAX_MEMBERS} members, not {self.members}")
        if self.advertise is not None and self.advertise.count(",") != self.members - 1:
            raise UsageError(
                "the set is to be known under an address for each member, HOST:PORT,HOST:PORT and so on; "
                f"name {self.members} of them, in the order of the ports"
            )
        if self.members == 1:
            return
        if self.replica_set is None:
            raise UsageError(
                "a standalone server has no further members; be a replica set or have one member"
            )
        if self.port + self.members > _PORTS:
            raise UsageError(f"there are not {self.members} ports from {self.port} on; choose a lower one")
