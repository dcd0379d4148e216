"""Expressions beside the real server: every operator, with values of every type."""

import random
from typing import Any, Final

import pytest

from tests.oracle.comparison import Document
from tests.oracle.queries import expression_cases as cases
from tests.oracle.queries.compared import evaluation, require_equal
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Twins


def test_each_operator_with_each_value(twins: Twins) -> None:
    require_equal(twins, (evaluation(spec, {"v": value}) for spec, value in cases.of_one_value()))


@pytest.mark.parametrize("seed", SEEDS)
def test_each_operator_with_pairs_of_values(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    drawn = (case for case in cases.of_two_values() if rng.random() < 0.04)
    require_equal(twins, (evaluation(spec, {"v": one, "w": other}) for spec, one, other in drawn))


def test_dates_zones_units_and_formats(twins: Twins) -> None:
    require_equal(twins, (evaluation(spec, cases.DATED) for spec in cases.with_dates()))


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_and_conversions(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    drawn = (spec for spec in cases.with_texts() if rng.random() < 0.25)
    require_equal(twins, (evaluation(spec, cases.DATED) for spec in drawn))


def test_arrays_documents_and_variables(twins: Twins) -> None:
    require_equal(twins, (evaluation(spec, cases.NAMED) for spec in cases.with_arrays()))


_FAULT: Final[Document] = {"$add": [1, "x"]}
FAULTS: Final[list[Any]] = [
    *({name: {"field": "a", "input": _FAULT}} for name in ("$getField", "$unsetField")),
    {"$setField": {"field": "a", "input": _FAULT, "value": 1}},
    {"$setField": {"field": "a", "input": "$b", "value": _FAULT}},
    *({name: {"n": 1, "input": _FAULT}} for name in ("$maxN", "$minN", "$firstN", "$lastN")),
    {"$firstN": {"n": _FAULT, "input": "$a"}},
    {"$let": {"vars": {"v": _FAULT}, "in": 1}}, {"$let": {"vars": {"v": 1}, "in": _FAULT}},
    {"$map": {"input": ["$a"], "in": _FAULT}}, {"$filter": {"input": "$a", "cond": _FAULT}},
    {"$reduce": {"input": "$a", "initialValue": _FAULT, "in": 1}}, {"$cond": ["$a", _FAULT, 1]},
    {"$switch": {"branches": [{"case": "$a", "then": _FAULT}], "default": 1}}, {"$ifNull": ["$a", _FAULT]},
    {"$switch": {"branches": [{"case": False, "then": 1}]}}, {"$zip": {"inputs": ["$a", _FAULT]}},
    {"$sortArray": {"input": _FAULT, "sortBy": 1}}, {"$convert": {"input": _FAULT, "to": "int"}},
    {"$dateToString": {"date": _FAULT}}, {"$regexMatch": {"input": _FAULT, "regex": "x"}},
    {"$trim": {"input": _FAULT}}, {"a": _FAULT}, ["$a", _FAULT], {"$and": ["$a", _FAULT]},
    {"$mergeObjects": ["$a", _FAULT]}, {"$in": ["$a", [_FAULT]]}, {"$literal": _FAULT},
]  # fmt: skip
"""Constants that cannot be computed, as operands of operators that do or do not compute them early."""


def test_constants_without_documents(twins: Twins) -> None:
    twins.run({"create": "empty"})
    later = {"$replaceWith": {"a.b": 1}}  # its form is checked before constants are computed
    stages = [
        found
        for fault in FAULTS
        for found in (
            [{"$match": {"$expr": fault}}],
            [{"$project": {"x": fault}}],
            [{"$set": {"x": fault}}, later],
        )
    ]
    require_equal(twins, ({"aggregate": "empty", "pipeline": found, "cursor": {}} for found in stages))
