"""How wrong arguments are refused: every command, every field, every type, beside the real server.

`make test` draws a sample of the cases; `make oracle` runs all with one fault, and many with several.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from tests.oracle.arguments.cases import Case, Comparison, javascript_cases, several_faults, single_cases
from tests.oracle.comparison import Difference
from tests.oracle.seeds import SEEDS, some
from tests.oracle.twins import Twins

EQUAL_SHARE: Final = 0.985
SAMPLE: Final = 500
SEVERAL: Final = 200
SEVERAL_SHARE: Final = 0.97
"""Of several faults the server may find another one first."""
_BY_INTENT: Final = ("explain",)
"""The explanation of a stream shows our stages (docs/server.md)."""


@pytest.fixture
def comparison(own_twins: Twins) -> Comparison:
    return Comparison(own_twins)


def check(comparison: Comparison, cases: Sequence[Case], seed: int, share: float = EQUAL_SHARE) -> None:
    """Require that nearly all cases are equal, and all about change streams."""
    different: list[tuple[Case, list[Difference]]] = []
    for case in cases:
        found = comparison.of(case)[1]
        if found:
            different.append((case, found))
    commands = Counter(case.sample.name for case, _ in different)
    summary = f"seed {seed}: {len(cases)} compared, {len(different)} different {dict(commands)}\n"
    details = "\n".join(f"{str(case)[:300]}\n    {found[0]}"[:700] for case, found in different[:60])
    if share == EQUAL_SHARE:
        streams = [case for case, _ in different if case.sample.is_stream and case.path != _BY_INTENT]
        assert not streams, summary + details
    assert len(different) <= (1 - share) * len(cases), summary + details


@pytest.mark.timeout(3600)
def test_one_fault(comparison: Comparison) -> None:
    seed = SEEDS[0]
    check(comparison, some(single_cases(seed), SAMPLE), seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.timeout(600)
def test_several_faults(comparison: Comparison, seed: int) -> None:
    check(comparison, list(several_faults(seed, SEVERAL)), seed, share=SEVERAL_SHARE)


@pytest.mark.timeout(600)
def test_javascript_in_place_of_text(comparison: Comparison) -> None:
    different = [
        f"{case}\n    {difference}"
        for case in javascript_cases()
        for difference in comparison.of(case)[1]
        if difference.kind in ("outcome", "code")
    ]
    assert not different, "\n".join(different)
