"""Set fail points, including `cutOffMember`, which concerns a whole member of the set.

`cutOffMember` makes a member unreachable: its connections are closed, new ones are refused, and the others
elect a new primary if it was that. ``data.member`` is the `host:port` of the member, or its position in the
set, from 0; by default it is the member that receives the command. To bring a member back, switch the fail
point off through another member, or use the mode `times`: then it refuses that many connections.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.emulation.fail_command import check_data
from tailrace.mongod.server.emulation.fail_points import CUT_OFF, FAIL_COMMAND, FailPoint

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node


def set_fail_point(node: "Node", name: str, mode: object, data: Mapping[str, Any]) -> FailPoint:
    """Set the mode of a fail point of a member, or of the member that its data names; the fail point."""
    if name == FAIL_COMMAND:
        check_data(data)
    if name == CUT_OFF:
        node = _named(node, data.get("member"))
    point = node.fail_points.get(name)
    node.fail_points.configure(name, mode, data)
    if name == CUT_OFF:
        _connectivity_changed(node)
    return point


def _named(node: "Node", member: object) -> "Node":
    members = node.members
    if member is None:
        return node
    if isinstance(member, int) and not isinstance(member, bool) and 0 <= member < len(members):
        return members[member]
    for known in members:
        if known.address == member:
            return known
    raise CommandError(ErrorCode.BadValue, f"the set has no member {member!r}")


def _connectivity_changed(node: "Node") -> None:
    if node.is_cut_off:
        # The client that requested it may use one of these connections, and gets its reply first.
        asyncio.get_running_loop().call_soon(node.listener.drop_connections)
    node.listener.on_reachability_change()
