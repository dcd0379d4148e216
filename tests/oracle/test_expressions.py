"""Expressions beside the real server: every operator, with values of every type."""

import random

import pytest

from tests.oracle.queries import expression_cases as cases
from tests.oracle.queries.compared import evaluation, require_equal
from tests.oracle.seeds import SEEDS, some
from tests.oracle.twins import Twins


def test_each_operator_with_each_value(twins: Twins) -> None:
    require_equal(twins, (evaluation(spec, {"v": value}) for spec, value in some(cases.of_one_value(), 2000)))


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
