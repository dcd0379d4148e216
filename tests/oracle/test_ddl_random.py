"""Random DDL sequences beside the real server: replies, oplog entries, expanded events and their tokens."""

from typing import Final

import pytest

from tests.oracle.ddl import comparing
from tests.oracle.ddl.random_ddl import RandomDdl
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Twins

COMMANDS: Final = 200
LEAST_EQUAL: Final = 0.995


@pytest.mark.parametrize("seed", SEEDS)
def test_random_ddl(twins: Twins, seed: int) -> None:
    print(f"seed {seed}")
    names = {"a": f"random_ddl_{seed}_a", "b": f"random_ddl_{seed}_b"}
    began = twins.operation_time()
    compared, different = 0, []
    for command, short in RandomDdl(seed).cases(COMMANDS):
        found = comparing.run(twins, comparing.filled(command, names), names.get(short, short))
        compared += 1
        if found:
            different.append(f"{command} {short}: {found[0]}")
    _, entries = comparing.oplog_differences(twins, began)
    assert not entries, "\n".join([*different, *entries])
    for options in (comparing.SYSTEM, comparing.EXPANDED, {}):
        for database in names.values():
            _, events = comparing.event_differences(twins, began, options, database)
            assert not events, "\n".join([*different, *events])
    assert 1 - len(different) / compared >= LEAST_EQUAL, "\n".join(different)
