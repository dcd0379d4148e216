"""Accumulators: functions over many documents for `$group` and similar stages."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators import (
    choosing,
    collecting,
    numeric,
    quantiles,
    ranking,
)
from tailrace.mongod.language.aggregation.accumulators.accumulator import (
    Accumulator,
    AccumulatorParser,
    State,
)
from tailrace.mongod.language.aggregation.scope import StageScope

__all__ = ["ACCUMULATORS", "Accumulator", "State", "parse_accumulated_field", "parse_accumulator"]

ACCUMULATORS: Final[Mapping[str, AccumulatorParser]] = {
    **choosing.ACCUMULATORS,
    **collecting.ACCUMULATORS,
    **numeric.ACCUMULATORS,
    **quantiles.ACCUMULATORS,
    **ranking.ACCUMULATORS,
}
_JAVASCRIPT: Final = "$accumulator"


def parse_accumulated_field(field: str, spec: Any, scope: StageScope) -> Accumulator:
    """The accumulator of a field of `$group`: ``{<name>: <argument>}``."""
    if "." in field:
        raise CommandError(40235, f"The field name '{field}' cannot contain '.'")
    if field.startswith("$"):
        raise CommandError(40236, f"The field name '{field}' cannot be an operator name")
    if not isinstance(spec, Mapping) or not spec:
        raise CommandError(40234, f"The field '{field}' must be an accumulator object")
    if len(spec) != 1:
        raise CommandError(40238, f"The field '{field}' must specify one accumulator")
    ((name, argument),) = spec.items()
    return parse_accumulator(name, argument, scope)


def parse_accumulator(name: str, spec: Any, scope: StageScope) -> Accumulator:
    """Compile an accumulator by its name."""
    if name == _JAVASCRIPT:
        raise CommandError(
            ErrorCode.CommandNotSupported, f"{name} is not supported: no JavaScript can be run"
        )
    if isinstance(spec, list):
        raise CommandError(40237, f"The {name} accumulator is a unary operator")
    parser = ACCUMULATORS.get(name)
    if parser is None:
        raise CommandError(15952, f"unknown group operator '{name}'")
    return parser(name, spec, scope)
