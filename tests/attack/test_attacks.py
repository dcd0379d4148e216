"""The short part of `make attack`: each attack ends, and the server answers others; nothing is timed here."""

from collections.abc import Iterator

import pytest

from attack import expensive, fuzz, network
from attack.ending import run_and_end
from attack.servers import Server, tailrace

EXPENSIVE = dict(expensive.commands())
WORST = (
    "$reduce 3000 x 3000 x 3000",
    "$map 2000 x 2000",
    "$in of 1 M, 1000 times",
    "$graphLookup of a chain without an index",
    "$setWindowFields with $push",
    "$lookup in $lookup",
    "$unwind of $unwind of $unwind",
    "$sort of 1 M",
    "find with $expr",
    "find with a pattern that backtracks",
    "update with a pipeline, one document",
    "update with a pipeline, all documents",
    "findAndModify with a pipeline",
)
SHORT = (
    "bad headers",
    "random bytes",
    "deep nesting",
    "4 streams with costly filters",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tailrace() as running:
        with running.connect() as connection:
            expensive.prepare(connection)
        yield running


def answers(server: Server) -> bool:
    with server.connect(60) as other:
        return bool(other.call({"ping": 1, "$db": "admin"})["ok"] == 1)


@pytest.mark.parametrize("name", WORST)
def test_a_command_that_computes_for_long_can_be_ended(server: Server, name: str) -> None:
    outcome, _ = run_and_end(EXPENSIVE[name], 0.2, server)
    assert outcome.startswith(("ended", "answered"))
    assert answers(server)


@pytest.mark.parametrize("name", SHORT)
def test_hostile_connections_leave_the_server_to_others(server: Server, name: str) -> None:
    dict(network.attacks())[name](server)
    assert answers(server)


@pytest.mark.parametrize(
    ("options", "seed"), [((), 1), (("--shards", "2"), 2)], ids=["replica set", "router"]
)
def test_damaged_messages_cause_no_internal_error(options: tuple[str, ...], seed: int) -> None:
    with tailrace("tailrace", *options) as attacked:
        seen = fuzz.clients(attacked.port, seed, 3_000, 2, None)
        assert seen.faults == []
        assert seen.silent == []
        assert seen.answered > 1_000
        assert answers(attacked)
