"""The no-op that keeps time moving while nobody writes.

Without it a change stream on a quiet server could not tell how far it has come, and its resume token would
grow old until the oplog no longer has its time.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tailrace.mongod.server.server import Server

MESSAGE: Final = {"msg": "periodic noop"}


class PeriodicNoop:
    """Writes an entry if nothing else was written since the last look."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._seen = 0

    def pause(self) -> float:
        """Seconds between two looks."""
        return float(self._server.parameters["periodicNoopIntervalSecs"])

    async def run(self) -> None:
        """Look, and write if the server was idle."""
        server = self._server
        if not server.replication.is_replica_set or not server.replication.is_primary:
            return
        if server.parameters["writePeriodicNoops"] and server.store.last_committed == self._seen:
            await server.write_no_op(MESSAGE)
        self._seen = server.store.last_committed
