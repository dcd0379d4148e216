"""``$regex`` with ``$options``.

A regex searches strings and symbols; a field whose value is a regex matches if it is equal. Collations have
no effect. See `tailrace.query.pcre` for the syntax.
"""

from bson import Regex

from tailrace.bson.regex_parts import regex_options, regex_pattern
from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.match.nodes import Condition, ValueCondition
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value
from tailrace.query.match.value_tests import pattern_test


def parse_regex(call: OperatorCall, _scope: FilterScope) -> Condition:
    """``$regex``, with the ``$options`` beside it."""
    siblings = call.siblings
    options = siblings.get("$options", "")
    if not is_string(options):
        raise bad_value("$options has to be a string")
    regex = call.argument
    if isinstance(regex, Regex):
        own_options = regex_options(regex)
        if own_options and "$options" in siblings:
            names = list(siblings)
            code = 51075 if names.index("$regex") < names.index("$options") else 51074
            raise CommandError(code, "options set in both $regex and $options")
        pattern, options = regex_pattern(regex), own_options or options
    elif is_string(regex):
        pattern = regex
    else:
        raise bad_value("$regex has to be a string")
    if "\0" in pattern:
        raise bad_value("Regular expression cannot contain an embedded null byte")
    return ValueCondition(pattern_test(pattern, options))


def parse_options(call: OperatorCall, _scope: FilterScope) -> None:
    """``$options``: read by ``$regex``, which must be beside it."""
    if "$regex" not in call.siblings:
        raise bad_value("$options needs a $regex")
