"""Compile a client's update.

An array is a pipeline. A document is a set of operators if its first field starts with ``$``, else a
replacement; the empty document is a replacement too.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from bson import DatetimeMS, Timestamp

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.array_filters import compile_array_filters
from tailrace.mongod.language.update.modifiers import ModifierUpdate
from tailrace.mongod.language.update.operator import CompileOptions, UpdateContext, UpdateResult
from tailrace.mongod.language.update.pipeline import PipelineUpdate
from tailrace.mongod.language.update.replacement import ReplacementUpdate


class _CompiledUpdate(Protocol):
    def apply(self, context: UpdateContext) -> UpdateResult: ...


class Update:
    """A compiled update; `apply` may be called for any number of documents."""

    def __init__(self, compiled: _CompiledUpdate) -> None:
        self._compiled = compiled

    @property
    def is_replacement(self) -> bool:
        """Whether the update is a replacement document, which cannot apply to many documents."""
        return isinstance(self._compiled, ReplacementUpdate)

    def apply(
        self,
        document: dict[str, Any],
        *,
        array_position: int | None = None,
        is_upsert_insert: bool = False,
        now: DatetimeMS,
        cluster_time: Timestamp,
    ) -> UpdateResult:
        """Apply to one document, which is not changed.

        ``array_position`` is the index for the positional ``$``, from the query. With ``is_upsert_insert``
        the document is the one made from an upsert's query.
        """
        context = UpdateContext(document, now, cluster_time, is_upsert_insert, array_position)
        return self._compiled.apply(context)


def compile_update(
    spec: Any,
    *,
    array_filters: Iterable[Any] = (),
    variables: Mapping[str, Any] | None = None,
    collation: Any = None,
) -> Update:
    """Compile an update; raises for every fault that does not depend on a document.

    >>> update = compile_update({"$inc": {"n": 2}, "$unset": {"old": ""}})
    >>> result = update.apply({"_id": 1, "n": 1, "old": 0}, now=DatetimeMS(0), cluster_time=Timestamp(1, 1))
    >>> result.document, result.diff
    ({'_id': 1, 'n': 3}, {'d': {'old': False}, 'u': {'n': 3}})
    """
    string_key = None if collation is None else collation.string_key
    options = CompileOptions(string_key, collation, variables)
    filters = compile_array_filters(array_filters, options)
    if isinstance(spec, list):
        if filters:
            raise CommandError(
                ErrorCode.FailedToParse, "arrayFilters may not be specified for pipeline-style updates"
            )
        return Update(PipelineUpdate(spec, options))
    if not isinstance(spec, Mapping):
        message = f"an update must be an object or an array, not {type_name(spec)}"
        raise CommandError(ErrorCode.FailedToParse, message)
    if next(iter(spec), "").startswith("$"):
        return Update(ModifierUpdate(spec, filters, options))
    return Update(ReplacementUpdate(spec))
