"""Functions of a document's position in its partition: ``$documentNumber $rank $denseRank $shift``."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.windows.function import (
    FunctionParser,
    WindowCall,
    WindowFunction,
    failed,
)
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.expressions.numbers.number_types import int32_or_int64, int32_value
from tailrace.query.expressions.scope import Constant
from tailrace.query.missing import MISSING


def _parse_rank(call: WindowCall) -> WindowFunction:
    call.refuse_window(5371601)
    if not isinstance(call.argument, Mapping) or call.argument:
        raise CommandError(5371603, f"{call.name} must be specified with '{{}}' as the value")
    call.require_order(5371602)
    if call.ordering is not None and len(call.ordering.paths) > 1:
        raise CommandError(5371602, f"{call.name} must be specified with a sortBy of exactly one field")
    return _RANKS[call.name]


def _document_numbers(partition: Partition) -> list[Any]:
    return [int32_or_int64(number) for number in range(1, len(partition) + 1)]


def _ranks(partition: Partition) -> list[Any]:
    ranks: list[Any] = []
    previous = None
    for position, key in enumerate(partition.sort_keys, start=1):
        ranks.append(ranks[-1] if key == previous else int32_or_int64(position))
        previous = key
    return ranks


def _dense_ranks(partition: Partition) -> list[Any]:
    ranks: list[Any] = []
    previous = None
    rank = 0
    for key in partition.sort_keys:
        if key != previous:
            rank += 1
        ranks.append(int32_or_int64(rank))
        previous = key
    return ranks


_RANKS: Final[Mapping[str, WindowFunction]] = {
    "$denseRank": _dense_ranks,
    "$documentNumber": _document_numbers,
    "$rank": _ranks,
}


def _parse_shift(call: WindowCall) -> WindowFunction:
    """The output of the document ``by`` positions later, or a default if there is none."""
    call.refuse_window()
    call.require_order()
    options = call.options(required=("by", "output"), optional=("default",))
    by = int32_value(options["by"])
    if by is None:
        raise failed(f"{call.name}: 'by' must be an integer, found {options['by']!r}")
    default = call.scope.parse(options.get("default"))
    if not isinstance(default, Constant):
        raise failed(f"{call.name}: 'default' must be a constant expression")
    otherwise = None if default.value is MISSING else default.value
    output = call.scope.parse(options["output"])

    def values(partition: Partition) -> list[Any]:
        outputs = partition.evaluate(output)
        results = []
        for position in range(len(outputs)):
            other = position + by
            value = outputs[other] if 0 <= other < len(outputs) else MISSING
            results.append(otherwise if value is MISSING else value)
        return results

    return values


FUNCTIONS: Final[Mapping[str, FunctionParser]] = {
    **dict.fromkeys(_RANKS, _parse_rank),
    "$shift": _parse_shift,
}
