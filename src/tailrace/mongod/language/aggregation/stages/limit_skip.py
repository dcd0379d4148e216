"""`$limit` and `$skip`."""

from typing import Any

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import PAUSE, Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import is_number, type_name


def compile_limit(name: str, spec: Any, _scope: StageScope) -> Stage:
    """The first documents; nothing is read after the last of them."""
    limit = checked_limit(name, spec)

    def run(rows: Rows) -> Rows:
        remaining = limit
        for row in rows:
            yield row
            if row is not PAUSE:
                remaining -= 1
                if not remaining:
                    return

    return run


def compile_skip(name: str, spec: Any, _scope: StageScope) -> Stage:
    """All but the first documents."""
    skip = checked_skip(name, spec)

    def run(rows: Rows) -> Rows:
        remaining = skip
        for row in rows:
            if row is not PAUSE and remaining:
                remaining -= 1
            else:
                yield row

    return run


def checked_limit(name: str, spec: Any) -> int:
    limit = _non_negative(name, spec, 5107201)
    if not limit:
        raise CommandError(15958, "the limit must be positive")
    return limit


def checked_skip(name: str, spec: Any) -> int:
    return _non_negative(name, spec, 5107200)


def _non_negative(name: str, spec: Any, code: int) -> int:
    if not is_number(spec):
        raise CommandError(
            code,
            f"invalid argument to {name} stage: Expected a number, found a value of type {type_name(spec)}",
        )
    number = integral_value(spec)
    if number is None or not fits_int64(number):
        raise CommandError(code, f"invalid argument to {name} stage: Expected an integer, found: {spec}")
    if number < 0:
        raise CommandError(
            code, f"invalid argument to {name} stage: Expected a non-negative number, found: {number}"
        )
    return number
