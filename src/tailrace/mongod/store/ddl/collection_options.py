"""The options of a new collection: checked, completed and in the order of the catalog and the oplog.

An option that is off or has MongoDB's default value is not stored, so that equivalent options compare equal.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Decimal128, Int64

from tailrace.bson.compare import compare, type_name
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.store.catalog import ID_INDEX_NAME
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.key_pattern import cannot_create, check_key_pattern
from tailrace.mongod.store.ddl.timeseries import bucket_schema
from tailrace.mongod.store.ddl.timeseries_options import timeseries_options
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

CATALOG_ORDER: Final = (
    "capped", "size", "max", "autoIndexId", "temp", "recordPreImages", "changeStreamPreAndPostImages",
    "storageEngine", "indexOptionDefaults", "validator", "validationLevel", "validationAction", "collation",
    "clusteredIndex", "expireAfterSeconds", "timeseries", "encryptedFields",
)  # fmt: skip
VALIDATION_LEVELS: Final = ("off", "strict", "moderate")
VALIDATION_ACTIONS: Final = ("error", "warn")
ERROR_AND_LOG: Final = "errorAndLog"
MAX_CAPPED_SIZE: Final = 1 << 50
MAX_EXPIRE_AFTER_SECONDS: Final = 2**31 - 1
NO_CAPPED_MAX: Final = 2**31 - 1
_CAPPED_UNIT: Final = 256
_CLUSTERED_BY: Final = ("v", "key", "name", "unique")
_OF_ID_INDEX: Final = frozenset({"key", "name", "v", "ns", "collation"})
_OF_ENCRYPTION: Final = frozenset(
    {"fields", "escCollection", "eccCollection", "ecocCollection", "strEncodeVersion"}
)
_WITH_TIMESERIES: Final = frozenset(
    {"timeseries", "storageEngine", "indexOptionDefaults", "collation", "expireAfterSeconds", "temp"}
)


def collection_options(
    database: str, name: str, given: Mapping[str, Any], rules: CatalogRules
) -> dict[str, Any]:
    """The options as the catalog stores them; ``given`` has values of the right BSON types."""
    options = {option: value for option, value in given.items() if value is not None}
    _check_capped(options)
    check_kind_of_images(options)
    if options.get("validationAction") == ERROR_AND_LOG and not rules.logs_validation_errors:
        _one_of("validationAction", ERROR_AND_LOG, VALIDATION_ACTIONS)
    if "timeseries" in options:
        _check_timeseries(options)
    if options.get("clusteredIndex") and options.get("autoIndexId") is False:
        raise CommandError(6026501, "The 'clusteredIndex' option does not support {autoIndexId: false}")
    checked: dict[str, Any] = {}
    for option in CATALOG_ORDER:
        if option in options:
            value = _CHECKS[option](database, name, options[option])
            if value is not None:
                checked[option] = value
    if "size" in checked:
        checked["size"] = stored_size(checked["size"], rules)
    if "timeseries" in checked:
        # Its records are buckets, sorted by an `_id` that begins with their time.
        validator = bucket_schema(checked["timeseries"]["timeField"])
        return in_catalog_order({**checked, "clusteredIndex": True, "validator": validator})
    _check_clustered(options, checked)
    _check_id_index(options.get("idIndex"), checked)
    return checked


def in_catalog_order(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options in catalog order."""
    return {option: options[option] for option in CATALOG_ORDER if option in options}


def check_images(database: str, name: str, images: Mapping[str, Any]) -> dict[str, Any] | None:
    """`changeStreamPreAndPostImages`; None if they are off, which is the default."""
    if not images["enabled"]:
        return None
    if database in INTERNAL_DATABASES:
        raise invalid(
            f"'changeStreamPreAndPostImages' is not supported on the internal database: {database}.{name}"
        )
    return {"enabled": True}


def check_recorded_images(database: str, _name: str, is_on: bool) -> bool | None:
    """`recordPreImages`; None if they are off, which is the default."""
    if not is_on:
        return None
    if database in INTERNAL_DATABASES:
        raise invalid(f"recordPreImages collection option is not supported on the {database} database")
    return True


def check_kind_of_images(options: Mapping[str, Any]) -> None:
    """Refuse both kinds of pre-images together: those in the oplog and those beside it."""
    if options.get("recordPreImages") and options.get("changeStreamPreAndPostImages", {}).get("enabled"):
        raise invalid(
            "'recordPreImages' and 'changeStreamPreAndPostImages.enabled' can not be set to true "
            "simultaneously"
        )


def check_validator(database: str, name: str, validator: Mapping[str, Any]) -> dict[str, Any] | None:
    """Check that a validator compiles and that the collection may have one; None for an empty one."""
    if not validator:
        return None
    if database in INTERNAL_DATABASES:
        raise invalid(
            f"Document validators are not allowed on collection {database}.{name} in the {database} "
            "internal database"
        )
    if name.startswith("system."):
        raise invalid(f"Document validators not allowed on system collection {database}.{name}")
    compile_match(validator)
    return dict(validator)


def check_validation_level(_database: str, _name: str, level: str) -> str:
    return _one_of("validationLevel", level, VALIDATION_LEVELS)


def check_validation_action(_database: str, _name: str, action: str) -> str:
    return _one_of("validationAction", action, (*VALIDATION_ACTIONS, ERROR_AND_LOG))


def check_validation_modes(options: Mapping[str, Any]) -> None:
    """Refuse an unknown level or action; unlike other options, they are checked before anything else."""
    if options.get("validationLevel") is not None:
        check_validation_level("", "", options["validationLevel"])
    if options.get("validationAction") is not None:
        check_validation_action("", "", options["validationAction"])


def check_expire_after_seconds(_database: str, _name: str, seconds: int) -> Int64:
    if not 0 <= seconds <= MAX_EXPIRE_AFTER_SECONDS:
        raise invalid(f"'expireAfterSeconds' must be from 0 to {MAX_EXPIRE_AFTER_SECONDS}, not {seconds}")
    return Int64(seconds)


def stored_size(size: int, rules: CatalogRules) -> int:
    """The size of a capped collection as the catalog stores it.

    >>> stored_size(5000, CatalogRules()), stored_size(5000, CatalogRules(rounds_capped_sizes=True))
    (5000, 5120)
    """
    return -(-size // _CAPPED_UNIT) * _CAPPED_UNIT if rules.rounds_capped_sizes else int(size)


def check_capped_size(_database: str, _name: str, size: int) -> int:
    """A size in bytes."""
    if not 1 <= size <= MAX_CAPPED_SIZE:
        raise CommandError(
            ErrorCode.BadValue, f"the size of a capped collection must be from 1 to {MAX_CAPPED_SIZE}: {size}"
        )
    return int(size)


def check_capped_max(_database: str, _name: str, number: int) -> int:
    """A number of documents; the largest one, which means no limit, for zero and below."""
    if number >= 2**31:
        raise CommandError(ErrorCode.BadValue, "max in a capped collection has to be < 2^31 or not set")
    return int(number) if number > 0 else NO_CAPPED_MAX


def check_collation(_database: str, _name: str, collation: Mapping[str, Any]) -> dict[str, Any] | None:
    """The complete collation; None for the simple one."""
    parsed = Collation.parse(collation)
    return None if parsed is None else parsed.to_document()


def is_true(value: Any) -> bool:
    """Whether a value of BSON type bool or of a number type counts as true."""
    if isinstance(value, Decimal128):
        # A signalling NaN cannot be compared.
        return value.to_decimal().is_nan() or bool(value.to_decimal() != 0)
    return bool(value)


def invalid(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)


def _check_capped(options: dict[str, Any]) -> None:
    if options.get("capped"):
        if "size" not in options:
            raise invalid("the 'size' field is required when 'capped' is true")
    elif "size" in options or "max" in options:
        raise invalid(
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present"
        )


def _check_timeseries(options: Mapping[str, Any]) -> None:
    for option in options:
        if option == "changeStreamPreAndPostImages" and not options[option]["enabled"]:
            continue
        if option not in _WITH_TIMESERIES:
            raise invalid(f"time-series collections cannot be created with the option '{option}'")


def _check_clustered(options: Mapping[str, Any], checked: Mapping[str, Any]) -> None:
    clustered = "clusteredIndex" in checked
    if "expireAfterSeconds" in checked and not clustered:
        raise invalid(
            "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' "
            "option is specified"
        )
    if clustered and checked.get("capped"):
        raise CommandError(
            6049200, "'size' field for capped collections is not allowed on clustered collections."
        )
    if clustered and "idIndex" in options:
        raise invalid("The 'clusteredIndex' option is not supported with the 'idIndex' option")


def _clustered_index(_database: str, _name: str, spec: Mapping[str, Any] | bool) -> dict[str, Any] | None:
    if isinstance(spec, bool):
        if spec:
            raise CommandError(
                5979703,
                "The 'clusteredIndex' legacy format {clusteredIndex: <bool>} is only supported for specific "
                "internal collections and 'clusteredIndex: true' is not allowed",
            )
        return None
    for field in spec:
        if field not in _CLUSTERED_BY:
            raise CommandError(
                ErrorCode.IDLUnknownField, f"BSON field 'clusteredIndex.{field}' is an unknown field."
            )
    for field in ("key", "unique"):
        if field not in spec:
            raise CommandError(
                ErrorCode.IDLFailedToParse,
                f"BSON field 'clusteredIndex.{field}' is missing but a required field",
            )
    key = spec["key"]
    if not isinstance(key, Mapping) or list(key) != ["_id"] or key["_id"] != 1 or key["_id"] is True:
        raise _bad_index(f"The clusteredIndex option is only supported for key: {{_id: 1}}, not {shell(key)}")
    name = spec.get("name", ID_INDEX_NAME)
    if not is_string(name):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"BSON field 'create.name' is the wrong type '{type_name(name)}', expected type 'string'",
        )
    if not is_true(spec["unique"]):
        raise CommandError(5979700, "The clusteredIndex option requires unique: true to be specified")
    if spec.get("v", 2) != 2:
        raise CommandError(
            5979704, f"Invalid clusteredIndex specification {shell(spec)}: the version has to be 2"
        )
    return {"v": 2, "key": dict(key), "name": name, "unique": True}


def _check_id_index(spec: Mapping[str, Any] | None, checked: Mapping[str, Any]) -> None:
    if spec is None:
        return
    for field in spec:
        if field not in _OF_ID_INDEX:
            raise _bad_index(f"The field '{field}' is not valid for an index specification.")
    for field in ("key", "name"):
        if field not in spec:
            raise CommandError(
                ErrorCode.FailedToParse,
                f"The '{field}' field is a required property of an index specification",
            )
    check_key_pattern(spec["key"])
    if not spec["name"]:
        raise cannot_create("index name cannot be empty")
    if "collation" in spec and Collation.parse(spec["collation"]) != _parsed(checked.get("collation")):
        raise CommandError(ErrorCode.BadValue, "'idIndex' must have the same collation as the collection")
    if list(spec["key"]) != ["_id"] or compare(spec["key"]["_id"], 1) != 0:
        raise CommandError(
            ErrorCode.BadValue, "The field 'key' for an _id index must be {_id: 1}, but got "
            + shell(spec["key"]),
        )  # fmt: skip
    if spec.get("v", 2) not in (1, 2):
        raise CommandError(ErrorCode.CannotCreateIndex, f"Invalid index version {shell(spec['v'])}")


def _parsed(collation: Mapping[str, Any] | None) -> Collation | None:
    return None if collation is None else Collation.parse(collation)


def _if_true(_database: str, _name: str, value: bool) -> bool | None:
    return True if value else None


def _auto_index_id(database: str, name: str, value: bool) -> bool | None:
    if not value and database != "local":
        raise CommandError(
            50001,
            f"autoIndexId:false is not allowed for collection {database}.{name} because it can be replicated",
        )
    return True if value else None


def _engine_options(_database: str, _name: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    for engine, settings in value.items():
        if not isinstance(settings, Mapping):
            raise CommandError(
                ErrorCode.BadValue, f"'storageEngine.{engine}' has to be an embedded document."
            )
    return dict(value) or None


def _index_defaults(_database: str, _name: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    for field, settings in value.items():
        if field != "storageEngine":
            raise CommandError(
                ErrorCode.IDLUnknownField,
                f"BSON field 'create.indexOptionDefaults.{field}' is an unknown field.",
            )
        if not isinstance(settings, Mapping):
            raise CommandError(ErrorCode.TypeMismatch, "'storageEngine' must be an embedded document")
    return dict(value) or None


def _encrypted_fields(_database: str, _name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    for field in value:
        if field not in _OF_ENCRYPTION:
            raise CommandError(
                ErrorCode.IDLUnknownField, f"BSON field 'create.encryptedFields.{field}' is an unknown field."
            )
    if "fields" not in value:
        raise CommandError(
            ErrorCode.IDLFailedToParse,
            "BSON field 'create.encryptedFields.fields' is missing but a required field",
        )
    return dict(value)


def _one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise CommandError(
            ErrorCode.BadValue,
            f"Enumeration value '{value}' for field 'create.{option}' is not a valid value.",
        )
    return value


def _bad_index(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidIndexSpecificationOption, reason)


_CHECKS: Final[Mapping[str, Callable[[str, str, Any], Any]]] = {
    "capped": _if_true,
    "size": check_capped_size,
    "max": check_capped_max,
    "autoIndexId": _auto_index_id,
    "temp": _if_true,
    "recordPreImages": check_recorded_images,
    "changeStreamPreAndPostImages": check_images,
    "storageEngine": _engine_options,
    "indexOptionDefaults": _index_defaults,
    "validator": check_validator,
    "validationLevel": check_validation_level,
    "validationAction": check_validation_action,
    "collation": check_collation,
    "clusteredIndex": _clustered_index,
    "expireAfterSeconds": check_expire_after_seconds,
    "timeseries": timeseries_options,
    "encryptedFields": _encrypted_fields,
}
