"""`$sample`: a number of random documents, in random order."""

import random
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, TypeAlias

from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import ROW_OVERHEAD
from tailrace.mongod.language.aggregation.memory.runs import Keyed
from tailrace.mongod.language.aggregation.memory.sorter import Codec, Sorter
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows, pack, unpack
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.sort import refused
from tailrace.query.expressions.numbers.number_types import to_double
from tailrace.query.expressions.operands import is_number, type_name

_KEY: Final = Struct("<d")


def compile_sample(name: str, spec: Any, scope: StageScope) -> Stage:
    """The first documents in the order of random keys; not many more are held."""
    size = _checked_size(name, spec)
    memory = scope.memory

    def run(rows: Rows) -> Rows:
        limit = memory.limits.sort
        sorter = Sorter(memory, limit, _CODEC, lambda: refused(limit), most=size)
        try:
            for row in rows:
                if row is PAUSE:
                    yield row
                    continue
                key = random.random()
                if size and sorter.add(key, (key, row)):
                    yield from sorter.spill()
            for drawn in sorter.items():
                yield drawn if drawn is PAUSE else drawn[1]
        finally:
            sorter.close()

    return run


_Drawn: TypeAlias = tuple[float, Row]


def _unpacked(record: bytes) -> Keyed[_Drawn]:
    key = _KEY.unpack_from(record)[0]
    return key, (key, unpack(record[_KEY.size :]))


_CODEC: Final[Codec[_Drawn]] = Codec(
    lambda drawn: len(drawn[1].stored) + ROW_OVERHEAD,
    lambda drawn: _KEY.pack(drawn[0]) + pack(drawn[1]),
    _unpacked,
)


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
