"""Statistics of collections, and values that come from indexes, beside the real server."""

from typing import Any

import pytest

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins

DATABASE = "statistics"
SUBJECTS: dict[str, Document] = {
    "plain": {},
    "capped": {"capped": True, "size": 8192, "max": 3},
    "sized": {"capped": True, "size": 2**33},
    "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}},
    "view": {"viewOn": "plain", "pipeline": [{"$match": {"a": 1}}]},
    "whole": {"viewOn": "plain", "pipeline": []},
    "nothing": {},
}
DOCUMENTS: list[Document] = [
    {"_id": 1, "a": 1}, {"_id": 2}, {"_id": 3, "a": [3, 4]}, {"_id": 4, "a": []},
    {"_id": 5, "a": [[1, 2], []]}, {"_id": 6, "b": []}, {"_id": 7, "b": [{"c": 1}, {"c": [2, 3]}, {}]},
    {"_id": 8, "b": {"c": []}},
    {"_id": 9, "b": 5}, {"_id": 10, "b": [{"c": []}]}, {"_id": 11, "b": [5]},
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    for name, options in SUBJECTS.items():
        if name != "nothing":
            twins.same({"create": name, **options}, DATABASE)
    twins.same({"insert": "plain", "documents": DOCUMENTS}, DATABASE)
    indexes = [{"key": {path: 1}, "name": path} for path in ("z", "a", "b.c")]
    twins.same({"createIndexes": "plain", "indexes": indexes}, DATABASE)
    return twins


def shape(value: Any) -> Any:
    """Names, order and types, without what only a storage engine has."""
    if isinstance(value, dict):
        shown = {name: shape(item) for name, item in value.items() if name != "wiredTiger"}
        return list((shown | {"indexDetails": {}} if "indexDetails" in shown else shown).items())
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize(
    "stage",
    [None, {"storageStats": {}}, {"count": {}}, {"latencyStats": {}}, {"storageStats": {"scale": 1024}}],
)
def test_figures_of_collections(filled: Twins, name: str, stage: Document | None) -> None:
    command: Document = {"aggregate": name, "pipeline": [{"$collStats": stage}], "cursor": {}}
    pair = filled.run({"collStats": name} if stage is None else command, DATABASE)
    assert (pair.ours["ok"], pair.ours.get("code")) == (pair.real["ok"], pair.real.get("code"))
    assert shape(pair.ours) == shape(pair.real)


@pytest.mark.parametrize("name", ["view", "whole", "nothing"])
def test_figures_of_indexes(filled: Twins, name: str) -> None:
    command = {"aggregate": name, "pipeline": [{"$indexStats": {}}, {"$sort": {"name": 1}}], "cursor": {}}
    pair = filled.run(command, DATABASE)
    assert (pair.ours["ok"], pair.ours.get("code")) == (pair.real["ok"], pair.real.get("code"))
    assert shape(pair.ours) == shape(pair.real)


@pytest.mark.parametrize("key", ["a", "b.c", "b", "a.0", "b.0.c", "_id", "z"])
def test_distinct_values_of_indexes(filled: Twins, key: str) -> None:
    filled.same({"distinct": "plain", "key": key}, DATABASE)
    for condition in (
        {"$gt": 0},
        {"$exists": True},
        {"$in": [1, 3, None]},
        {"$ne": 3},
        {"$nin": [1]},
        {"$nin": [None]},
        None,
    ):
        filled.same({"distinct": "plain", "key": key, "query": {key: condition}}, DATABASE)


def test_validate_and_compact(filled: Twins) -> None:
    filled.same({"validate": "plain"}, DATABASE)
    filled.same({"compact": "plain", "force": True}, DATABASE)
