"""Stages before and after `$changeStream`, beside the real server: which fault of a pipeline is reported."""

from typing import Any, Final

import pytest

from tests.oracle.comparison import Document
from tests.oracle.stage_samples import STAGES
from tests.oracle.twins import Twins, end_cursors

STREAM: Final[Document] = {"$changeStream": {}}
CLUSTER: Final[Document] = {"$changeStream": {"allChangesForCluster": True}}
GROUP: Final[Document] = {"$group": {"_id": 1}}
WRONG_MATCH: Final[Document] = {"$match": 1}

PLACES: Final[dict[str, tuple[str | int, str, Any]]] = {
    "after": ("c", "test", lambda stage: [STREAM, stage]),
    "before": ("c", "test", lambda stage: [stage, STREAM]),
    "before a wrong one": ("c", "test", lambda stage: [STREAM, stage, WRONG_MATCH]),
    "after a wrong one": ("c", "test", lambda stage: [STREAM, WRONG_MATCH, stage]),
    "before a refused one": ("c", "test", lambda stage: [STREAM, stage, GROUP]),
    "after a refused one": ("c", "test", lambda stage: [STREAM, GROUP, stage]),
    "before an unknown one": ("c", "test", lambda stage: [STREAM, stage, {"$none": 1}]),
    "before no document": ("c", "test", lambda stage: [STREAM, stage, 1]),
    "before a misplaced one": ("c", "test", lambda stage: [STREAM, stage, {"$out": "x"}, {"$match": {}}]),
    "between two streams": ("c", "test", lambda stage: [STREAM, stage, STREAM]),
    "after a wrong stream": ("c", "test", lambda stage: [{"$changeStream": 1}, stage]),
    "after a wrong option": ("c", "test", lambda stage: [{"$changeStream": {"none": 1}}, stage]),
    "after a wrong token": (
        "c",
        "test",
        lambda stage: [{"$changeStream": {"resumeAfter": {"_data": "00"}}}, stage],
    ),
    "on a database": (1, "test", lambda stage: [STREAM, stage]),
    "before, on a database": (1, "test", lambda stage: [stage, STREAM]),
    "on an internal database": (1, "admin", lambda stage: [STREAM, stage]),
    "on the cluster": (1, "admin", lambda stage: [CLUSTER, stage]),
    "on a system collection": ("system.x", "test", lambda stage: [STREAM, stage]),
    "on no collection": ("nowhere", "test", lambda stage: [STREAM, stage]),
}
UNCHECKED: Final = ("on the cluster", {"$currentOp": {"foo": 1}})
"""Its options are checked only when it runs: 20 comes before 9."""


@pytest.mark.parametrize("place", PLACES)
def test_each_stage(twins: Twins, place: str) -> None:
    collection, database, pipeline = PLACES[place]
    compare(
        twins,
        [
            ({"aggregate": collection, "pipeline": pipeline(stage), "cursor": {}}, database)
            for stage in STAGES
            if (place, stage) != UNCHECKED
        ],
    )


def test_each_stage_with_the_stable_api(twins: Twins) -> None:
    stages = [stage for stage in STAGES if "'$changeStream'" not in str(stage)]
    api = {"apiVersion": "1", "apiStrict": True}
    compare(
        twins,
        [({"aggregate": "c", "pipeline": [STREAM, stage], "cursor": {}, **api}, "test") for stage in stages],
    )


def compare(twins: Twins, commands: list[tuple[Document, str]]) -> None:
    different = []
    for command, database in commands:
        pair = twins.run(command, database)
        end_cursors(twins, pair)
        if pair.differences:
            different.append(f"{command['pipeline']}: {pair.differences[0]}")
    assert not different, "\n".join(different)
