"""Parse specifications into expressions: literals, paths, objects, arrays, operators.

An *expression* is a function of an *environment*: the variables by name. ``ROOT`` is the input document,
``CURRENT`` is where field paths start; ``NOW`` and ``CLUSTER_TIME`` are the same for a whole run. It returns
a BSON value, or `MISSING` if a path does not exist. Expressions never change their input.

All errors in a specification are found while parsing. An operator's parser gets its name, its unparsed
argument, and the `ExpressionScope`, with which it parses nested expressions. An operator that depends on no
variable is computed once, while parsing, and its errors are raised then, after errors in the form of the
whole expression: MongoDB, too, refuses ``{$divide: [1, 0]}`` before it reads a document, even in a branch
that is never taken.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from tailrace.bson.compare import StringKey
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.pacing import steps_left, tick
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions.field_path import check_field_name, split_path, walk
from tailrace.query.missing import MISSING
from tailrace.query.placed import in_places

Environment = dict[str, Any]
Expression = Callable[[Environment], Any]

BUILTIN_VARIABLES: Final = frozenset(
    {"ROOT", "CURRENT", "NOW", "CLUSTER_TIME", "USER_ROLES", "JS_SCOPE", "IS_MR"}
)
REMOVE: Final = "REMOVE"
_SCRIPT: Final = "$function"
_COMPUTED_LATE: Final = frozenset({
    "$let", "$map", "$filter", "$reduce", "$sortArray", "$zip", "$getField", "$setField", "$unsetField",
    "$regexFind", "$regexFindAll", "$regexMatch", "$replaceOne", "$replaceAll", "$toHashedIndexKey",
    "$firstN", "$lastN", "$minN", "$maxN",
})  # fmt: skip
"""Operators that a server computes for each document, also on constants."""
_OPERANDS_UNTOUCHED: Final = frozenset({
    "$getField", "$setField", "$unsetField", "$maxN", "$minN", "$firstN", "$lastN", "$toHashedIndexKey",
})  # fmt: skip
"""Operators whose operands a server does not compute early, so that errors of constants in them come late"""


def unknown_expression(name: str, sentence: str = "Unrecognized expression '{}'") -> str:
    """The message for an operator that does not exist here."""
    return f"{name} is not supported: no JavaScript can be run" if name == _SCRIPT else sentence.format(name)


class ConstantError(CommandError):
    """An error of an operator on constants, which a server meets after it has parsed the whole pipeline."""


class Collating(Protocol):
    """What expressions need of a collation."""

    def string_key(self, text: str, /) -> Any:
        """The sort key of a text."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An expression whose value does not depend on the environment."""

    value: Any

    def __call__(self, _: Environment) -> Any:
        return self.value


class OperatorParser(Protocol):
    """Turns the argument of one operator into an expression."""

    def __call__(self, name: str, spec: Any, scope: "ExpressionScope", /) -> Expression:
        """Parse ``{name: spec}``; operators that differ little share a parser, which checks the name."""


@dataclass(slots=True)
class _Progress:
    """What is found while parsing, in a scope and all scopes inside it."""

    dependencies: int = 0
    """Number of dependencies on variables"""
    failure: ConstantError | None = None
    """The first error of an operator on constants"""


@dataclass(frozen=True, slots=True)
class ExpressionScope:
    """Parses specifications with these operators, variables and string order."""

    operators: Mapping[str, OperatorParser]
    variables: frozenset[str] = frozenset()
    string_key: StringKey = None
    dialect: Dialect = CURRENT_DIALECT
    _progress: _Progress = field(default_factory=_Progress)

    def define(self, *names: str) -> "ExpressionScope":
        """The scope inside an operator that binds variables."""
        return replace(self, variables=self.variables | set(names))

    def note_dependency(self) -> None:
        """Note that the expression being parsed can differ from one evaluation to the next."""
        self._progress.dependencies += 1

    def note_failure(self, code: int, message: str) -> None:
        """Note an error that constants show; errors of the form of other parts come before it."""
        self._progress.failure = self._progress.failure or ConstantError(code, message)

    def parse_all(self, spec: Any) -> Expression:
        """Parse a whole expression; errors of its constants are raised after those of its form."""
        expression = self.parse(spec)
        if self._progress.failure is not None:
            raise self._progress.failure
        return expression

    def parse(self, spec: Any) -> Expression:
        steps_left[0] -= 1
        if steps_left[0] < 0:
            tick()
        if is_string(spec):
            return self._parse_path(spec) if spec.startswith("$") else Constant(spec)
        if isinstance(spec, Mapping):
            if next(iter(spec), "").startswith("$"):
                return self._parse_operator(spec)
            return self.parse_object(spec)
        if isinstance(spec, list):
            return self.parse_array(spec)
        return Constant(spec)

    def parse_object(self, spec: Mapping[str, Any]) -> Expression:
        """Parse a document of expressions; its value leaves out fields that evaluate to `MISSING`."""
        for name in spec:
            check_field_name(name)
        fields = [(name, self.parse(value)) for name, value in spec.items()]
        if all(isinstance(value, Constant) for _, value in fields):
            return Constant(build_object(fields, {}))
        return lambda env: build_object(fields, env)

    def parse_array(self, spec: list[Any]) -> Expression:
        """Parse an array of expressions; its value has null for an element that evaluates to `MISSING`."""
        items = [self.parse(item) for item in spec]
        if all(isinstance(item, Constant) for item in items):
            return Constant(build_array(items, {}))
        return lambda env: build_array(items, env)

    def _parse_operator(self, spec: Mapping[str, Any]) -> Expression:
        if len(spec) != 1:
            names = ", ".join(spec)
            raise CommandError(15983, f"an expression object must have exactly one field, found: {names}")
        ((name, argument),) = spec.items()
        parser = self.operators.get(name)
        if parser is None:
            raise CommandError(ErrorCode.InvalidPipelineOperator, unknown_expression(name))
        before = self._progress.dependencies
        if name in _COMPUTED_LATE:
            self.note_dependency()
        failure = self._progress.failure
        expression = parser(name, argument, self)
        if name in _OPERANDS_UNTOUCHED:
            self._progress.failure = failure
        if self._progress.dependencies != before or self._progress.failure is not None:
            return expression
        try:
            return Constant(expression({}))
        except CommandError as error:
            self.note_failure(error.code, error.message)
            return expression

    def _parse_path(self, path: str) -> Expression:
        if path == "$":
            raise CommandError(16872, "'$' by itself is not a valid FieldPath")
        if not path.startswith("$$"):
            return self._variable_path("CURRENT", split_path(path[1:]))
        variable, dot, rest = path[2:].partition(".")
        check_variable_read(variable)
        if dot and not rest:
            raise CommandError(40353, f"FieldPath must not end with a '.': '{path}'")
        components = split_path(rest) if dot else ()
        if variable == REMOVE:
            return Constant(MISSING)
        if variable not in self.variables and variable not in BUILTIN_VARIABLES:
            raise CommandError(17276, f"Use of undefined variable: {variable}")
        return self._variable_path(variable, components)

    def _variable_path(self, variable: str, components: tuple[str, ...]) -> Expression:
        self.note_dependency()
        if not components:
            return lambda env: lookup(env, variable)
        if len(components) > 1:
            return lambda env: walk(lookup(env, variable), components)
        (name,) = components

        def one_field(env: Environment) -> Any:
            value = lookup(env, variable)
            return value.get(name, MISSING) if isinstance(value, dict) else walk(value, components)

        return one_field


def lookup(env: Environment, variable: str) -> Any:
    """The value of a variable; a builtin variable without a value in this run raises an error."""
    try:
        return env[variable]
    except KeyError:
        raise CommandError(51144, f"Builtin variable '$${variable}' is not available") from None


def build_object(fields: Iterable[tuple[str, Expression]], env: Environment) -> dict[str, Any]:
    """The document of all fields that do not evaluate to `MISSING`; these have a place."""
    result = {name: expression(env) for name, expression in fields}
    if not any(value is MISSING for value in result.values()):
        return result
    return in_places({name: value for name, value in result.items() if value is not MISSING}, list(result))


def build_array(items: Iterable[Expression], env: Environment) -> list[Any]:
    """The array of all items, null for those that evaluate to `MISSING`."""
    return [None if value is MISSING else value for value in (item(env) for item in items)]


def check_variable_read(name: str) -> None:
    """Refuse a name that no variable can have."""
    _check_variable(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def check_variable_write(name: str) -> None:
    """Refuse a name that an operator may not bind: one with a capital initial, except CURRENT."""
    if name != "CURRENT":
        _check_variable(name, "abcdefghijklmnopqrstuvwxyz")


def _check_variable(name: str, initials: str) -> None:
    if not name:
        raise CommandError(ErrorCode.FailedToParse, "empty variable names are not allowed")
    if name[0] <= "\x7f" and name[0] not in initials:
        raise CommandError(
            ErrorCode.FailedToParse, f"'{name}' starts with an invalid character for a variable name"
        )
    for char in name:
        if char <= "\x7f" and not (char.isalnum() or char == "_"):
            raise CommandError(
                ErrorCode.FailedToParse,
                f"'{name}' contains an invalid character for a variable name: '{char}'",
            )
