"""The tables of a filter's operators: those on fields and those beside fields."""

from collections.abc import Mapping
from typing import Final

from tailrace.query.match import array, bitwise, comparison, element, evaluation, logical, regex, unsupported
from tailrace.query.match.json_schema import parse_json_schema
from tailrace.query.match.nodes import Node
from tailrace.query.match.scope import FieldOperatorParser, FilterScope, OperatorCall, TopOperatorParser
from tailrace.query.paths import Path


def _parse_reference_field(call: OperatorCall, scope: FilterScope) -> Node:
    """A field of a DBRef, compared like any other field; a collation applies only to ``$id``."""
    string_key = scope.string_key if call.name == "$id" else None
    return scope.equality(call.argument, string_key).at(Path(call.name))


FIELD_OPERATORS: Final[Mapping[str, FieldOperatorParser]] = {
    "$eq": comparison.parse_eq,
    "$ne": comparison.parse_ne,
    "$gt": comparison.parse_range,
    "$gte": comparison.parse_range,
    "$lt": comparison.parse_range,
    "$lte": comparison.parse_range,
    "$in": comparison.parse_in,
    "$nin": comparison.parse_nin,
    "$not": logical.parse_not,
    "$exists": element.parse_exists,
    "$type": element.parse_type,
    "$all": array.parse_all,
    "$elemMatch": array.parse_elem_match,
    "$size": array.parse_size,
    "$regex": regex.parse_regex,
    "$options": regex.parse_options,
    "$mod": evaluation.parse_mod,
    "$bitsAllSet": bitwise.parse_bits,
    "$bitsAllClear": bitwise.parse_bits,
    "$bitsAnySet": bitwise.parse_bits,
    "$bitsAnyClear": bitwise.parse_bits,
    "$where": unsupported.refuse_where_on_field,
    "$near": unsupported.refuse_near,
    "$nearSphere": unsupported.refuse_near,
    "$geoNear": unsupported.refuse_near,
    "$geoWithin": unsupported.refuse_geo,
    "$geoIntersects": unsupported.refuse_geo,
    "$within": unsupported.refuse_geo,
}

TOP_OPERATORS: Final[Mapping[str, TopOperatorParser]] = {
    "$and": logical.parse_combination,
    "$or": logical.parse_combination,
    "$nor": logical.parse_combination,
    "$expr": evaluation.parse_expr,
    "$jsonSchema": parse_json_schema,
    "$sampleRate": evaluation.parse_sample_rate,
    "$comment": evaluation.parse_comment,
    "$alwaysTrue": evaluation.parse_constant,
    "$alwaysFalse": evaluation.parse_constant,
    "$ref": _parse_reference_field,
    "$id": _parse_reference_field,
    "$db": _parse_reference_field,
    "$where": unsupported.refuse_where,
    "$text": unsupported.refuse_text,
}
