"""The balancer's settings, and how it decides that a collection is out of balance.

Clients turn the balancer on with `balancerStart`, or by writing to `config.settings`, so the settings are
read from there every time. It is off in a new cluster.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.store.store import Store

if TYPE_CHECKING:
    from tailrace.mongod.cluster.placement.changes import Placement
    from tailrace.mongod.cluster.placement.zones import ZoneMap

SETTING: Final = "balancer"
DEFAULT_CHUNK_MEGABYTES: Final = 128
_CHUNK_SIZE: Final = "chunksize"
_MOST_MEGABYTES: Final = 1024
_TOLERATED_CHUNKS: Final = 3
"""The difference between shards that is tolerated, in chunks"""


@dataclass(slots=True)
class BalancerProgress:
    """What the balancer has done since the cluster started."""

    rounds: int = 0
    is_in_round: bool = False


class ViolationKind(StrEnum):
    """Why a range has to be moved, in the words of balancerCollectionStatus."""

    DRAINING = "draining"
    ZONE = "zoneViolation"
    IMBALANCE = "chunksImbalance"


class Violation(NamedTuple):
    """Why and between which shards a range should be moved."""

    kind: ViolationKind
    donor: str
    recipient: str
    difference: float
    """Bytes that the donor has more than the recipient"""
    part: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
    """The ends of the range to be moved; None for any range of the donor"""


def is_on(placement: "Placement") -> bool:
    setting = placement.setting(SETTING)
    return bool(setting) and not setting.get("stopped") and setting.get("mode") != "off"


def chunk_megabytes(placement: "Placement") -> float:
    """The size above which a chunk counts as several."""
    value = placement.setting(_CHUNK_SIZE).get("value", DEFAULT_CHUNK_MEGABYTES)
    is_usable = isinstance(value, int | float) and 0 < value <= _MOST_MEGABYTES
    return value if is_usable else DEFAULT_CHUNK_MEGABYTES


def violation(
    placement: "Placement", stores: Mapping[str, Store], collection: TrackedCollection
) -> Violation | None:
    """The first violation of the balance; None if there is none."""
    recipients = {name: 0 for name, shard in placement.shards.items() if not shard.is_draining}
    if not recipients:
        return None
    sizes = {
        name: _bytes_of_collection(stores[name], collection) for name in {*recipients, *collection.shards}
    }

    def emptiest(names: Iterable[str]) -> str | None:
        return min(names, key=lambda name: (sizes[name], bytes_of_shard(stores[name])), default=None)

    zones = placement.zones(collection.ns, collection.key)
    if zones:
        found = _zone_violation(collection, zones, recipients, emptiest)
        if found is not None:
            return found
    recipient = emptiest(recipients) or next(iter(recipients))
    for owner in collection.shards:
        if owner not in recipients:
            return Violation(ViolationKind.DRAINING, owner, recipient, sizes[owner] - sizes[recipient])
    donor = max(recipients, key=lambda name: sizes[name])
    tolerated = _TOLERATED_CHUNKS * chunk_megabytes(placement) * (1 << 20)
    difference = sizes[donor] - sizes[recipient]
    if difference < tolerated:
        return None
    return Violation(ViolationKind.IMBALANCE, donor, recipient, difference)


def _zone_violation(
    collection: TrackedCollection,
    zones: "ZoneMap",
    recipients: Collection[str],
    emptiest: Callable[[Iterable[str]], str | None],
) -> Violation | None:
    """A chunk of a shard that is being removed, or a range outside of its zone, and where to move it."""
    for chunk in collection.chunks:
        if chunk.shard not in recipients:
            to = emptiest(zones.shards_of(zones.zone_of(chunk.min, chunk.max)))
            if to is not None:
                return Violation(ViolationKind.DRAINING, chunk.shard, to, 0, (chunk.min, chunk.max))
    for shard, low, high, zone in zones.misplaced(collection.chunks):
        to = emptiest(zones.shards_of(zone))
        if to is not None:
            return Violation(ViolationKind.ZONE, shard, to, 0, (low, high))
    return None


def bytes_of_shard(store: Store) -> int:
    """The size of all users' collections."""
    with store.snapshot() as snapshot:
        return sum(
            snapshot.count(collection)[1]
            for collection in snapshot.catalog.collections()
            if collection.database not in INTERNAL_DATABASES
        )


def _bytes_of_collection(store: Store, collection: TrackedCollection) -> int:
    with store.snapshot() as snapshot:
        found = snapshot.catalog.by_uuid(collection.uuid)
        return 0 if found is None else snapshot.count(found)[1]
