"""Further members of a set: each with a port, cursors, sessions and fail points of its own, on the same data.

A secondary of a real set has what the primary had a moment ago; here it reads the very same store, so it is
always as new as the primary. Everything else is apart as it is on several machines: a cursor belongs to the
member that opened it, a parameter or fail point to the member where it was set.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.replication import Replication
from tailrace.mongod.server.server import Server


class Member(Server):
    """A member besides the first one, whose data it uses."""

    owns_data = False

    def __init__(self, first: Server, options: ServerOptions) -> None:
        super().__init__(options, wall=first.wall, log=first.log)
        self._first = first
        self.members = first.members
        self.elections = first.elections
        self.cluster_parameters = first.cluster_parameters
        self.default_concerns = first.default_concerns

    async def start(self) -> None:
        """Accept connections; the first member has opened the data."""
        self._share_data(self._first)
        self.replication = Replication(self._first.replication.set)
        await self._begin_serving()

    def begin_stop(self) -> asyncio.Task[None]:
        """Begin to stop all members: they are one process."""
        return self._first.begin_stop()


def further_members(first: Server) -> Iterator[Member]:
    """The members besides the first one, which is listening; to be started in this order."""
    options = first.options
    for number in range(1, options.members):
        port = first.port + number if options.port else 0
        if options.member_ports:
            port = options.member_ports[number - 1]
        yield Member(first, replace(options, port=port, advertise=options.advertised(number), members=1))
