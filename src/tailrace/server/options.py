"""How a server is started."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tailrace.server.version import VERSION
from tailrace.store.store import DEFAULT_OPLOG_SIZE
from tailrace.store.tables import DEFAULT_MAP_SIZE

DEFAULT_PORT: Final = 27017
DEFAULT_REPLICA_SET: Final = "rs0"


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
    """The `host:port` under which the set names its member; None is the address it listens on."""
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
