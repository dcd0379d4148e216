"""`$dateFromString`: a date from text."""

from typing import Any, Final

from bson import DatetimeMS

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_specs
from tailrace.query.expressions.dates.date_format import check_format
from tailrace.query.expressions.dates.date_strings import (
    FORMAT_SPECIFIERS,
    read_date,
    read_date_by_format,
)
from tailrace.query.expressions.dates.timezones import checked_zone
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import Environment, Expression, ExpressionScope, OperatorParser


def _parse_date_from_string(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    specs = named_specs(
        name,
        spec,
        required={"dateString": 40542},
        optional=("format", "timezone", "onError", "onNull"),
        not_object=40540,
        unknown=40541,
    )
    source = scope.parse(specs["dateString"])
    zone_argument = scope.parse(specs["timezone"]) if "timezone" in specs else None
    format_argument = scope.parse(specs["format"]) if "format" in specs else None
    on_null = scope.parse(specs.get("onNull"))
    on_error = scope.parse(specs["onError"]) if "onError" in specs else None

    def apply(env: Environment) -> Any:
        text, zone_name = source(env), "UTC" if zone_argument is None else zone_argument(env)
        format_text = "" if format_argument is None else format_argument(env)
        check_format(name, format_text, FORMAT_SPECIFIERS, not_string=40684)
        zone = None if is_nullish(zone_name) else checked_zone(zone_name)
        if is_nullish(text):
            return on_null(env)
        try:
            if not is_string(text):
                raise CommandError(
                    ErrorCode.ConversionFailure,
                    f"{name} requires that 'dateString' be a string, found: {type_name(text)}",
                )
            if zone is None or is_nullish(format_text):
                return None
            local = zone if zone_argument is not None else None
            if format_argument is None:
                return DatetimeMS(read_date(text, local))
            return DatetimeMS(read_date_by_format(text, format_text, local))
        except CommandError as error:
            if on_error is None or error.code != ErrorCode.ConversionFailure:
                raise
            return on_error(env)

    return apply


OPERATORS: Final[dict[str, OperatorParser]] = {"$dateFromString": _parse_date_from_string}
