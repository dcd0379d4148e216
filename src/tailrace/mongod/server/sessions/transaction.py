"""One transaction of a session: its state, and what its statements read and change."""

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
    IN_PROGRESS = "inProgress"
    PREPARED = "prepared"
    """Only the coordinator's decision ends it."""
    ENDING = "ending"
    """Its prepare, commit or abort has begun and cannot be stopped."""
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
        """The command that uses it now."""
        self._read_concern = read_concern

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """What its statements read."""

    @property
    @abstractmethod
    def unit(self) -> TransactionUnit:
        """What its statements change, if that is one store."""

    @property
    @abstractmethod
    def read_time(self) -> int:
        """The cluster time of what it reads; 0 if it has ended."""

    @property
    def is_open(self) -> bool:
        """Whether a client or the server can still end it."""
        return self.state is State.IN_PROGRESS

    def end_as(self, state: State) -> None:
        """Release everything; changes that are not committed are aborted."""
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
    """A transaction on one store, open or stored."""

    _unit: TransactionUnit | None = None
    prepared: Prepared | None = None
    """Set while it is prepared."""

    @classmethod
    def opened(cls, session: "Session", number: int, unit: TransactionUnit, **facts: Any) -> "Transaction":
        """A new transaction."""
        transaction = cls(session, number, **facts)
        transaction._unit = unit
        return transaction

    @classmethod
    def recalled(
        cls, session: "Session", number: int, state: State, prepared: Prepared | None
    ) -> "Transaction":
        """A transaction that the store has, from before the session was used here."""
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
        if self._unit is None:
            raise no_such_transaction(f"Transaction {self.number} has ended.")
        return self._unit

    @property
    def read_time(self) -> int:
        """The cluster time of what it reads; 0 if it has ended."""
        return 0 if self._unit is None else self._unit.read_time

    def end_as(self, state: State) -> None:
        super().end_as(state)
        unit, self._unit, self.prepared = self._unit, None, None
        if unit is not None and state is State.ABORTED:
            unit.abort()


def no_such_transaction(reason: str) -> CommandError:
    """The error NoSuchTransaction, with the label by which drivers retry the whole transaction."""
    return CommandError(ErrorCode.NoSuchTransaction, reason, [TRANSIENT])
