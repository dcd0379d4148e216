"""`$sample`: a number of random documents, in random order."""

import random
from collections.abc import Mapping
from typing import Any

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.numbers.number_types import to_double
from tailrace.query.expressions.operands import is_number, type_name


def compile_sample(name: str, spec: Any, _scope: StageScope) -> Stage:
    """Holds no more documents than the sample size."""
    size = _checked_size(name, spec)

    def run(rows: Rows) -> Rows:
        chosen: list[Row] = []
        seen = 0
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            seen += 1
            if len(chosen) < size:
                chosen.append(row)
            elif (place := random.randrange(seen)) < size:
                # Every document so far has the same probability of being in the sample.
                chosen[place] = row
        random.shuffle(chosen)
        yield from paced(chosen)

    return run


def _checked_size(name: str, spec: Any) -> int:
    if not isinstance(spec, Mapping):
        raise CommandError(28745, f"the {name} stage specification must be an object, not {type_name(spec)}")
    for option, value in spec.items():
        if option != "size":
            raise CommandError(28748, f"unrecognized option to {name}: {option}")
        if not is_number(value):
            raise CommandError(28746, f"size argument to {name} must be a number, not {type_name(value)}")
    if "size" not in spec:
        raise CommandError(28749, f"{name} stage must specify a size")
    number = to_double(spec["size"])
    if not 0 <= number < 2**63:
        raise CommandError(28747, f"size argument to {name} must not be negative")
    return int(number)
