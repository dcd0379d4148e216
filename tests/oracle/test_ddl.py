"""DDL commands beside the real server: replies, oplog entries and expanded change events."""

import pytest

from tests.oracle.ddl import comparing as ddl
from tests.oracle.ddl.subjects import KNOWN, SUBJECTS
from tests.oracle.twins import Twins


@pytest.mark.parametrize("subject", SUBJECTS)
def test_hand_written_commands(twins: Twins, subject: str) -> None:
    names = {"a": f"ddl_{subject}_a", "b": f"ddl_{subject}_b"}
    began = twins.operation_time()
    found = []
    for case in SUBJECTS[subject]:
        command, short = case if isinstance(case, tuple) else (case, "a")
        database = str(names.get(short, short))
        different = ddl.run(twins, ddl.filled(command, names), database)
        if different and (command, short) not in KNOWN:
            found.append(f"{command} {database}: {different[0]}")
    assert not found, "\n".join(found)
    _, different_entries = ddl.oplog_differences(twins, began)
    assert not different_entries, "\n".join(different_entries)
    for options in (ddl.SYSTEM, ddl.EXPANDED, {}):
        for database in names.values():
            _, different_events = ddl.event_differences(twins, began, options, database)
            assert not different_events, "\n".join(different_events)
