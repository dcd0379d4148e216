"""Operators that MongoDB has and a change stream's ``$match`` has not: refused when a filter is compiled.

Text and proximity search need an index and are refused by MongoDB in this place too, with the same codes;
``$where`` runs JavaScript, which MongoDB refuses in an aggregation. The other geospatial operators are
refused by Tailrace alone.
"""

from typing import Final, NoReturn

from tailrace.errors import CommandError
from tailrace.query.match.evaluation import refuse_in_element
from tailrace.query.match.scope import Operation, Scope, bad_value

_TEXT_NOT_FIRST: Final = 17313
_NEAR_NOT_ALLOWED: Final = 5626500


def refuse_where(operation: Operation, scope: Scope) -> NoReturn:
    """``$where``."""
    refuse_in_element(operation, scope)
    raise bad_value("$where is not allowed in this context")


def refuse_where_on_field(_operation: Operation, _scope: Scope) -> NoReturn:
    """``$where`` inside a field's operators."""
    raise bad_value("$where cannot be applied to a field")


def refuse_text(operation: Operation, scope: Scope) -> NoReturn:
    """``$text``."""
    refuse_in_element(operation, scope)
    raise CommandError(_TEXT_NOT_FIRST, "$match with $text is only allowed as the first pipeline stage")


def refuse_near(operation: Operation, _scope: Scope) -> NoReturn:
    """``$near $nearSphere $geoNear``."""
    message = f"{operation.name} is not allowed in this context, as it sorts its results"
    raise CommandError(_NEAR_NOT_ALLOWED, message)


def refuse_geo(operation: Operation, _scope: Scope) -> NoReturn:
    """``$geoWithin $geoIntersects $within``."""
    raise bad_value(f"{operation.name} is not supported")
