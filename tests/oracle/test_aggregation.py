"""Aggregation stages beside the real server: all options, their errors, accumulators and windows."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.oracle.queries import stage_cases as cases
from tests.oracle.queries.compared import require_equal
from tests.oracle.twins import Twins


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    for name, documents in (
        ("sales", cases.SALES),
        ("numbered", cases.NUMBERED),
        ("people", cases.PEOPLE),
    ):
        twins.same({"insert": name, "documents": list(documents)})
    return twins


def aggregates(pipelines: Iterable[Any], *collections: str) -> Iterator[dict[str, Any]]:
    for pipeline in pipelines:
        for name in collections:
            yield {"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": 1000}}


def test_groups(filled: Twins) -> None:
    require_equal(filled, aggregates(cases.grouping(), "sales", "numbered"), is_unordered=True)


@pytest.mark.parametrize(
    ("pipelines", "collections"),
    [
        (cases.shaping, ["sales"]),
        (cases.bucketing, ["sales", "numbered"]),
        (cases.joining, ["sales"]),
        (cases.windows, ["numbered"]),
        (cases.filling, ["numbered", "sales"]),
    ],
)
def test_stages(filled: Twins, pipelines: Callable[[], Iterable[Any]], collections: list[str]) -> None:
    require_equal(filled, aggregates(pipelines(), *collections))
