"""`$lookup`: add the matching documents of another collection to each document, as an array.

They are found by equality of two fields, by a pipeline that can use this document through the variables of
``let``, or by both.
"""

from collections.abc import Mapping
from typing import Any, Final

from bson import Regex

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.joins.foreign import (
    EqualityJoin,
    ForeignCollection,
    is_through_array,
    values_at,
)
from tailrace.mongod.language.aggregation.nested_fields import set_nested
from tailrace.mongod.language.aggregation.pipeline import Pipeline
from tailrace.mongod.language.aggregation.rows import PAUSE, Document, Row, Rows
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.specification import checked_collection
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.query.expressions import Expression
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.operands import type_name
from tailrace.query.expressions.scope import check_variable_write
from tailrace.query.match.scope import is_operator_document

_TEXTS: Final = ("from", "localField", "foreignField", "as")
_OPTIONS: Final = (*_TEXTS, "let", "pipeline")
# Pipelines with these have other results on every run.
_UNREPEATABLE: Final = frozenset({"$rand", "$sample", "$sampleRate"})


def check_lookup(name: str, spec: Any, _context: PipelineContext) -> None:
    if not isinstance(spec, Mapping):
        raise _failed(f"the {name} stage specification must be an object, but found {type_name(spec)}")
    if "from" not in spec and not _brings_documents(spec.get("pipeline")):
        raise _failed(f"must specify 'from' field for a {name}")
    for option in ("from", "pipeline"):
        if option in spec:
            _check_type(name, option, spec[option])


def compile_lookup(name: str, spec: Any, scope: StageScope) -> Stage:
    _check(name, spec)
    return _Lookup(name, spec, scope).run


class _Lookup:
    def __init__(self, name: str, spec: Mapping[str, Any], scope: StageScope) -> None:
        self._as = split_path(spec["as"])
        self._scope = scope
        self._let = _parse_let(name, spec.get("let", {}), scope)
        self._variables: dict[str, Any] = {**scope.variables, **dict.fromkeys(self._let)}
        collection = self._from = spec.get("from")
        self._limit = scope.memory.limits.lookup
        self._collection = None if collection is None else ForeignCollection(scope, collection)
        self._pipeline: Pipeline | None = None
        if "pipeline" in spec:
            stages = spec["pipeline"]
            self._pipeline = scope.subpipeline(name, stages, collection=collection, variables=self._variables)
        self._join: EqualityJoin | None = None
        if "localField" in spec:
            assert self._collection is not None, "checked before"
            self._local = split_path(spec["localField"])
            split_path(spec["foreignField"])
            self._join = EqualityJoin(self._collection, spec["foreignField"], scope)
        depends_on_document = self._join is not None or self._let or scope.context.depth
        self._is_constant = not depends_on_document and not _mentions(spec.get("pipeline"), _UNREPEATABLE)
        self._constant: list[Document] | None = None

    def run(self, rows: Rows) -> Rows:
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            found: list[Document] = []
            size = 0
            if self._constant is not None:
                found = self._constant
            else:
                for other in self._matching(row.document):
                    if other is PAUSE:
                        yield other
                        continue
                    size += len(other.stored)
                    if size > self._limit:
                        raise self._too_much()
                    found.append(other.document)
                if self._is_constant:
                    self._constant = found
            yield Row(set_nested(row.document, self._as, found))

    def _too_much(self) -> CommandError:
        reason = (
            f"Total size of documents in {self._from} matching pipeline's $lookup stage exceeds "
            f"{self._limit} bytes"
        )
        return CommandError(4568, reason)

    def _matching(self, document: Document) -> Rows:
        rows: Rows = iter(())
        if self._join is not None:
            values = values_at(document, self._local)
            if len(values) > 1 and is_through_array(document, self._local):
                _check_list(values)
            rows = self._join.rows(values or [None])
        elif self._collection is not None and (self._pipeline is None or self._pipeline.reads_collection):
            rows = self._collection.rows()
        if self._pipeline is None:
            return rows
        env = self._scope.environment(document)
        # The variables of outer pipelines may have changed as well since the last document.
        self._variables.update(self._scope.variables)
        self._variables.update({variable: value(env) for variable, value in self._let.items()})
        return self._pipeline.rows(rows)


def _check_list(values: list[Any]) -> None:
    """Refuse what cannot be in the list of `$in`, as which a server looks for the values of an array.

    With a regular expression among them, it compares them one by one.
    """
    if not any(isinstance(value, Regex) for value in values) and any(map(is_operator_document, values)):
        raise CommandError(ErrorCode.BadValue, "cannot nest $ under $in")


def _mentions(spec: Any, names: frozenset[str]) -> bool:
    if isinstance(spec, Mapping):
        return any(key in names or _mentions(value, names) for key, value in spec.items())
    return isinstance(spec, list) and any(_mentions(item, names) for item in spec)


def _parse_let(name: str, spec: Mapping[str, Any], scope: StageScope) -> dict[str, Expression]:
    for variable in spec:
        try:
            check_variable_write(variable)
        except CommandError as error:
            raise CommandError(error.code, f"{name}: {error.message}") from None
    return {variable: scope.parse(value) for variable, value in spec.items()}


def _check(name: str, spec: Mapping[str, Any]) -> None:
    for option, value in spec.items():
        if option not in _OPTIONS:
            raise _failed(f"unknown argument to {name}: {option}")
        _check_type(name, option, value)
    pipeline = spec.get("pipeline")
    if not spec.get("as"):
        raise _failed(f"must specify 'as' field for a {name}")
    if "from" in spec:
        checked_collection("", spec["from"])
    if "" in (spec.get("localField"), spec.get("foreignField")) and pipeline is None:
        raise _failed(f"{name} requires either 'pipeline' or both 'localField' and 'foreignField'")
    if ("localField" in spec) != ("foreignField" in spec):
        raise _failed(f"{name} requires both or neither of 'localField' and 'foreignField' to be specified")
    if pipeline is None and "localField" not in spec:
        raise _failed(
            f"{name} requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
        )
    if "let" in spec and pipeline is None:
        raise _failed(f"{name} with a 'let' argument must also specify 'pipeline'")
    if "localField" in spec and "from" not in spec:
        raise _failed(f"{name} with 'localField' and 'foreignField' must also specify 'from'")


def _check_type(name: str, option: str, value: Any) -> None:
    if option == "pipeline":
        if not isinstance(value, list):
            raise CommandError(ErrorCode.TypeMismatch, "'pipeline' option must be specified as an array")
    elif option == "let":
        if not isinstance(value, Mapping):
            raise _failed(f"{name} argument 'let' must be an object, is type {type_name(value)}")
    elif option == "from" and isinstance(value, Mapping):
        raise _failed(f"{name} from a collection of another database is not supported")
    elif not is_string(value):
        raise _failed(f"{name} argument '{option}' must be a string, is type {type_name(value)}")


def _brings_documents(pipeline: Any) -> bool:
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
    return isinstance(first, Mapping) and "$documents" in first


def _failed(message: str) -> CommandError:
    return CommandError(ErrorCode.FailedToParse, message)
