"""The options of a new collection: checked, completed and in the order of the catalog and the oplog.

An option that is off or has MongoDB's default value is not stored, so that equivalent options compare equal.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.store.catalog import ID_INDEX_NAME
from tailrace.mongod.store.ddl.timeseries_options import timeseries_options
from tailrace.mongod.store.shell_notation import shell
from tailrace.query.collation import Collation
from tailrace.query.match import compile_match

CATALOG_ORDER: Final = (
    "capped", "size", "max", "autoIndexId", "temp", "changeStreamPreAndPostImages", "storageEngine",
    "indexOptionDefaults", "validator", "validationLevel", "validationAction", "collation", "clusteredIndex",
    "expireAfterSeconds", "timeseries", "encryptedFields",
)  # fmt: skip
VALIDATION_LEVELS: Final = ("off", "strict", "moderate")
VALIDATION_ACTIONS: Final = ("error", "warn", "errorAndLog")
MAX_CAPPED_SIZE: Final = 1 << 50
MAX_EXPIRE_AFTER_SECONDS: Final = 2**31 - 1
_WITH_TIMESERIES: Final = frozenset(
    {"timeseries", "storageEngine", "indexOptionDefaults", "collation", "expireAfterSeconds", "temp"}
)


def collection_options(database: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as the catalog stores them; ``given`` has values of the right BSON types."""
    options = {option: value for option, value in given.items() if value is not None}
    _check_capped(options)
    if "timeseries" in options:
        _check_timeseries(options)
    checked: dict[str, Any] = {}
    for option in CATALOG_ORDER:
        if option in options:
            value = _CHECKS[option](database, name, options[option])
            if value is not None:
                checked[option] = value
    if "timeseries" in checked:
        # Its records are buckets, sorted by an `_id` that begins with their time.
        return in_catalog_order({**checked, "clusteredIndex": True})
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
    return _one_of("validationAction", action, VALIDATION_ACTIONS)


def check_expire_after_seconds(_database: str, _name: str, seconds: int) -> Int64:
    if not 0 <= seconds <= MAX_EXPIRE_AFTER_SECONDS:
        raise invalid(f"'expireAfterSeconds' must be from 0 to {MAX_EXPIRE_AFTER_SECONDS}, not {seconds}")
    return Int64(seconds)


def check_capped_size(_database: str, _name: str, size: int) -> Int64:
    """A size in bytes; since MongoDB 6.2 it is not rounded."""
    if not 1 <= size <= MAX_CAPPED_SIZE:
        raise CommandError(
            ErrorCode.BadValue, f"the size of a capped collection must be from 1 to {MAX_CAPPED_SIZE}: {size}"
        )
    return Int64(size)


def check_capped_max(_database: str, _name: str, number: int) -> Int64 | None:
    """A number of documents; None (no limit) for zero and below."""
    if number >= 2**31:
        raise CommandError(ErrorCode.BadValue, "max in a capped collection has to be < 2^31 or not set")
    return Int64(number) if number > 0 else None


def check_collation(_database: str, _name: str, collation: Mapping[str, Any]) -> dict[str, Any] | None:
    """The complete collation; None for the simple one."""
    parsed = Collation.parse(collation)
    return None if parsed is None else parsed.to_document()


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
        raise invalid("a capped collection cannot have a 'clusteredIndex'")
    if clustered and "idIndex" in options:
        raise invalid("The 'clusteredIndex' option is not supported with the 'idIndex' option")
    if clustered and options.get("autoIndexId") is False:
        raise invalid("The 'clusteredIndex' option does not support {autoIndexId: false}")


def _clustered_index(_database: str, _name: str, spec: Mapping[str, Any] | bool) -> dict[str, Any] | None:
    if isinstance(spec, bool):
        if spec:
            raise invalid("'clusteredIndex: true' is only for time-series buckets; give {key, unique}")
        return None
    for field in spec:
        if field not in ("v", "key", "name", "unique"):
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
    if spec["unique"] is not True:
        raise _bad_index("The clusteredIndex option requires unique: true to be specified")
    if spec.get("v", 2) != 2:
        raise _bad_index(f"Expected version for clusteredIndex is 2, not {shell(spec['v'])}")
    name = spec.get("name", ID_INDEX_NAME)
    if not isinstance(name, str) or not name:
        raise _bad_index("the name of a clusteredIndex has to be a string that is not empty")
    return {"v": 2, "key": {"_id": 1}, "name": name, "unique": True}


def _check_id_index(spec: Mapping[str, Any] | None, checked: Mapping[str, Any]) -> None:
    if spec is None:
        return
    for field, value in spec.items():
        if field == "collation":
            if Collation.parse(value) != _parsed(checked.get("collation")):
                raise CommandError(
                    ErrorCode.BadValue, "'idIndex' must have the same collation as the collection"
                )
        elif field not in ("key", "name", "v", "ns"):
            raise _bad_index(f"The field '{field}' is not valid for an _id index specification")
    if spec.get("key") != {"_id": 1}:
        raise CommandError(
            ErrorCode.BadValue, "The field 'key' for an _id index must be {_id: 1}, but got "
            + shell(spec.get("key")),
        )  # fmt: skip
    if spec.get("name", ID_INDEX_NAME) != ID_INDEX_NAME:
        raise CommandError(ErrorCode.BadValue, f"The _id index must have the name '{ID_INDEX_NAME}'")
    if spec.get("v", 2) not in (1, 2):
        raise CommandError(ErrorCode.CannotCreateIndex, f"Invalid index version {shell(spec['v'])}")


def _parsed(collation: Mapping[str, Any] | None) -> Collation | None:
    return None if collation is None else Collation.parse(collation)


def _if_true(_database: str, _name: str, value: bool) -> bool | None:
    return True if value else None


def _auto_index_id(database: str, name: str, value: bool) -> None:
    if not value and database != "local":
        raise invalid(f"autoIndexId:false is not allowed for collection {database}.{name}")


def _engine_options(_database: str, _name: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    for engine, settings in value.items():
        if not isinstance(settings, Mapping):
            raise invalid(f"storageEngine.{engine} must be an embedded document")
    return dict(value) or None


def _index_defaults(_database: str, _name: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    for field, settings in value.items():
        if field != "storageEngine":
            raise invalid(f"'{field}' is not supported in 'indexOptionDefaults'")
        if not isinstance(settings, Mapping):
            raise CommandError(ErrorCode.TypeMismatch, "'storageEngine' must be an embedded document")
    return dict(value) or None


def _as_is(_database: str, _name: str, value: Mapping[str, Any]) -> dict[str, Any]:
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
    "encryptedFields": _as_is,
}
