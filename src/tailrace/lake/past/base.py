"""Snapshots of collections that were there before a history began, stored with it: bases to rebuild from.

A collection is cut into ranges of `_id`. Each range is a file with its documents as of one cluster time, so
that changes after that time, and no others, are applied to them. The names of files have all that is known of
a range: a listing shows how far a snapshot is, several processes may record one at once, and one that was
killed continues. The folder's name begins with an underscore, so that other tools for Delta leave it alone.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.lake.mirror.copy_state import CopiedRange, CopyState
from tailrace.lake.storage.log_store import LogStore

FOLDER: Final = "_base"
_PLAN: Final = ".json"
_RANGE: Final = ".parquet"
_DOCUMENT: Final = pa.schema([pa.field("document", pa.binary(), nullable=False)])
_GROUP_DOCUMENTS: Final = 1024


@dataclass(frozen=True)
class BasePlan:
    """One collection, and the ranges that its snapshot has."""

    namespace: str
    uuid: bytes
    at: int
    """The cluster time at which it was planned: the collection had this name then"""
    starts: tuple[bytes, ...] = ()
    """Documents with the least `_id` of each range but the first"""
    by_index: bool = True
    is_needed: bool = True
    """False if the history has the creation of the collection, at the time `at`: there was nothing then"""

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.uuid.hex()}-{self.at:016x}"

    @cached_property
    def state(self) -> CopyState:
        """The ranges, of which none was read."""
        return CopyState.planned(self.starts)

    def content(self) -> bytes:
        return json.dumps(
            {
                "ns": self.namespace,
                "starts": [start.hex() for start in self.starts],
                "byIndex": self.by_index,
                "isNeeded": self.is_needed,
            }
        ).encode()


@dataclass(frozen=True, slots=True)
class BaseRange:
    """The documents of a range that was recorded."""

    plan: BasePlan
    number: int
    as_of: int
    """The cluster time at which they were read"""

    @property
    def name(self) -> str:
        return f"{self.plan.name}-{self.number:06d}-{self.as_of:016x}{_RANGE}"


class Bases:
    """The snapshots of one history, as they were when this was made."""

    def __init__(self, store: LogStore, begins: int) -> None:
        """``begins`` is where the history begins: changes after what is older are missing."""
        self._store = store
        self.plans: list[BasePlan] = []
        """In no order; those of one collection may be several."""
        self.ranges: list[BaseRange] = []
        """In the order of their times."""
        self.outdated: list[str] = []
        """Names of files that are no base any more."""
        listed = sorted(store.list(FOLDER), key=lambda file: file.name)
        by_name: dict[str, BasePlan] = {}
        for file in listed:
            with suppress(FileNotFoundError):  # another process removes it
                if file.name.endswith(_PLAN) and (plan := _plan(store, file.name, file.tag)).at >= begins:
                    by_name[plan.name] = plan
        self.plans = list(by_name.values())
        for name in (file.name for file in listed):
            of = by_name.get("-".join(name.removesuffix(_PLAN).split("-")[:2]))
            if of is None:
                self.outdated.append(name)
            elif name.endswith(_RANGE):
                number, time = name.removesuffix(_RANGE).split("-")[2:]
                self.ranges.append(BaseRange(of, int(number), int(time, 16)))
        self.ranges.sort(key=lambda one: (one.as_of, one.name))

    def complete(self, uuids: Iterable[str]) -> "list[CollectionBase]":
        """The snapshots of a collection that are complete, in the order of their times."""
        wanted = {uuid.replace("-", "") for uuid in uuids}
        found = [self.of(plan) for plan in self.plans if plan.uuid.hex() in wanted and plan.is_needed]
        return sorted((base for base in found if base.state.is_complete), key=lambda base: base.settled)

    def of(self, plan: BasePlan) -> "CollectionBase":
        """What is recorded of a plan."""
        ranges = {one.number: one for one in reversed(self.ranges) if one.plan == plan}
        return CollectionBase(self._store, plan, ranges)

    def missing(self, plan: BasePlan) -> list[int]:
        """The ranges of a plan that are to be read."""
        return self.of(plan).state.missing() if plan.is_needed else []


@dataclass(frozen=True, slots=True)
class CollectionBase:
    """The documents of one collection, each range as it was at a cluster time."""

    store: LogStore
    plan: BasePlan
    ranges: dict[int, BaseRange]

    @property
    def state(self) -> CopyState:
        """Which changes apply to which documents."""
        state = self.plan.state
        for number, one in self.ranges.items():
            state = state.with_range(number, CopiedRange(one.as_of, one.as_of))
        return state

    @property
    def settled(self) -> int:
        """The cluster time from which on all documents show one moment, with the changes since."""
        return self.state.settled

    @property
    def first(self) -> int:
        """The cluster time after which changes may not be in it."""
        return min(one.as_of for one in self.ranges.values())

    def documents(self) -> Iterator[bytes]:
        for number in sorted(self.ranges):
            for found in read_range(self.store, self.ranges[number]):
                yield from found


def add_plan(store: LogStore, plan: BasePlan) -> None:
    """Store a plan; one of the same collection and time may be there."""
    store.create(plan.name + _PLAN, plan.content())


def write_range(store: LogStore, one: BaseRange, documents: Iterable[list[bytes]]) -> int:
    """Store the documents of a range, all or nothing; return how many they are."""
    file = store.new_file(one.name)
    count = 0
    try:
        with pq.ParquetWriter(file.content, _DOCUMENT, compression="zstd", use_dictionary=False) as writer:
            for found in documents:
                count += len(found)
                for start in range(0, len(found), _GROUP_DOCUMENTS):
                    column = pa.array(found[start : start + _GROUP_DOCUMENTS], pa.binary())
                    writer.write_table(pa.table([column], _DOCUMENT))
        file.place(one.name)
    finally:
        file.discard()
    store.settle()
    return count


def read_range(store: LogStore, one: BaseRange) -> Iterator[list[bytes]]:
    """The documents of a range, some at a time."""
    with store.open(one.name) as source, pq.ParquetFile(source) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number).column(0).to_pylist()


@lru_cache(maxsize=4096)
def _plan(store: LogStore, name: str, _tag: str) -> BasePlan:
    found = json.loads(store.read(name))
    uuid, time = name.removesuffix(_PLAN).removeprefix(f"{FOLDER}/").split("-")
    starts = tuple(bytes.fromhex(start) for start in found["starts"])
    return BasePlan(
        found["ns"], bytes.fromhex(uuid), int(time, 16), starts, found["byIndex"], found["isNeeded"]
    )
