"""Write the oplog of a simulated deployment: assign times to operations and store the entries."""

import random
from dataclasses import dataclass, field
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.entry_bytes import (
    NULL_OPTIME,
    Operation,
    binary_element,
    entry_bytes,
    session_elements,
    uuid_element,
)
from tailrace.events.oplog_entry import OpTime

FIRST_SECOND: Final = 1_700_000_000


def session_id(uuid: bytes, user_hash: bytes) -> bytes:
    """Return the document `lsid`."""
    return rawbson.document(uuid_element(b"id", uuid), binary_element(b"uid", b"\x00", user_hash))


@dataclass(slots=True)
class Session:
    """A logical session, with its last transaction number and entry."""

    uuid: bytes
    user_hash: bytes
    transaction_number: int = 0
    last: OpTime = NULL_OPTIME

    def elements(self) -> bytes:
        """`lsid` and `txnNumber`."""
        return session_elements(session_id(self.uuid, self.user_hash), self.transaction_number)


@dataclass(slots=True)
class OplogWriter:
    rng: random.Random
    entries: list[bytes] = field(default_factory=list)
    term: int = 1
    _seconds: int = FIRST_SECOND
    _increment: int = 0

    @property
    def now(self) -> int:
        """The last timestamp."""
        return self._seconds << 32 | self._increment

    @property
    def optime(self) -> OpTime:
        """The last entry's time and term."""
        return OpTime(self.now, self.term)

    @property
    def wall(self) -> int:
        """Wall clock in milliseconds; near the cluster time, and not always in its order, as on a server."""
        return self._seconds * 1000 + self._increment % 7 * 100

    def tick(self) -> int:
        """Return the next timestamp; some are left unused, and sometimes seconds pass."""
        rng = self.rng
        if rng.random() < 0.2:
            self._seconds += rng.choice((1, 1, 2, 10))
            self._increment = 0
        self._increment += 1 if rng.random() < 0.9 else rng.randrange(1, 4)
        return self.now

    def write(
        self,
        operation: Operation,
        *,
        session: Session | None = None,
        previous: OpTime | None = None,
        multi_op_type: int | None = None,
    ) -> int:
        """Append an entry at the next time and return that time."""
        timestamp = self.tick()
        self.entries.append(
            entry_bytes(
                operation,
                self.optime,
                self.wall,
                session=b"" if session is None else session.elements(),
                previous=previous,
                multi_op_type=multi_op_type,
            )
        )
        if session is not None:
            session.last = self.optime
        return timestamp

    def new_uuid(self) -> bytes:
        """A random UUID of version 4."""
        data = bytearray(self.rng.randbytes(16))
        data[6] = data[6] & 0x0F | 0x40
        data[8] = data[8] & 0x3F | 0x80
        return bytes(data)
