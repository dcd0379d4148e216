"""The consumer groups of a deployment: how far they are, and what is wrong with them."""

from collections.abc import Iterator
from typing import Final

from tailrace.cli.asking import words
from tailrace.client.groups.control import ConsumerGroup
from tailrace.client.groups.control_flow import GroupStatus
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.driver_errors import driver_errors

_COUNT_SECONDS: Final = 1.0
"""How long the events of one group are counted: one screen shows all groups."""


def groups_of(client: Client, uri: str, positions: str | None) -> list[GroupStatus]:
    """The groups whose positions are in a place; None for the server's own, which has to be Tailrace's."""
    with driver_errors(uri, "find on the collection of the positions, and the rights to watch"):
        found = []
        for name in ConsumerGroup.names(client, positions=positions):
            with ConsumerGroup(client, name, positions=positions) as group:
                found.append(group.status(_COUNT_SECONDS))
        return found


def faults_of_group(group: GroupStatus, max_lag: float) -> Iterator[str]:
    """What is wrong with a group, each with what to do. A paused one may have any lag."""
    if group.lag.failure is not None:
        yield (
            f"the group {group.name} cannot go on: {group.lag.failure}; read from a history, or move it with "
            "tailrace consume --seek"
        )
    elif group.lag.seconds > max_lag and not group.is_paused:
        remedy = "add workers, or see whether one is stuck" if group.members else "no worker runs; start one"
        yield (
            f"the group {group.name} is {words.span(group.lag.seconds)} after the newest write, more than "
            f"{words.span(max_lag)}; {remedy}"
        )
