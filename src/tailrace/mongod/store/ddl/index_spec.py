"""An index specification: checked as MongoDB checks it, completed, and in the order of the oplog."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Decimal128

from tailrace.bson.compare import type_name
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import is_string, whole_number
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import ID_INDEX_NAME, Collection, id_index_spec
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.collection_options import MAX_EXPIRE_AFTER_SECONDS, is_true
from tailrace.mongod.store.ddl.key_pattern import (
    BUCKET_KIND,
    cannot_create,
    check_key_pattern,
    index_kind,
    is_id_key,
)
from tailrace.mongod.store.ddl.partial_filter import check_partial_filter, parse_partial_filter
from tailrace.mongod.store.ddl.special_indexes import check_wildcard, completed_spec
from tailrace.query.collation import Collation
from tailrace.query.expressions.operands import is_number

_NUMBERS: Final = (
    "v", "bits", "min", "max", "bucketSize", "textIndexVersion", "2dsphereIndexVersion",
    "finestIndexedLevel", "coarsestIndexedLevel",
)  # fmt: skip
_BOOLEANS: Final = ("unique", "sparse", "background", "dropDups", "prepareUnique", "clustered")
_DOCUMENTS: Final = ("key", "partialFilterExpression", "collation", "originalSpec")
_TEXTS: Final = ("name", "default_language", "language_override")
_ANY: Final = (
    "ns", "_id", "hidden", "weights", "wildcardProjection", "storageEngine", "hashVersion",
    "expireAfterSeconds",
)  # fmt: skip
_KNOWN: Final = frozenset({*_NUMBERS, *_BOOLEANS, *_DOCUMENTS, *_TEXTS, *_ANY})
_OF_ID_INDEX: Final = frozenset({"v", "key", "name", "ns", "collation", "_id"})
_OF_CLUSTERED_INDEX: Final = frozenset({"v", "key", "name", "unique", "clustered", "expireAfterSeconds"})
_FIRST_IF_TRUE: Final = ("unique", "hidden", "prepareUnique")
"""Stored between the version and the key, and only if they are on"""
_NOT_KEPT: Final = frozenset(
    {"v", "key", "name", "ns", "_id", "dropDups", "collation", "clustered", *_FIRST_IF_TRUE}
)
_NEEDS_SIMPLE_COLLATION: Final = frozenset({"text", "2d", BUCKET_KIND})
_LARGEST_INT: Final = 2**31 - 1


def parse_index(
    collection: Collection, given: Mapping[str, Any], rules: CatalogRules, *, ignore_unknown: bool
) -> dict[str, Any]:
    """The known fields of a specification; raises for what is wrong whatever else there is.

    The first fault counts, in the order in which the fields were given.
    """
    fields = _known_fields(given, ignore_unknown=ignore_unknown)
    is_series = "timeseries" in collection.options
    for field, value in fields.items():
        _check_type(field, value)
        if field == "key":
            check_key_pattern(value, compound_wildcards=rules.compound_wildcards, of_buckets=is_series)
        elif field == "v":
            _version(fields)
        elif field == "wildcardProjection":
            check_wildcard(fields)
        elif field == "partialFilterExpression":
            parse_partial_filter(value)
    _check_together(fields, is_series=is_series)
    return fields


def _check_together(fields: Mapping[str, Any], *, is_series: bool) -> None:
    for required in ("key", "name"):
        if required not in fields:
            raise CommandError(
                ErrorCode.FailedToParse,
                f"The '{required}' field is a required property of an index specification",
            )
    if "weights" in fields and index_kind(fields["key"]) != "text":
        raise cannot_create("the field 'weights' can only be specified with text indexes")
    if _version(fields) == 1 and ("collation" in fields or index_kind(fields["key"]) == "wildcard"):
        raise cannot_create(f"Invalid index specification {shell(fields)}; it needs index version v=2")
    if is_true(fields.get("unique", False)) and is_true(fields.get("prepareUnique", False)):
        raise cannot_create("cannot create an index with the 'unique' option and the 'prepareUnique' option")
    if "originalSpec" in fields and not is_series:
        _known_fields(fields["originalSpec"], ignore_unknown=False)
        raise CommandError(ErrorCode.BadValue, "The field 'originalSpec' is only for time-series buckets")
    if "clustered" not in fields and is_id_key(fields["key"]) and not is_series:
        _check_id_index(fields)
    elif fields["name"] == "*":
        raise CommandError(ErrorCode.BadValue, "The index name '*' is not valid.")
    elif fields["name"] == ID_INDEX_NAME and "clustered" not in fields:
        raise CommandError(
            ErrorCode.BadValue,
            f"The index name '{ID_INDEX_NAME}' is reserved for the _id index, which must have key pattern "
            f"{{_id: 1}}, found key: {shell(fields['key'])}",
        )


def index_spec(collection: Collection, fields: Mapping[str, Any], rules: CatalogRules) -> dict[str, Any]:
    """The specification that the catalog stores and the oplog shows, of parsed fields."""
    key = fields["key"]
    if "clustered" in fields:
        return _clustered(collection, fields)
    if is_id_key(key) and "timeseries" not in collection.options:
        return id_index_spec(collection.options)
    collation = index_collation(collection, fields)
    spec: dict[str, Any] = {"v": _version(fields)}
    spec |= {option: True for option in _FIRST_IF_TRUE if is_true(fields.get(option, False))}
    spec |= {"key": dict(key), "name": _name(fields)}
    spec |= {option: value for option, value in fields.items() if option not in _NOT_KEPT}
    if "originalSpec" in spec:
        spec["originalSpec"] = _original(collection, spec["originalSpec"])
    if collation is not None:
        spec["collation"] = collation.to_document()
    _check_engine(spec)
    _check_kind(spec)
    check_partial_filter(spec)
    if "expireAfterSeconds" in spec and collection.is_capped and not rules.ttl_on_capped:
        raise cannot_create("Cannot create TTL index on a capped collection")
    seconds = spec.get("expireAfterSeconds", 0)
    if is_number(seconds) and whole_number(seconds) is None:
        spec["expireAfterSeconds"] = MAX_EXPIRE_AFTER_SECONDS
    return completed_spec(spec)


def _original(collection: Collection, given: Mapping[str, Any]) -> dict[str, Any]:
    """The specification on measurements of a time series, with its version and its collation."""
    found = {name: value for name, value in given.items() if name != "collation"}
    found.setdefault("v", 2)
    collation = index_collation(collection, given)
    return found if collation is None else {**found, "collation": collation.to_document()}


def check_collation(collection: Collection, fields: Mapping[str, Any]) -> None:
    """Refuse a collation that does not exist, or that the index on `_id` cannot have."""
    found = index_collation(collection, fields)
    is_id = "clustered" not in fields and is_id_key(fields["key"]) and "timeseries" not in collection.options
    if is_id and found != collection.collation:
        raise CommandError(ErrorCode.BadValue, "The _id index must have the same collation as the collection")


def copied_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification for a copy of an index; flags that collMod has appended stand where new ones do.

    >>> copied_spec({"v": 2, "key": {"a": 1}, "name": "a", "sparse": True, "hidden": True})
    {'v': 2, 'hidden': True, 'key': {'a': 1}, 'name': 'a', 'sparse': True}
    """
    first = [field for field in ("v", *_FIRST_IF_TRUE, "key", "name") if field in spec]
    return {field: spec[field] for field in first} | dict(spec)


def index_collation(collection: Collection, given: Mapping[str, Any]) -> Collation | None:
    """The collation that a specification has, by default that of the collection; None compares bytes."""
    if "collation" not in given:
        return collection.collation
    return None if given["collation"] is None else Collation.parse(given["collation"])


def check_expiry(spec: Mapping[str, Any]) -> None:
    """Refuse a TTL index with a bad time or with several fields."""
    if "expireAfterSeconds" not in spec:
        return
    seconds = spec["expireAfterSeconds"]
    if not is_number(seconds):
        raise cannot_create(
            "TTL index 'expireAfterSeconds' option must be numeric, but received a type of "
            f"'{type_name(seconds)}'"
        )
    whole = whole_number(seconds)
    if whole is not None and not 0 <= whole <= MAX_EXPIRE_AFTER_SECONDS:
        raise cannot_create(
            f"TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different "
            f"value than {shell(seconds)}"
        )
    if len(spec["key"].keys() - {"_ftsx"}) > 1:
        raise cannot_create("TTL indexes are single-field indexes, compound indexes do not support TTL")


def _known_fields(given: Mapping[str, Any], *, ignore_unknown: bool) -> dict[str, Any]:
    fields = {}
    for field, value in given.items():
        if field in (_OF_CLUSTERED_INDEX if "clustered" in given else _KNOWN):
            fields[field] = value
        elif not ignore_unknown:
            raise CommandError(
                ErrorCode.InvalidIndexSpecificationOption,
                f"The field '{field}' is not valid for an index specification. Specification: {shell(given)}",
            )
    return fields


def _check_type(field: str, value: Any) -> None:
    if field in _NUMBERS:
        expected, fits = "a number", is_number(value)
    elif field in _BOOLEANS:
        expected, fits = "a bool", isinstance(value, bool) or is_number(value)
    elif field in _DOCUMENTS:
        expected, fits = "an object", isinstance(value, Mapping)
    elif field in _TEXTS:
        expected, fits = "a string", is_string(value)
    elif field == "weights":
        expected, fits = "an object", is_string(value) or isinstance(value, Mapping | list)
    else:
        expected, fits = "a bool", field != "hidden" or isinstance(value, bool)
    if not fits:
        raise CommandError(
            ErrorCode.TypeMismatch, f"The field '{field}' must be {expected}, but got {type_name(value)}"
        )
    if field in ("collation", "originalSpec") and not value:
        raise CommandError(ErrorCode.BadValue, f"The field '{field}' cannot be an empty object.")


def _check_engine(spec: Mapping[str, Any]) -> None:
    if "storageEngine" not in spec:
        return
    engines = spec["storageEngine"]
    if not isinstance(engines, Mapping):
        raise cannot_create('"storageEngine" options must be a document if present')
    if not engines:
        raise cannot_create(
            'Empty "storageEngine" options are invalid. Please remove the field or include valid options.'
        )
    for engine, options in engines.items():
        if not isinstance(options, Mapping):
            raise CommandError(
                ErrorCode.BadValue, f"'storageEngine.{engine}' has to be an embedded document."
            )


def _version(fields: Mapping[str, Any]) -> int:
    given = fields.get("v", 2)
    version = whole_number(given)
    if (
        version is None
        or version != (given.to_decimal() if isinstance(given, Decimal128) else given)
        or (not -_LARGEST_INT <= version <= _LARGEST_INT)
    ):
        raise CommandError(
            ErrorCode.BadValue,
            f"Index version must be representable as a 32-bit integer, but got {shell(given)}",
        )
    if version not in (1, 2):
        raise cannot_create(
            f"Invalid index specification {shell(fields)}; cannot create an index with v={version}"
        )
    return version


def _name(fields: Mapping[str, Any]) -> str:
    name: str = fields["name"]
    if not name or "\0" in name:
        raise cannot_create(
            "index name cannot be empty" if not name else "index name cannot contain NUL bytes"
        )
    return name


def _check_id_index(fields: Mapping[str, Any]) -> None:
    for field in fields:
        if field not in _OF_ID_INDEX:
            raise CommandError(
                ErrorCode.InvalidIndexSpecificationOption,
                f"The field '{field}' is not valid for an _id index specification. Specification: "
                f"{shell(fields)}",
            )
    if fields["key"]["_id"] != 1:
        raise CommandError(
            ErrorCode.BadValue,
            f"The field 'key' for an _id index must be {{_id: 1}}, but got {shell(fields['key'])}",
        )


def _clustered(collection: Collection, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Allow to name the index that the collection is clustered by; it exists."""
    if not is_true(fields["clustered"]):
        raise CommandError(6492800, "Value 'false' for field 'clustered' is invalid")
    if not is_true(fields.get("unique", False)):
        raise cannot_create("The 'unique' field is required when 'clustered' is specified")
    if not collection.is_clustered or list(fields["key"]) != ["_id"]:
        raise CommandError(
            6243700, "Cannot create index with option 'clustered' on a collection that is not clustered by it"
        )
    return id_index_spec(collection.options)


def _check_kind(spec: Mapping[str, Any]) -> None:
    kind = index_kind(spec["key"])
    if kind in _NEEDS_SIMPLE_COLLATION and "collation" in spec:
        raise cannot_create(f"Index type '{kind}' does not support collation: {shell(spec['collation'])}")
    if spec.get("unique") and kind == "wildcard":
        raise cannot_create("Index type 'wildcard' does not support the unique option")
    if kind == "wildcard" and is_true(spec.get("sparse", False)):
        raise cannot_create("Index type 'wildcard' does not support the sparse option")
    if kind == "wildcard" and "expireAfterSeconds" in spec:
        raise cannot_create("Index type 'wildcard' cannot be a TTL index")
