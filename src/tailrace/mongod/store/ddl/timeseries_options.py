"""The option `timeseries` of a collection whose documents are measurements, stored in buckets."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

MAX_SPAN_BY_GRANULARITY: Final = {"seconds": 3600, "minutes": 86_400, "hours": 2_592_000}
_FIELDS: Final = ("timeField", "metaField", "granularity", "bucketRoundingSeconds", "bucketMaxSpanSeconds")
_LONGEST_SPAN: Final = 31_536_000


def timeseries_options(_database: str, _name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The option as the catalog stores it, with explicit bucketing."""
    for field in given:
        if field not in _FIELDS:
            raise CommandError(
                ErrorCode.IDLUnknownField, f"BSON field 'create.timeseries.{field}' is an unknown field."
            )
    options: dict[str, Any] = {"timeField": _field_name(given, "timeField")}
    if "metaField" in given:
        options["metaField"] = _field_name(given, "metaField")
        if options["metaField"] == options["timeField"]:
            raise _invalid("The time-series 'metaField' cannot be the same as the 'timeField'")
    return {**options, **bucketing(given)}


def bucketing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The time span of a bucket: by a granularity, or by a number of seconds."""
    granularity = given.get("granularity")
    span, rounding = given.get("bucketMaxSpanSeconds"), given.get("bucketRoundingSeconds")
    if granularity is not None:
        if not is_string(granularity) or granularity not in MAX_SPAN_BY_GRANULARITY:
            raise CommandError(
                ErrorCode.BadValue,
                f"Enumeration value '{granularity}' for field 'create.timeseries.granularity' is not a valid "
                "value.",
            )
        default = MAX_SPAN_BY_GRANULARITY[granularity]
        if rounding is not None or span not in (None, default):
            raise _invalid(
                "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' cannot be set together with "
                "'granularity'"
            )
        return {"granularity": granularity, "bucketMaxSpanSeconds": default}
    if rounding is None and span in (None, MAX_SPAN_BY_GRANULARITY["seconds"]):
        return {"granularity": "seconds", "bucketMaxSpanSeconds": MAX_SPAN_BY_GRANULARITY["seconds"]}
    if span != rounding:
        raise _invalid(
            "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be equal, if given"
        )
    if isinstance(span, bool) or not isinstance(span, int | float) or not 1 <= span <= _LONGEST_SPAN:
        raise CommandError(
            ErrorCode.BadValue, f"'bucketMaxSpanSeconds' must be a number from 1 to {_LONGEST_SPAN}"
        )
    return {"bucketRoundingSeconds": int(span), "bucketMaxSpanSeconds": int(span)}


def _field_name(given: Mapping[str, Any], option: str) -> str:
    name = given.get(option)
    if name is None:
        raise CommandError(
            ErrorCode.IDLFailedToParse,
            f"BSON field 'create.timeseries.{option}' is missing but a required field",
        )
    if not is_string(name):
        raise CommandError(
            ErrorCode.TypeMismatch, f"BSON field 'create.timeseries.{option}' must be of type 'string'"
        )
    if not name or name == "_id" or name.startswith("$") or "." in name or "\0" in name:
        raise _invalid(f"'{name}' cannot be the '{option}' of a time-series collection")
    return name


def _invalid(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)
