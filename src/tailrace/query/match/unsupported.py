"""Operators of MongoDB that are refused when a filter is compiled.

MongoDB refuses text and proximity search here, too, with the same codes, because they need an index. It also
refuses ``$where``, which runs JavaScript, in an aggregation. Only Tailrace refuses the other geospatial
operators.
"""

from collections.abc import Mapping
from typing import Final, NoReturn

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.match.evaluation import refuse_in_element
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value

_NEAR_NOT_ALLOWED: Final = 5626500


def refuse_where(call: OperatorCall, scope: FilterScope) -> NoReturn:
    refuse_in_element(call, scope)
    raise bad_value("$where is not supported: no JavaScript can be run")


def refuse_where_on_field(_operation: OperatorCall, _scope: FilterScope) -> NoReturn:
    raise bad_value("$where cannot be applied to a field")


def refuse_text(call: OperatorCall, scope: FilterScope) -> NoReturn:
    refuse_in_element(call, scope)
    if not isinstance(call.argument, Mapping):
        raise bad_value("$text expects an object")
    reason = (
        "text index required for $text query; an index of this kind stores nothing: $text is not supported"
    )
    raise CommandError(ErrorCode.IndexNotFound, reason)


def refuse_near(call: OperatorCall, _scope: FilterScope) -> NoReturn:
    """``$near $nearSphere $geoNear``."""
    message = f"{call.name} is not supported: there is no geospatial index that could sort the results"
    raise CommandError(_NEAR_NOT_ALLOWED, message)


def refuse_geo(call: OperatorCall, _scope: FilterScope) -> NoReturn:
    """``$geoWithin $geoIntersects $within``."""
    raise bad_value(f"{call.name} is not supported: shapes cannot be compared")
