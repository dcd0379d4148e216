"""`$count`: one document with the number of documents; none if there are no documents."""

from typing import Any

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions.numbers.number_types import int32_or_int64
from tailrace.query.expressions.operands import type_name


def compile_count(_name: str, spec: Any, _scope: StageScope) -> Stage:
    """The specification is the name of the field for the number."""
    field = _checked_field(spec)

    def run(rows: Rows) -> Rows:
        count = 0
        for row in rows:
            if row is PAUSE:
                yield row
            else:
                count += 1
        if count:
            yield Row({field: int32_or_int64(count)})

    return run


def _checked_field(spec: Any) -> str:
    if not is_string(spec):
        raise CommandError(40156, f"the count field must be a non-empty string, not {type_name(spec)}")
    if not spec:
        raise CommandError(40157, "the count field must be a non-empty string")
    if spec.startswith("$"):
        raise CommandError(40158, "the count field cannot be a $-prefixed path")
    if "\0" in spec:
        raise CommandError(40159, "the count field cannot contain a null byte")
    if "." in spec:
        raise CommandError(40160, "the count field cannot contain '.'")
    if spec == "_id":
        raise CommandError(9039800, "the count field cannot be '_id'")
    return spec
