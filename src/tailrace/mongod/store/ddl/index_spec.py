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

_NUMBERS: Final = (
    "v", "expireAfterSeconds", "bits", "min", "max", "bucketSize", "textIndexVersion", "2dsphereIndexVersion",
    "finestIndexedLevel", "coarsestIndexedLevel",
)  # fmt: skip
_BOOLEANS: Final = ("unique", "sparse", "background", "dropDups", "prepareUnique", "clustered")
_DOCUMENTS: Final = ("key", "partialFilterExpression", "collation", "originalSpec")
_TEXTS: Final = ("name", "default_language", "language_override")
_ANY: Final = ("ns", "_id", "hidden", "weights", "wildcardProjection", "storageEngine", "hashVersion")
_KNOWN: Final = frozenset({*_NUMBERS, *_BOOLEANS, *_DOCUMENTS, *_TEXTS, *_ANY})
_OF_ID_INDEX: Final = frozenset({"v", "key", "name", "ns", "collation", "_id"})
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
    """The known fields of a specification; raises for what is wrong whatever else there is."""
    fields = _known_fields(given, ignore_unknown=ignore_unknown)
    _check_types(fields)
    key = fields["key"]
    is_series = "timeseries" in collection.options
    check_key_pattern(key, compound_wildcards=rules.compound_wildcards, of_buckets=is_series)
    _version(fields)
    check_wildcard(fields)
    _check_weights(fields)
    if "clustered" not in fields and is_id_key(key) and not is_series:
        _check_id_index(fields)
    parse_partial_filter(fields)
    if is_true(fields.get("unique", False)) and is_true(fields.get("prepareUnique", False)):
        raise cannot_create("cannot create an index with the 'unique' option and the 'prepareUnique' option")
    if "originalSpec" in fields and not is_series:
        if fields["originalSpec"]:
            _known_fields(fields["originalSpec"], ignore_unknown=False)
        raise CommandError(ErrorCode.BadValue, "The field 'originalSpec' is only for time-series buckets")
    return fields


def index_spec(collection: Collection, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The specification that the catalog stores and the oplog shows, of parsed fields."""
    key = fields["key"]
    if "clustered" in fields:
        return _clustered(collection, fields)
    if is_id_key(key) and "timeseries" not in collection.options:
        return _id_index(collection, fields)
    collation = index_collation(collection, fields)
    spec: dict[str, Any] = {"v": _version(fields)}
    spec |= {option: True for option in _FIRST_IF_TRUE if is_true(fields.get(option, False))}
    spec |= {"key": dict(key), "name": _name(fields)}
    spec |= {option: value for option, value in fields.items() if option not in _NOT_KEPT}
    if collation is not None:
        spec["collation"] = collation.to_document()
    _check_engine(spec)
    _check_kind(spec)
    check_partial_filter(spec)
    if "expireAfterSeconds" in spec and whole_number(spec["expireAfterSeconds"]) is None:
        spec["expireAfterSeconds"] = MAX_EXPIRE_AFTER_SECONDS
    return completed_spec(spec)


def copied_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification for a copy of an index; flags that collMod has appended stand where new ones do.

    >>> copied_spec({"v": 2, "key": {"a": 1}, "name": "a", "sparse": True, "hidden": True})
    {'v': 2, 'hidden': True, 'key': {'a': 1}, 'name': 'a', 'sparse': True}
    """
    first = [field for field in ("v", *_FIRST_IF_TRUE, "key", "name") if field in spec]
    return {field: spec[field] for field in first} | dict(spec)


def index_collation(collection: Collection, given: Mapping[str, Any]) -> Collation | None:
    """The collation that a specification has, by default that of the collection; None compares bytes."""
    found = given.get("collation", collection.options.get("collation"))
    return None if found is None else Collation.parse(found)


def check_new_index(collection: Collection, spec: Mapping[str, Any], rules: CatalogRules) -> None:
    """Refuse an index that does not exist yet for reasons that do not matter for one that does."""
    given = {path: direction for path, direction in spec["key"].items() if path != "_ftsx"}
    check_expiry({**spec, "key": given})
    if "expireAfterSeconds" in spec and collection.is_capped and not rules.ttl_on_capped:
        raise cannot_create("Cannot create TTL index on a capped collection")
    if spec.get("unique") and index_kind(spec["key"]) == "hashed":
        raise CommandError(
            16764, "Currently hashed indexes cannot guarantee uniqueness. Use a regular index."
        )


def check_expiry(spec: Mapping[str, Any]) -> None:
    """Refuse a TTL index with a bad time or with several fields."""
    if "expireAfterSeconds" not in spec:
        return
    seconds = spec["expireAfterSeconds"]
    whole = whole_number(seconds)
    if whole is not None and not 0 <= whole <= MAX_EXPIRE_AFTER_SECONDS:
        raise cannot_create(
            f"TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different "
            f"value than {shell(seconds)}"
        )
    if len(spec["key"]) > 1:
        raise cannot_create("TTL indexes are single-field indexes, compound indexes do not support TTL")


def _known_fields(given: Mapping[str, Any], *, ignore_unknown: bool) -> dict[str, Any]:
    fields = {}
    for field, value in given.items():
        if field in _KNOWN:
            fields[field] = value
        elif not ignore_unknown:
            raise CommandError(
                ErrorCode.InvalidIndexSpecificationOption,
                f"The field '{field}' is not valid for an index specification. Specification: {shell(given)}",
            )
    for required in ("key", "name"):
        if required not in given:
            raise CommandError(
                ErrorCode.FailedToParse,
                f"The '{required}' field is a required property of an index specification",
            )
    return fields


def _check_types(fields: Mapping[str, Any]) -> None:
    for field, value in fields.items():
        is_number = isinstance(value, int | float | Decimal128) and not isinstance(value, bool)
        if field in _NUMBERS:
            expected, fits = "a number", is_number
        elif field in _BOOLEANS:
            expected, fits = "a bool", isinstance(value, bool) or is_number
        elif field in _DOCUMENTS:
            expected, fits = "an object", isinstance(value, Mapping)
        elif field in _TEXTS:
            expected, fits = "a string", is_string(value)
        else:
            expected, fits = "a bool", field != "hidden" or isinstance(value, bool)
        if fits:
            continue
        if field == "expireAfterSeconds":
            raise cannot_create(
                "TTL index 'expireAfterSeconds' option must be numeric, but received a type of "
                f"'{type_name(value)}'"
            )
        raise CommandError(
            ErrorCode.TypeMismatch, f"The field '{field}' must be {expected}, but got {type_name(value)}"
        )
    if "collation" in fields and not fields["collation"]:
        raise CommandError(ErrorCode.BadValue, "The field 'collation' cannot be an empty object.")


def _check_weights(fields: Mapping[str, Any]) -> None:
    if "weights" not in fields:
        return
    weights = fields["weights"]
    if not (is_string(weights) or isinstance(weights, Mapping | list)):
        raise CommandError(
            ErrorCode.TypeMismatch, f"The field 'weights' must be an object, but got {type_name(weights)}"
        )
    if index_kind(fields["key"]) != "text":
        raise cannot_create("the field 'weights' can only be specified with text indexes")


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
    if name == "*":
        raise CommandError(ErrorCode.BadValue, "The index name '*' is not valid.")
    if name == ID_INDEX_NAME:
        raise CommandError(
            ErrorCode.BadValue,
            f"The index name '{ID_INDEX_NAME}' is reserved for the _id index, which must have key pattern "
            f"{{_id: 1}}, found key: {shell(fields['key'])}",
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


def _id_index(collection: Collection, fields: Mapping[str, Any]) -> dict[str, Any]:
    default = collection.options.get("collation")
    collation = Collation.parse(fields["collation"]) if "collation" in fields else None
    if "collation" in fields and collation != (None if default is None else Collation.parse(default)):
        raise CommandError(ErrorCode.BadValue, "The _id index must have the same collation as the collection")
    return id_index_spec(collection.options)


def _clustered(collection: Collection, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Allow to name the index that the collection is clustered by; it exists."""
    if not is_true(fields["clustered"]):
        raise CommandError(6492800, "Value 'false' for field 'clustered' is invalid")
    if "unique" not in fields:
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
