"""The pre-filter of the shared part of a deployment: everything that any stream could show passes."""

from typing import Final, Protocol

from tailrace.bson import raw as rawbson
from tailrace.events.commit_entry import COMMIT
from tailrace.events.oplog_entry import Head, OplogEntry
from tailrace.events.stages.transform.command import KNOWN_COMMANDS
from tailrace.events.stages.transform.noop import BUILT_IN, CONTROL

_NOOPS: Final = frozenset(name.encode() for name in BUILT_IN | CONTROL)


class Visibility(Protocol):
    """A pre-filter: which entries, and which operations inside transactions, pass the first two stages."""

    def sees_plain(self, head: Head) -> bool | None:
        """Decide for an entry without extras; None if its head alone does not decide."""

    def sees(self, entry: OplogEntry) -> bool:
        """Return whether this entry may lead to events."""

    def places(self, operations: bytes) -> list[int] | None:
        """Return the places of which each document change has one that leads to an event; None for all."""

    def may_see_inner(self, raw: bytes, op: int) -> bool:
        """Return whether the bytes of an operation inside a transaction do not exclude an event."""

    def sees_inner(self, entry: OplogEntry) -> bool:
        """Return whether an operation inside a transaction may lead to an event."""

    def sees_any(self, namespaces: list[str]) -> bool:
        """Return whether one of these namespaces is watched."""


def takes_effect(apply_ops: bytes) -> bool:
    """Return whether the operations of an `applyOps` happen at its own position, not at a later entry's."""
    return not any(
        name in (b"prepare", b"partialTxn") and kind == rawbson.BOOL and apply_ops[start]
        for kind, name, start, _ in rawbson.elements(apply_ops)
    )


def applied_by_user(entry: OplogEntry) -> bool:
    """Return whether an `applyOps` entry is the command of a user, no transaction and no batch.

    It has no session, and the arguments of the command beside its operations.
    """
    extras = entry.extras
    if (extras.lsid is not None and extras.txn_number is not None) or extras.multi_op_type:
        return False
    operations = rawbson.find(entry.o, b"applyOps")
    return operations is not None and operations[3] + 1 < len(entry.o)


class EveryEntry:
    """Lets everything through that can become an event."""

    def sees_plain(self, head: Head) -> bool | None:
        return True if head.op in ("i", "u", "d") else None

    def sees(self, entry: OplogEntry) -> bool:
        """Return whether there is an event for this kind of entry."""
        op = entry.head.op
        if op == "c":
            command = entry.command
            if command == "applyOps":
                return takes_effect(entry.o)
            return command == COMMIT or command in KNOWN_COMMANDS
        if op == "n":
            return entry.o2 is not None and any(
                name in _NOOPS for _, name, _, _ in rawbson.elements(entry.o2)
            )
        return True

    def places(self, operations: bytes) -> list[int] | None:  # noqa: ARG002 - the rule is that all pass
        return None

    def may_see_inner(self, raw: bytes, op: int) -> bool:  # noqa: ARG002 - the rule is that all pass
        return True

    def sees_inner(self, entry: OplogEntry) -> bool:  # noqa: ARG002 - the rule is that all pass
        return True

    def sees_any(self, namespaces: list[str]) -> bool:
        return bool(namespaces)
