"""Declarations of commands: a command uses no more than the node that runs it has."""

from typing import get_type_hints

import pytest

from tailrace.mongod.cluster.commands import COMMANDS as ROUTER_COMMANDS
from tailrace.mongod.cluster.router_context import RouterContext
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.commands import COMMANDS
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import Context, MemberContext


def needs(command: Command) -> type[Context]:
    """The type of the first parameter of a command's function."""
    kind: type[Context] = next(iter(get_type_hints(command.run).values()))
    return kind


@pytest.mark.parametrize("name", COMMANDS)
def test_a_member_has_what_its_commands_need(name: str) -> None:
    assert issubclass(MemberContext, needs(COMMANDS[name]))


@pytest.mark.parametrize("name", ROUTER_COMMANDS)
def test_a_router_has_what_its_commands_need(name: str) -> None:
    assert issubclass(RouterContext, needs(ROUTER_COMMANDS[name]))


@pytest.mark.parametrize("name", sorted({*COMMANDS, *ROUTER_COMMANDS}))
def test_every_command_declares_the_rights_it_needs(name: str) -> None:
    for table in (COMMANDS, ROUTER_COMMANDS):
        if name in table:
            assert table[name].needs is not None


def test_before_a_log_in_nothing_can_be_read_or_written() -> None:
    open_commands = {command.name for command in COMMANDS.values() if command.needs is OPEN}
    assert open_commands == {
        "authenticate", "buildInfo", "connectionStatus", "echo", "getLastError", "getnonce", "hello",
        "listCommands", "ping", "saslContinue", "saslStart", "testDeprecation", "testVersion2",
        "whatsmyuri",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in ROUTER_COMMANDS if name in COMMANDS])
def test_a_command_of_both_is_declared_once(name: str) -> None:
    own, shared = ROUTER_COMMANDS[name], COMMANDS[name]
    assert (own is shared) == shared.same_on_router
    assert (own.name, own.aliases, own.is_write) == (shared.name, shared.aliases, shared.is_write)
