"""Updates made of operators: ``{$set: {...}, $inc: {...}}``."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from tailrace.bson.compare import type_name
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update import array_add, array_remove, fields, numeric
from tailrace.mongod.language.update.array_filters import (
    ArrayFilter,
    check_all_used,
    used_identifiers,
)
from tailrace.mongod.language.update.document_checks import check_dollar_names, check_id
from tailrace.mongod.language.update.execute import Execution
from tailrace.mongod.language.update.operator import CompileOptions, Operator, UpdateContext, UpdateResult
from tailrace.mongod.language.update.path import parse_path
from tailrace.mongod.language.update.rename import compile_rename
from tailrace.mongod.language.update.tree import Branch, Leaf, add, sorted_children

Compiler: TypeAlias = Callable[[str, Any, CompileOptions], Operator]
"""From an operator's path and argument to the operator; raises for a wrong argument."""

_COMPILERS: Final[dict[str, Compiler]] = {
    "$addToSet": array_add.compile_add_to_set,
    "$bit": numeric.compile_bit,
    "$currentDate": fields.compile_current_date,
    "$inc": numeric.compile_inc,
    "$max": numeric.compile_max,
    "$min": numeric.compile_min,
    "$mul": numeric.compile_mul,
    "$pop": array_remove.compile_pop,
    "$pull": array_remove.compile_pull,
    "$pullAll": array_remove.compile_pull_all,
    "$push": array_add.compile_push,
    "$set": fields.compile_set,
    "$setOnInsert": fields.compile_set_on_insert,
    "$unset": fields.compile_unset,
}
_RENAME: Final = "$rename"


class ModifierUpdate:
    """A compiled update with operators."""

    def __init__(
        self, spec: Mapping[str, Any], filters: Mapping[str, ArrayFilter], options: CompileOptions
    ) -> None:
        self._filters = filters
        root = Branch()
        unused = set(self._filters)
        # One by one: of several faults the first in the update is reported.
        for path, operator in _compiled_operators(spec, options):
            components = parse_path(path)
            unused -= used_identifiers(components, self._filters)
            add(root, components, operator)
        check_all_used(unused)
        self._root = Branch(sorted_children(root))
        self._dollar_names = [name for name in root.children if name.startswith("$")]

    def apply(self, context: UpdateContext) -> UpdateResult:
        """The document after the update, and the diff to log."""
        execution = Execution(self._filters, context)
        document = execution.run(self._root)
        diff = execution.log.to_diff()
        if diff is None:
            return UpdateResult(context.original, None, is_replacement=False, modified=False)
        check_id(context.original, document)
        if not context.is_upsert_insert:
            check_dollar_names(document, self._written_dollar_names(context.original, document))
        return UpdateResult(document, diff, is_replacement=False, modified=True)

    def _written_dollar_names(self, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        """The top-level fields with such names that were set as a whole, or created."""
        return [
            name
            for name in self._dollar_names
            if name in after
            and (name not in before or isinstance(self._root.children[name], Leaf))
            and after[name] is not before.get(name)
        ]


def _compiled_operators(spec: Mapping[str, Any], options: CompileOptions) -> Iterator[tuple[str, Operator]]:
    for name, arguments in spec.items():
        compiler = _COMPILERS.get(name)
        if compiler is None and name != _RENAME:
            message = f"Unknown modifier: {name}. Expected a valid update modifier or "
            message += "pipeline-style update specified as an array"
            raise CommandError(ErrorCode.FailedToParse, message)
        if not isinstance(arguments, Mapping):
            message = f"Modifiers operate on fields but we found type {type_name(arguments)} instead. "
            message += f"For example: {{$mod: {{<field>: ...}}}} not {{{name}: {shell(arguments)}}}"
            raise CommandError(ErrorCode.FailedToParse, message)
        for path, value in arguments.items():
            if compiler is None:
                yield from compile_rename(path, value)
            else:
                yield path, compiler(path, value, options)
