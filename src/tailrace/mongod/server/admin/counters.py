"""Counters for serverStatus."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class NetworkCounters:
    bytes_in: int = 0
    bytes_out: int = 0
    requests: int = 0


@dataclass(slots=True)
class OperationCounters:
    """Operations by kind, as `opcounters` shows them; each statement of a batch is counted."""

    insert: int = 0
    query: int = 0
    update: int = 0
    delete: int = 0
    getmore: int = 0
    command: int = 0


@dataclass(slots=True)
class CommandCounters:
    total: int = 0
    failed: int = 0


@dataclass(slots=True)
class TransactionCounters:
    started: int = 0
    prepared: int = 0
    committed: int = 0
    aborted: int = 0


@dataclass(slots=True)
class ChangeStreamCounters:
    opened: int = 0
    resumed: int = 0
    failed: int = 0
    closed: int = 0
    open: int = 0
    events: int = 0
    """Events that were returned to clients."""
    large_events_split: int = 0
    large_events_failed: int = 0
    show_expanded_events: int = 0
    options: dict[str, int] = field(default_factory=dict)
    scopes: dict[str, int] = field(default_factory=lambda: {"collection": 0, "database": 0, "cluster": 0})


@dataclass(slots=True)
class ExpiryCounters:
    ttl_passes: int = 0
    ttl_deleted: int = 0
    image_passes: int = 0
    images_removed: int = 0
    image_bytes_removed: int = 0


@dataclass(slots=True)
class Counters:
    """All counters of a node."""

    network: NetworkCounters = field(default_factory=NetworkCounters)
    operations: OperationCounters = field(default_factory=OperationCounters)
    commands: defaultdict[str, CommandCounters] = field(default_factory=lambda: defaultdict(CommandCounters))
    transactions: TransactionCounters = field(default_factory=TransactionCounters)
    change_streams: ChangeStreamCounters = field(default_factory=ChangeStreamCounters)
    expiry: ExpiryCounters = field(default_factory=ExpiryCounters)
    index_uses: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How often a read chose an index, by the index's ident."""
    unknown_commands: int = 0
    connections_created: int = 0
    connections_rejected: int = 0
