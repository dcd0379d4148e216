"""Single updates and deletes, which update, delete, findAndModify and bulkWrite share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update import check_stages
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.kinds import is_given


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    query: Mapping[str, Any]
    update: Any
    multi: bool = False
    upsert: bool = False
    array_filters: Sequence[Any] = ()
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None
    constants: Mapping[str, Any] | None = None
    """`c`: variables for this statement's pipeline."""
    supplies_document: bool = False
    """`upsertSupplied`: the document to insert is the constant `new`."""


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    query: Mapping[str, Any]
    multi: bool = False
    collation: Mapping[str, Any] | None = None
    hint: Any = None
    sort: Mapping[str, Any] | None = None


def checked_change(update: Any) -> Any:
    """The update of a statement; its shape is checked with the command, its contents with the statement."""
    if isinstance(update, list):
        check_stages(update)
    elif not isinstance(update, Mapping):
        reason = "Update argument must be either an object or an array"
        raise CommandError(ErrorCode.FailedToParse, reason)
    return update


def read_array_filters(arguments: Arguments) -> list[Any] | None:
    """Read `arrayFilters`."""
    filters = arguments.array("arrayFilters", None)
    if filters is not None:
        filters = [condition for condition in filters if is_given(condition)]
    for number, condition in enumerate(filters or ()):
        if not isinstance(condition, Mapping):
            raise arguments.wrong_type(f"arrayFilters.{number}", condition, "object")
    return filters


def read_hint(arguments: Arguments) -> Any:
    """Read `hint`: the name of an index, or its key pattern; an empty document is none."""
    hint = arguments.value("hint", None)
    if hint is not None and not (is_string(hint) or isinstance(hint, Mapping)):
        raise CommandError(ErrorCode.FailedToParse, "Hint must be a string or an object")
    return None if hint == {} else hint


def read_update(arguments: Arguments, *, query: str, update: str, constants: str) -> UpdateSpec:
    """Read an update statement; the parameters are names of fields, which differ between commands."""
    arguments.ignore("sampleId", "allowShardKeyUpdatesWithoutFullShardKeyInQuery")
    return UpdateSpec(
        query=arguments.document(query),
        update=checked_change(arguments.value(update)),
        multi=arguments.boolean("multi", False),
        upsert=arguments.boolean("upsert", False),
        array_filters=read_array_filters(arguments) or (),
        collation=arguments.collation(),
        hint=read_hint(arguments),
        sort=arguments.document("sort", None),
        constants=arguments.document(constants, None),
        supplies_document=arguments.boolean("upsertSupplied", False),
    )
