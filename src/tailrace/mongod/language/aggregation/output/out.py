"""Parse `$out`."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.language.aggregation.output import OutTarget
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.specification import (
    checked_collection,
    checked_fields,
    checked_object,
    checked_text,
)
from tailrace.query.expressions.operands import type_name


def check_out(name: str, spec: Any, _context: PipelineContext) -> None:
    if is_string(spec):
        checked_collection("", spec)
    elif not isinstance(spec, Mapping):
        raise CommandError(
            16990, f"{name} only supports a string or object argument, but found {type_name(spec)}"
        )
    elif "db" not in spec or "coll" not in spec:
        raise CommandError(16994, f"If an object is passed to {name} it must have the fields 'db' and 'coll'")
    else:
        for field in ("db", "coll"):
            if not is_string(spec[field]):
                raise CommandError(
                    13111, f"wrong type for field ({field}) {type_name(spec[field])} != string"
                )


def parse_out(name: str, spec: Any, scope: StageScope) -> OutTarget:
    """The target: a collection of the same database by name, or a document with both names."""
    if is_string(spec):
        return _checked(name, OutTarget(scope.context.database, spec))
    fields = checked_fields(name, spec, required=("db", "coll"), optional=("timeseries",))
    database = checked_text(f"{name}.db", fields["db"])
    collection = checked_text(f"{name}.coll", fields["coll"])
    options = fields.get("timeseries")
    if options is not None:
        options = checked_object(f"{name}.timeseries", options)
    return _checked(name, OutTarget(database, collection, options))


def _checked(name: str, target: OutTarget) -> OutTarget:
    checked_collection(target.database, target.collection)
    if target.collection.startswith("system."):
        raise CommandError(17385, f"Can't {name} to special collection: {target.collection}")
    if target.database in INTERNAL_DATABASES:
        raise CommandError(31321, f"Can't {name} to internal database: {target.database}")
    return target
