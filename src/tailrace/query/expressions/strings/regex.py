"""`$regexFind`, `$regexFindAll` and `$regexMatch`. Positions are counted in code points."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from bson import Regex

from tailrace.bson.regex_parts import regex_options, regex_pattern
from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.pacing import spend
from tailrace.query.expressions.arguments import named_expressions
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)
from tailrace.query.pcre import INVALID_PATTERN, compile_pattern
from tailrace.query.pcre.limits import SearchPattern
from tailrace.unused import freed_in_pieces

_INVALID_IN_EXPRESSION: Final = 51111


def _regex(outcome: Callable[[Iterator[re.Match[str]]], Any]) -> OperatorParser:
    def parse(name: str, spec: Any, scope: ExpressionScope) -> Expression:
        named = named_expressions(
            name,
            spec,
            scope,
            required={"input": 31022, "regex": 31023},
            optional=("options",),
            not_object=51103,
            unknown=31024,
        )
        # The text is checked only when there is a document.
        scope.note_dependency()
        source, regex, options = named["input"], named["regex"], named.get("options", Constant(None))
        if isinstance(regex, Constant) and isinstance(options, Constant):
            _compiled(name, regex.value, options.value)

        def apply(env: Environment) -> Any:
            text = source(env)
            pattern = _compiled(name, regex(env), options(env))
            if not is_nullish(text) and not is_string(text):
                raise CommandError(
                    51104, f"{name} needs 'input' to be of type string, found: {type_name(text)}"
                )
            if is_nullish(text) or pattern is None:
                return outcome(iter(()))
            return outcome(_matches(pattern, text))

        return apply

    return parse


def _compiled(name: str, regex: Any, options: Any) -> SearchPattern | None:
    """The pattern with the options of the regex or of the operator; None if the pattern is null."""
    if not is_nullish(regex) and not isinstance(regex, Regex) and not is_string(regex):
        raise CommandError(
            51105, f"{name} needs 'regex' to be of type string or regex, found: {type_name(regex)}"
        )
    if not is_nullish(options) and not is_string(options):
        raise CommandError(51106, f"{name} needs 'options' to be of type string, found: {type_name(options)}")
    letters = "" if is_nullish(options) else options
    if "\0" in letters:
        raise CommandError(51110, f"{name}: regex options cannot have an embedded null byte")
    if is_nullish(regex):
        compile_pattern("", letters)
        return None
    if isinstance(regex, Regex):
        own = regex_options(regex)
        if own and not is_nullish(options):
            raise CommandError(
                51107, f"{name} found regex option(s) specified in both 'regex' and 'options' fields"
            )
        text, letters = regex_pattern(regex), own or letters
    else:
        text = regex
        if "\0" in text:
            raise CommandError(51109, f"{name}: regular expression cannot have an embedded null byte")
    try:
        return compile_pattern(text, letters)
    except CommandError as error:
        if error.code != INVALID_PATTERN:
            raise
        raise CommandError(_INVALID_IN_EXPRESSION, f"Invalid Regex in {name}: {error.message}") from None


def _matches(pattern: SearchPattern, text: str) -> Iterator[re.Match[str]]:
    """All non-overlapping matches; after an empty one the search continues one character later."""
    position = 0
    while match := pattern.search(text, position):
        spend(1)
        yield match
        position = match.end() + (match.start() == match.end())
        if position >= len(text):
            break


def _described(match: re.Match[str]) -> dict[str, Any]:
    return {"match": match.group(), "idx": match.start(), "captures": list(match.groups())}


def _first(matches: Iterator[re.Match[str]]) -> dict[str, Any] | None:
    match = next(matches, None)
    return None if match is None else _described(match)


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$regexFind": _regex(_first),
    "$regexFindAll": _regex(lambda matches: freed_in_pieces([_described(match) for match in matches])),
    "$regexMatch": _regex(lambda matches: next(matches, None) is not None),
}
