"""Aggregation stages beside the real server: all options, their errors, accumulators and windows."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

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


_FAILS: Final = {"$expr": {"$switch": {"branches": [{"case": "$missing", "then": 1}]}}}
_NO: Final = {"n": -7}
_YES: Final = {"n": {"$ne": -7}}


@pytest.mark.parametrize(
    "condition",
    [
        *({operator: parts} for operator in ("$and", "$or", "$nor")
          for parts in ([_FAILS, _NO], [_NO, _FAILS], [_FAILS, _YES], [_YES, _FAILS])),
        {"$nor": [{"$and": [_FAILS, _NO]}, {"x": 1}]},
        {"$or": [{"$and": [_FAILS, _NO]}, _YES]},
        {**_FAILS, **_NO},
    ],
    ids=str,
)  # fmt: skip
def test_the_order_in_which_conditions_are_tested(filled: Twins, condition: dict[str, Any]) -> None:
    match = {"$match": condition}
    require_equal(
        filled,
        [
            {"find": "numbered", "filter": condition, "projection": {"_id": 1}},
            *aggregates(
                [
                    [match, {"$count": "n"}],
                    [{"$limit": 5}, match, {"$count": "n"}],
                    [{"$group": {"_id": "$_id"}}, match, {"$count": "n"}],
                    [{"$facet": {"found": [match, {"$count": "n"}]}}],
                    [{"$limit": 1}, {"$lookup": {"from": "numbered", "as": "x", "pipeline": [match]}}],
                    [{"$limit": 1}, {"$unionWith": {"coll": "numbered", "pipeline": [match]}}],
                ],
                "numbered",
            ),
        ],
    )


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
