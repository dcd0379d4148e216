"""An index specification: checked as MongoDB checks it, completed, and in the order of the oplog."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import ID_INDEX_NAME, Collection, id_index_spec
from tailrace.mongod.store.ddl.collection_options import MAX_EXPIRE_AFTER_SECONDS
from tailrace.mongod.store.ddl.key_pattern import (
    cannot_create,
    check_key_pattern,
    default_name,
    index_kind,
    is_id_key,
)
from tailrace.mongod.store.shell_notation import shell
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

MAX_WEIGHT: Final = 1_000_000_000
_NUMBERS: Final = (
    "v", "expireAfterSeconds", "bits", "min", "max", "bucketSize", "textIndexVersion", "2dsphereIndexVersion",
    "finestIndexedLevel", "coarsestIndexedLevel", "hashVersion",
)  # fmt: skip
_BOOLEANS: Final = ("unique", "sparse", "hidden", "background", "dropDups", "prepareUnique", "clustered")
_DOCUMENTS: Final = (
    "key", "partialFilterExpression", "collation", "storageEngine", "wildcardProjection", "weights",
)  # fmt: skip
_TEXTS: Final = ("name", "default_language", "language_override", "ns")
_KNOWN: Final = frozenset({*_NUMBERS, *_BOOLEANS, *_DOCUMENTS, *_TEXTS})
_OF_ID_INDEX: Final = frozenset({"v", "key", "name", "ns", "collation"})
_NOT_KEPT: Final = frozenset({"v", "key", "name", "ns", "dropDups", "collation"})
_KEPT_IF_TRUE: Final = frozenset({"unique", "sparse", "hidden", "prepareUnique"})
_PARTIAL_OPERATORS: Final = frozenset(
    {"$and", "$or", "$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$exists", "$type"}
)
_NEEDS_SIMPLE_COLLATION: Final = frozenset({"text", "2d"})
_NEVER_UNIQUE: Final = frozenset({"wildcard", "text", "2d", "2dsphere"})


def index_spec(collection: Collection, given: Mapping[str, Any], *, ignore_unknown: bool) -> dict[str, Any]:
    """The specification that the catalog stores and listIndexes shows."""
    fields = _known_fields(given, ignore_unknown=ignore_unknown)
    _check_types(fields)
    key = fields["key"]
    check_key_pattern(key)
    version = _version(fields)
    collation = _collation(collection, fields)
    if is_id_key(key):
        return _id_index(collection, fields, collation)
    spec: dict[str, Any] = {"v": version, "key": dict(key), "name": _name(fields)}
    for option, value in fields.items():
        if option not in _NOT_KEPT and (value or option not in _KEPT_IF_TRUE):
            spec[option] = True if option in _KEPT_IF_TRUE else value
    if collation is not None:
        spec["collation"] = collation.to_document()
    _check_kind(spec)
    _check_partial(spec)
    check_expiry(spec)
    if isinstance(spec.get("expireAfterSeconds"), float):
        spec["expireAfterSeconds"] = int(spec["expireAfterSeconds"])
    return _completed(spec)


def check_expiry(spec: Mapping[str, Any]) -> None:
    """Refuse a TTL index with a bad time, or whose key cannot give a time."""
    if "expireAfterSeconds" not in spec:
        return
    seconds = spec["expireAfterSeconds"]
    if not 0 <= seconds <= MAX_EXPIRE_AFTER_SECONDS:
        raise cannot_create(
            f"TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different "
            f"value than {shell(seconds)}"
        )
    if len(spec["key"]) > 1:
        raise cannot_create("TTL indexes are single-field indexes, compound indexes do not support TTL")
    if index_kind(spec["key"]) is not None:
        raise cannot_create(f"Index type '{index_kind(spec['key'])}' cannot be a TTL index")


def _known_fields(given: Mapping[str, Any], *, ignore_unknown: bool) -> dict[str, Any]:
    if "key" not in given:
        raise CommandError(
            ErrorCode.FailedToParse, "The 'key' field is a required property of an index specification"
        )
    fields = {}
    for field, value in given.items():
        if field in _KNOWN:
            fields[field] = value
        elif not ignore_unknown:
            raise CommandError(
                ErrorCode.InvalidIndexSpecificationOption,
                f"The field '{field}' is not valid for an index specification. Specification: {shell(given)}",
            )
    return fields


def _check_types(fields: Mapping[str, Any]) -> None:
    for field, value in fields.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if field in _NUMBERS:
            expected, fits = "number", is_number
        elif field in _BOOLEANS:
            expected, fits = "bool", isinstance(value, bool) or is_number
        elif field in _DOCUMENTS:
            expected, fits = "object", isinstance(value, Mapping)
        else:
            expected, fits = "string", isinstance(value, str)
        if fits or (field == "weights" and isinstance(value, str)):
            continue
        if field == "expireAfterSeconds":
            raise cannot_create(
                "TTL index 'expireAfterSeconds' option must be numeric, but received a type of "
                f"'{type_name(value)}'"
            )
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"The field '{field}' must be of type {expected}, but got {type_name(value)}",
        )


def _version(fields: Mapping[str, Any]) -> int:
    version = fields.get("v", 2)
    if version not in (1, 2):
        raise cannot_create(
            f"Invalid index specification {shell(fields)}; cannot create an index with v={shell(version)}"
        )
    return int(version)


def _name(fields: Mapping[str, Any]) -> str:
    name: str = fields.get("name", default_name(fields["key"]))
    if not name or "\0" in name:
        raise cannot_create(
            "index name cannot be empty" if not name else "index name cannot contain NUL bytes"
        )
    if name == "*":
        raise CommandError(ErrorCode.BadValue, "The index name '*' is not valid.")
    if name == ID_INDEX_NAME:
        raise CommandError(
            ErrorCode.BadValue,
            f"The index name '{ID_INDEX_NAME}' is reserved for the _id index, which must have key pattern "
            f"{{_id: 1}}, found key: {shell(fields['key'])}",
        )
    return name


def _collation(collection: Collection, fields: Mapping[str, Any]) -> Collation | None:
    if "collation" in fields:
        return Collation.parse(fields["collation"])
    default = collection.options.get("collation")
    if default is None or index_kind(fields["key"]) in _NEEDS_SIMPLE_COLLATION:
        return None
    return Collation.parse(default)


def _id_index(
    collection: Collection, fields: Mapping[str, Any], collation: Collation | None
) -> dict[str, Any]:
    for field in fields:
        if field not in _OF_ID_INDEX:
            if field == "hidden":
                raise CommandError(ErrorCode.BadValue, "can't hide _id index")
            if field == "unique" and collection.is_clustered:
                continue
            raise CommandError(
                ErrorCode.InvalidIndexSpecificationOption,
                f"The field '{field}' is not valid for an _id index specification. Specification: "
                f"{shell(fields)}",
            )
    default = collection.options.get("collation")
    if "collation" in fields and collation != (None if default is None else Collation.parse(default)):
        raise CommandError(ErrorCode.BadValue, "The _id index must have the same collation as the collection")
    return id_index_spec(collection.options)


def _check_kind(spec: Mapping[str, Any]) -> None:
    kind = index_kind(spec["key"])
    if kind in _NEEDS_SIMPLE_COLLATION and "collation" in spec:
        raise cannot_create(f"Index type '{kind}' does not support collation: {shell(spec['collation'])}")
    if spec.get("unique") or spec.get("prepareUnique"):
        if kind == "hashed":
            raise CommandError(
                16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index."
            )
        if kind in _NEVER_UNIQUE:
            raise cannot_create(f"Index type '{kind}' does not support the unique option")
    if kind == "wildcard" and spec.get("sparse"):
        raise cannot_create("Index type 'wildcard' does not support the sparse option")
    if "wildcardProjection" in spec:
        if kind != "wildcard" or "$**" not in spec["key"]:
            raise CommandError(
                ErrorCode.BadValue,
                "The field 'wildcardProjection' is only allowed in an index that is on '$**'",
            )
        if not spec["wildcardProjection"]:
            raise CommandError(ErrorCode.FailedToParse, "The 'wildcardProjection' cannot be empty")
    if spec.get("clustered"):
        raise cannot_create("a clustered index can only be made together with its collection")


def _completed(spec: dict[str, Any]) -> dict[str, Any]:
    """With the fields that MongoDB adds to special kinds of indexes."""
    kind = index_kind(spec["key"])
    if kind == "2dsphere":
        return {**spec, "2dsphereIndexVersion": spec.get("2dsphereIndexVersion", 3)}
    if kind != "text":
        return spec
    given = spec.get("weights", {})
    weights = dict.fromkeys(given, 1) if isinstance(given, str) else dict(given)
    key: dict[str, Any] = {}
    for path, direction in spec["key"].items():
        if direction == "text":
            key |= {"_fts": "text", "_ftsx": 1}
            if path not in ("_fts", "_ftsx"):
                weights.setdefault(path, 1)
        elif path != "_ftsx":
            key[path] = direction
    for path, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < MAX_WEIGHT:
            raise cannot_create(
                f"text index weight must be in the exclusive interval (0,{MAX_WEIGHT}): {path}"
            )
    defaults = {"default_language": "english", "language_override": "language", "textIndexVersion": 3}
    languages = {option: spec.get(option, default) for option, default in defaults.items()}
    return {**spec, "key": key, "weights": dict(sorted(weights.items())), **languages}


def _check_partial(spec: Mapping[str, Any]) -> None:
    partial = spec.get("partialFilterExpression")
    if partial is None:
        return
    if spec.get("sparse"):
        raise cannot_create('cannot mix "partialFilterExpression" and "sparse" options')
    _check_partial_operators(partial)
    compile_match(partial)


def _check_partial_operators(expression: Any) -> None:
    """Allow only comparisons, existence and types, combined by `$and` and `$or`."""
    for name, value in expression.items():
        if name.startswith("$"):
            allowed = name in _PARTIAL_OPERATORS and not (name == "$exists" and not value)
            if not allowed:
                raise cannot_create(f"Expression not supported in partial index: {shell({name: value})}")
        operands = value if isinstance(value, list) and name in ("$and", "$or") else [value]
        for operand in operands:
            is_operators = isinstance(operand, Mapping) and any(field.startswith("$") for field in operand)
            if is_operators or (name in ("$and", "$or") and isinstance(operand, Mapping)):
                _check_partial_operators(operand)
