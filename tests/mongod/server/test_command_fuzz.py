"""Malformed commands: each gets a reply or its connection is closed; the server keeps running.

The mutations and the valid replies are in `broken_commands.py`.
"""

from collections.abc import Iterator

import pytest

from tailrace.mongod.server.commands import COMMANDS
from tests.mongod.server.broken_commands import check_answers
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.raw_login import log_in
from tests.mongod.server.running import RunningServer, running
from tests.mongod.server.sample_commands import ADMIN, SAMPLES

ROUNDS = 30


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[RunningServer]:
    with running() as server:
        yield server


def prepare(raw: RawClient) -> None:
    raw.call(
        {"insert": "c", "documents": [{"_id": n, "a": n, "b": [n]} for n in range(20, 30)], "$db": "fuzz"}
    )
    raw.call({"create": "f", "$db": "fuzz"})


def test_there_is_a_sample_of_every_command() -> None:
    sampled = {next(iter(sample)) for sample in SAMPLES}
    never = {"shutdown", "replSetStepDown", "replSetInitiate", "waitForFailPoint", "logout", "dropDatabase"}
    assert {command.name for command in COMMANDS.values()} - sampled <= never


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=lambda n: f"{next(iter(SAMPLES[n]))}-{n}")
def test_a_malformed_command_gets_a_reply(fuzzed: RunningServer, number: int) -> None:
    with raw_client(fuzzed) as raw:
        prepare(raw)
        check_answers(raw, SAMPLES, number, admin=ADMIN, rounds=ROUNDS, max_time_ms=2000)


@pytest.fixture(scope="module")
def guarded_fuzzed() -> Iterator[RunningServer]:
    with running(auth=True, first_user=("root", "root")) as server:
        yield server


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=lambda n: f"{next(iter(SAMPLES[n]))}-{n}")
def test_rights_of_a_malformed_command(guarded_fuzzed: RunningServer, number: int) -> None:
    """What a command needs is computed before its arguments are checked."""
    with raw_client(guarded_fuzzed) as raw:
        assert log_in(raw, "root", "root")["ok"] == 1
        check_answers(raw, SAMPLES, number, admin=ADMIN, rounds=ROUNDS, max_time_ms=2000)


def test_no_internal_error_was_logged(fuzzed: RunningServer, guarded_fuzzed: RunningServer) -> None:
    assert not [line for server in (fuzzed, guarded_fuzzed) for line in server.log() if line["s"] == "E"]
