"""Specifications of indexes of the kinds `text`, `2d`, `2dsphere` and wildcard: checked and completed."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Decimal128

from tailrace.bson.compare import type_name
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.ddl.key_pattern import BUCKET_KIND, cannot_create, given_kind, index_kind
from tailrace.query.reshape import compile_stage

MAX_WEIGHT: Final = 100_000
_TEXT_VERSIONS: Final = (1, 2, 3)
_SPHERE_VERSIONS: Final = (1, 2, 3)
_MOST_BITS: Final = 32
_TEXT_DEFAULTS: Final[Mapping[str, Any]] = {"default_language": "english", "language_override": "language"}
_LANGUAGES: Final = frozenset(
    {
        "danish", "da", "dutch", "nl", "english", "en", "finnish", "fi", "french", "fr", "german", "de",
        "hungarian", "hu", "italian", "it", "norwegian", "nb", "portuguese", "pt", "romanian", "ro",
        "russian", "ru", "spanish", "es", "swedish", "sv", "turkish", "tr", "none",
    }
)  # fmt: skip


def completed_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """The specification with the fields that MongoDB adds for its kind."""
    kind = index_kind(spec["key"])
    if kind in ("2dsphere", BUCKET_KIND):
        version = spec.get("2dsphereIndexVersion", _SPHERE_VERSIONS[-1])
        if version not in _SPHERE_VERSIONS:
            raise cannot_create(
                f"unsupported geo index version {{ 2dsphereIndexVersion : {shell(version)} }}"
            )
        return {**spec, "2dsphereIndexVersion": version}
    if kind == "2d":
        _check_flat(spec)
    return _text_spec(spec) if kind == "text" else spec


def check_wildcard(given: Mapping[str, Any]) -> None:
    """Refuse a projection that no index, or not this one, can have."""
    projection = given["wildcardProjection"]
    if given_kind(given) != "wildcard":
        raise CommandError(
            ErrorCode.BadValue, "The field 'wildcardProjection' is only allowed in an 'wildcard' index"
        )
    if not isinstance(projection, Mapping):
        raise CommandError(
            ErrorCode.TypeMismatch,
            "The field 'wildcardProjection' must be a non-empty object, but got " + type_name(projection),
        )
    if "$**" not in given["key"]:
        raise CommandError(
            ErrorCode.FailedToParse,
            "The field 'wildcardProjection' is only allowed when 'key' is {\"$**\": ±1}",
        )
    if not projection:
        raise CommandError(ErrorCode.FailedToParse, "The 'wildcardProjection' field can't be an empty object")
    _check_projection(projection)
    compile_stage("$project", dict(projection))


def _check_projection(projection: Mapping[str, Any]) -> None:
    for name, value in projection.items():
        if name.startswith("$") or not isinstance(value, bool | int | float | Decimal128 | Mapping):
            raise CommandError(51271, "Bad projection specification, cannot use computed fields")
        if isinstance(value, Mapping):
            _check_projection(value)


def _check_flat(spec: Mapping[str, Any]) -> None:
    kinds = list(spec["key"].values())
    if kinds.count("2d") > 1:
        raise CommandError(16800, "can't have 2 geo fields")
    if kinds[0] != "2d":
        raise CommandError(16801, "2d has to be first in index")
    bits = spec.get("bits", _MOST_BITS)
    if not 0 < bits <= _MOST_BITS:
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"bits for hash must be > 0 and <= {_MOST_BITS}, but {shell(bits)} bits were specified",
        )
    low, high = spec.get("min", -180), spec.get("max", 180)
    if low >= high:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "region for hash must be valid and have positive area, but "
            f"[{shell(low)}, {shell(high)}] was specified",
        )


def _text_spec(spec: dict[str, Any]) -> dict[str, Any]:
    given = spec.get("weights", {})
    if not isinstance(given, Mapping):
        raise cannot_create("text index option 'weights' must be an object")
    if spec.get("textIndexVersion", _TEXT_VERSIONS[-1]) not in _TEXT_VERSIONS:
        raise cannot_create(f"bad textIndexVersion: {shell(spec['textIndexVersion'])}")
    key, weights = _text_key(spec["key"], given)
    for path, weight in weights.items():
        _check_weight(path, weight)
    languages = {option: spec.get(option, default) for option, default in _TEXT_DEFAULTS.items()}
    if languages["default_language"].lower() not in _LANGUAGES:
        raise cannot_create("default_language is not valid")
    override = languages["language_override"]
    if not override or override.startswith("$") or "." in override:
        raise cannot_create("language_override is not valid")
    version = spec.get("textIndexVersion", _TEXT_VERSIONS[-1])
    kept = {option: value for option, value in spec.items() if option != "textIndexVersion"}
    shown = {path: int(weight) for path, weight in sorted(weights.items())}
    return {**kept, "key": key, "weights": shown, **languages, "textIndexVersion": version}


def _text_key(given: Mapping[str, Any], weights: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The key as stored, and the weights of all fields."""
    key: dict[str, Any] = {}
    weighted = dict(weights)
    was_text = None
    for path, direction in given.items():
        if direction == "text":
            if was_text is False and "_fts" in key:
                raise cannot_create("'text' fields in index must all be adjacent")
            key |= {"_fts": "text", "_ftsx": 1}
            if path != "_fts":
                weighted.setdefault(path, 1)
        elif path != "_ftsx":
            key[path] = direction
        was_text = direction == "text" or path == "_ftsx"
    if not weighted:
        raise cannot_create("text index option 'weights' must specify fields or the wildcard")
    return key, weighted


def _check_weight(path: str, weight: Any) -> None:
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise cannot_create("weight for text index needs numeric type")
    if not 0 < weight < MAX_WEIGHT:
        raise cannot_create(
            f"text index weight must be in the exclusive interval (0,{MAX_WEIGHT}) but found: {shell(weight)}"
        )
    if path != "$**" and any(part.startswith("$") for part in path.split(".")):
        raise cannot_create("weight cannot have path component with $ prefix")
