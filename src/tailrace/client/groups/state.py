"""The state of a consumer group, and its changes.

A state is a value. A change returns another state, or the same one if there is nothing to change; the store
(`store.py`) replaces the old one by it, if it is still the newest. So every change happens as a whole or not
at all, and a worker that has lost its slots cannot move their positions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tailrace.client.groups.read_positions import ReadCollection
from tailrace.client.groups.sharing import shares
from tailrace.client.options import Document
from tailrace.client.token_order import comes_after, order_of


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of the documents of a stream."""

    position: Document
    """Every event of the slot up to this token is handled."""
    epoch: int = 0
    """Grows with every change of the owner: what an earlier owner commits is refused."""
    owner: str | None = None
    arrived_at: Document | None = None
    """The token of an event without a document: every event of the slot before it is handled."""

    def has_handled_all_before(self, token: Document) -> bool:
        marks = (self.position, self.arrived_at)
        return any(mark is not None and not comes_after(token, mark) for mark in marks)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A worker."""

    id: str
    label: str
    """Where it runs, for people."""
    beat: int = 0
    """Grows while the worker is alive. Others compare it with what they saw: clocks are not compared."""
    seen: datetime | None = None
    """When it was alive, by its own clock, for people."""


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """What a worker has done since its last commit."""

    epochs: Mapping[int, int]
    """The epochs of its slots, as it knows them."""
    positions: Mapping[int, Document] = field(default_factory=dict)
    """Up to where it has handled them."""
    arrived_at: Document | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    name: str
    namespace: str
    """What is watched: ``db.collection``, ``db``, or nothing for the whole deployment."""
    stream: str
    """Pipeline and options of the worker that joined last, as Extended JSON."""
    slots: tuple[Slot, ...]
    members: tuple[GroupMember, ...] = ()
    is_paused: bool = False
    version: int = 0
    """The number of changes so far."""
    collections: tuple[ReadCollection, ...] = ()
    """What the group reads before the changes, if it begins with a snapshot."""

    @property
    def member_ids(self) -> list[str]:
        return [member.id for member in self.members]

    @property
    def oldest_position(self) -> Document:
        """The position of the slot that has most left to do."""
        return min((slot.position for slot in self.slots), key=order_of)

    def of(self, member: str) -> dict[int, Slot]:
        """The slots of a worker, by number."""
        return {number: slot for number, slot in enumerate(self.slots) if slot.owner == member}

    # -- changes --------------------------------------------------------------------------------------

    def joined(self, member: GroupMember, stream: str) -> "GroupState":
        if member.id in self.member_ids:
            return self
        return replace(self, members=(*self.members, member), stream=stream)

    def beaten(self, member: str, now: datetime) -> "GroupState":
        """After a heartbeat; the same state if the worker is no member any more."""
        if member not in self.member_ids:
            return self
        members = tuple(
            replace(each, beat=each.beat + 1, seen=now) if each.id == member else each
            for each in self.members
        )
        return replace(self, members=members)

    def without(self, gone: Collection[str]) -> "GroupState":
        """After workers have left or stopped: their slots are free."""
        if not any(member in gone for member in self.member_ids):
            return self
        members = tuple(each for each in self.members if each.id not in gone)
        slots = tuple(replace(slot, owner=None) if slot.owner in gone else slot for slot in self.slots)
        return replace(self, members=members, slots=slots)

    def settled(self, member: str, progress: WorkerProgress) -> "GroupState":
        """Commit a worker's progress, release slots that others should have, and take those that it should.

        Only between two deliveries, when everything that was delivered is acknowledged or lost.
        """
        if member not in self.member_ids:
            return self
        committed = self.committed(member, progress)
        wanted = shares([slot.owner for slot in committed.slots], self.member_ids)
        slots = list(committed.slots)
        for number, slot in enumerate(slots):
            if slot.owner == member and wanted[number] != member:
                slots[number] = replace(slot, owner=None)
            elif slot.owner is None and wanted[number] == member:
                slots[number] = replace(slot, owner=member, epoch=slot.epoch + 1)
        return committed if tuple(slots) == committed.slots else replace(committed, slots=tuple(slots))

    def committed(self, member: str, progress: WorkerProgress) -> "GroupState":
        """Move the positions of slots that the worker still has; never backwards."""
        slots = list(self.slots)
        for number, epoch in progress.epochs.items():
            slot = slots[number]
            if slot.owner != member or slot.epoch != epoch:
                continue
            position = progress.positions.get(number)
            if position is not None and comes_after(position, slot.position):
                slot = replace(slot, position=position)
            mark = progress.arrived_at
            if mark is not None and not slot.has_handled_all_before(mark):
                slot = replace(slot, arrived_at=mark)
            slots[number] = slot
        return self if tuple(slots) == self.slots else replace(self, slots=tuple(slots))

    def paused(self, paused: bool) -> "GroupState":
        return self if paused == self.is_paused else replace(self, is_paused=paused)

    def sought(self, position: Document) -> "GroupState":
        """Move every slot; what workers have done since their last commit is refused."""
        return replace(
            self,
            slots=tuple(replace(slot, position=position, arrived_at=None, owner=None) for slot in self.slots),
        )


# -- as a document ------------------------------------------------------------------------------------------


def to_document(state: GroupState) -> dict[str, Any]:
    """The document that a store keeps."""
    return {
        "_id": state.name,
        "version": state.version,
        "namespace": state.namespace,
        "stream": state.stream,
        "paused": state.is_paused,
        "slots": [
            {
                "position": slot.position,
                "epoch": slot.epoch,
                "owner": slot.owner,
                "arrivedAt": slot.arrived_at,
            }
            for slot in state.slots
        ],
        "members": [
            {"id": member.id, "label": member.label, "beat": member.beat, "seen": member.seen}
            for member in state.members
        ],
        "collections": [list(each) for each in state.collections],
    }


def from_document(document: Document) -> GroupState:
    return GroupState(
        name=document["_id"],
        namespace=document["namespace"],
        stream=document["stream"],
        slots=tuple(
            Slot(slot["position"], slot["epoch"], slot["owner"], slot["arrivedAt"])
            for slot in document["slots"]
        ),
        members=tuple(
            GroupMember(member["id"], member["label"], member["beat"], member["seen"])
            for member in document["members"]
        ),
        is_paused=document["paused"],
        version=document["version"],
        collections=tuple(ReadCollection(*each) for each in document.get("collections", ())),
    )
