"""One transaction of a session: where it stands, and what its statements work on."""

import math
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

from bson import DatetimeMS, Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.transactions.prepared import Prepared
from tailrace.mongod.store.transactions.transaction import TransactionUnit
from tailrace.mongod.store.transactions.transaction_log import TRANSIENT

if TYPE_CHECKING:
    from tailrace.mongod.server.sessions.sessions import Session


class State(Enum):
    """Where a transaction stands."""

    IN_PROGRESS = "inProgress"
    PREPARED = "prepared"
    """Ended by nothing but the decision about it"""
    ENDING = "ending"
    """Handed in to be prepared, committed or aborted; nothing can stop that"""
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction(ABC):
    """One transaction of a session, open or ended."""

    def __init__(
        self,
        session: "Session",
        number: int,
        *,
        read_concern: str | None = None,
        started: float = 0.0,
        expires: float = 0.0,
    ) -> None:
        self.session = session
        self.number = number
        self.state = State.IN_PROGRESS
        self.started = started
        """Seconds since 1970"""
        self.expires = expires
        self.user: Context | None = None
        """The command that works in it now"""
        self._read_concern = read_concern

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """What its statements read."""

    @property
    @abstractmethod
    def unit(self) -> TransactionUnit:
        """What its statements change, where it is one store that they change."""

    @property
    @abstractmethod
    def read_time(self) -> int:
        """The cluster time of what it reads; 0 if that is over."""

    @property
    def is_open(self) -> bool:
        """Whether anything can still end it."""
        return self.state is State.IN_PROGRESS

    def end_as(self, state: State) -> None:
        """Let go of everything; what is still to be committed is given up."""
        self.state = state

    def describe(self) -> dict[str, Any]:
        """The field `transaction` of a currentOp entry."""
        parameters: dict[str, Any] = {"txnNumber": Int64(self.number), "autocommit": False}
        if self._read_concern is not None:
            parameters["readConcern"] = {"level": self._read_concern}
        shown = {
            "parameters": parameters,
            "readTimestamp": to_timestamp(self.read_time),
            "startWallClockTime": DatetimeMS(int(self.started * 1000)),
        }
        if math.isfinite(self.expires):
            shown["expiryTime"] = DatetimeMS(int(self.expires * 1000))
        return shown


class StoredTransaction(Transaction):
    """A transaction on one store, or what the store remembers of one."""

    _unit: TransactionUnit | None = None
    prepared: Prepared | None = None
    """What waits for a decision"""

    @classmethod
    def opened(cls, session: "Session", number: int, unit: TransactionUnit, **facts: Any) -> "Transaction":
        """One that begins."""
        transaction = cls(session, number, **facts)
        transaction._unit = unit
        return transaction

    @classmethod
    def recalled(
        cls, session: "Session", number: int, state: State, prepared: Prepared | None
    ) -> "Transaction":
        """One from before the server started, or before its session was forgotten."""
        transaction = cls(session, number)
        transaction.state = state
        transaction.prepared = prepared
        return transaction

    @property
    def reader(self) -> Reader:
        """What its statements read."""
        return self.unit

    @property
    def unit(self) -> TransactionUnit:
        """What its statements read and change."""
        if self._unit is None:
            raise no_such_transaction(f"Transaction {self.number} has ended.")
        return self._unit

    @property
    def read_time(self) -> int:
        """The cluster time of what it reads; 0 if that is over."""
        return 0 if self._unit is None else self._unit.read_time

    def end_as(self, state: State) -> None:
        """Let go of everything; an open unit is aborted."""
        super().end_as(state)
        unit, self._unit, self.prepared = self._unit, None, None
        if unit is not None and state is State.ABORTED:
            unit.abort()


def no_such_transaction(reason: str) -> CommandError:
    """The error after which the whole transaction may be tried again."""
    return CommandError(ErrorCode.NoSuchTransaction, reason, [TRANSIENT])
