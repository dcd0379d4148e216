"""The options of `$changeStream`, each declared in one place, checked once.

A field of `ChangeStreamOptions` declares an option: its name, how its value is read and checked, its default,
and the types of events it hides. `OPTIONS` is the table of all declarations; everything that accepts options
(the server, replay, Spark's data source, the client) reads it.

`ChangeStreamOptions.parse` checks a specification in the server's order, so that one with several faults gets
the server's error: first each field (known, not repeated, of the right type, of a known value), then what the
fields mean together and on this scope.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Annotated, Any, Final, get_type_hints

from bson import Timestamp

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import CLASSIC_TYPES
from tailrace.events.cluster_time import ClusterTime, from_timestamp
from tailrace.events.resume_token import CURRENT_VERSION, ResumeToken, check_token_fields, cluster_time_of
from tailrace.events.scope import CLUSTER_DATABASE, INTERNAL_DATABASES, Scope, ScopeKind
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease

FULL_DOCUMENT: Final = ("default", "updateLookup", "whenAvailable", "required")
FULL_DOCUMENT_BEFORE_CHANGE: Final = ("off", "whenAvailable", "required")
READER_VERSIONS: Final = ("v1", "v2")

_EVENT_WITHOUT_COLLECTION: Final = "endOfTransaction"


class OptionForm(Enum):
    """What an option's value is; Spark reads it from text by this."""

    FLAG = "a boolean"
    TEXT = "a string"
    TOKEN = "a resume token document"
    TIME = "a timestamp"
    NAMES = "an array of strings"


@dataclass(frozen=True)
class OptionDeclaration:
    """One option of `$changeStream`."""

    name: str
    form: OptionForm = OptionForm.FLAG
    choices: tuple[str, ...] = ()
    """The values that a text may have; all, if empty."""
    attribute: str = ""
    """The field of `ChangeStreamOptions` that has the value; "" if it has none."""
    types: Callable[[Any], frozenset[str] | None] | None = None
    """Called with the value, returns the types of events that the stream shows; None for all."""

    @property
    def keyword(self) -> str:
        """Its name in Python."""
        return self.attribute or re.sub("[A-Z]", lambda found: "_" + found[0].lower(), self.name)

    def read(self, value: Any) -> Any:
        """Check a value of the specification, and return what `ChangeStreamOptions` stores."""
        return _READERS[self.form](self, value)


def _expanded_types(value: bool) -> frozenset[str] | None:
    return None if value else CLASSIC_TYPES


@dataclass(frozen=True, slots=True)
class ChangeStreamOptions:
    """One stream's options; the defaults are those of an empty specification."""

    resume_after: Annotated[ResumeToken | None, OptionDeclaration("resumeAfter", OptionForm.TOKEN)] = None
    start_after: Annotated[ResumeToken | None, OptionDeclaration("startAfter", OptionForm.TOKEN)] = None
    start_at_operation_time: Annotated[
        ClusterTime | None, OptionDeclaration("startAtOperationTime", OptionForm.TIME)
    ] = None
    full_document: Annotated[str, OptionDeclaration("fullDocument", OptionForm.TEXT, FULL_DOCUMENT)] = (
        "default"
    )
    full_document_before_change: Annotated[
        str, OptionDeclaration("fullDocumentBeforeChange", OptionForm.TEXT, FULL_DOCUMENT_BEFORE_CHANGE)
    ] = "off"
    all_changes_for_cluster: Annotated[bool, OptionDeclaration("allChangesForCluster")] = False
    show_expanded_events: Annotated[bool, OptionDeclaration("showExpandedEvents", types=_expanded_types)] = (
        False
    )
    show_system_events: Annotated[bool, OptionDeclaration("showSystemEvents")] = False
    show_migration_events: Annotated[bool, OptionDeclaration("showMigrationEvents")] = False
    show_raw_update_description: Annotated[bool, OptionDeclaration("showRawUpdateDescription")] = False
    show_commit_timestamp: Annotated[bool, OptionDeclaration("showCommitTimestamp")] = False
    allow_to_run_on_config_db: Annotated[bool, OptionDeclaration("allowToRunOnConfigDB")] = False
    allow_to_run_on_system_ns: Annotated[bool, OptionDeclaration("allowToRunOnSystemNS")] = False
    match_collection_uuid_for_update_lookup: Annotated[
        bool, OptionDeclaration("matchCollectionUUIDForUpdateLookup")
    ] = False
    ignore_removed_shards: Annotated[bool, OptionDeclaration("ignoreRemovedShards")] = False
    version: Annotated[str | None, OptionDeclaration("version", OptionForm.TEXT, READER_VERSIONS)] = None
    """Which reader a router uses; not the version of tokens."""
    supported_events: Annotated[
        tuple[str, ...] | None, OptionDeclaration("supportedEvents", OptionForm.NAMES)
    ] = None
    others: tuple[tuple[str, Any], ...] = ()
    """Values of options without a field, by name."""
    given: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The specification as it was received."""

    @classmethod
    def parse(
        cls,
        spec: Mapping[str, Any] | bytes,
        scope: Scope,
        *,
        on_router: bool = False,
        is_replica_set: bool = True,
        release: StreamRelease = CURRENT_RELEASE,
    ) -> "ChangeStreamOptions":
        """Read and check a specification: decoded values, or raw BSON to notice repeated fields.

        >>> options = ChangeStreamOptions.parse({"fullDocument": "updateLookup"}, Scope.parse_ns("shop"))
        >>> options.full_document, options.resume_token
        ('updateLookup', None)
        """
        given = _given(spec)
        values = _check_fields(given)
        found = {
            "all_changes_for_cluster": scope.kind is ScopeKind.CLUSTER,
            **{OPTIONS[name].attribute: value for name, value in values.items() if OPTIONS[name].attribute},
        }
        _check_deployment(found, scope, on_router=on_router, is_replica_set=is_replica_set)
        _check_start(found, release)
        for name in ("resume_after", "start_after"):
            if name in found:
                found[name] = _read_token(found[name])
        others = tuple((name, value) for name, value in values.items() if not OPTIONS[name].attribute)
        options = cls(**found, others=others, given=dict(given))
        options._check_token(scope)
        options._check_supported_events(on_router)
        return options

    @property
    def resume_token(self) -> ResumeToken | None:
        """Where the stream starts, as a token; None means "now"."""
        if self.start_at_operation_time is not None:
            return ResumeToken.high_water_mark(self.start_at_operation_time)
        return self.start_after or self.resume_after

    @property
    def token_version(self) -> int:
        """The version of tokens after the resume point."""
        token = self.resume_token
        return CURRENT_VERSION if token is None else max(CURRENT_VERSION, token.version)

    @property
    def shown_types(self) -> frozenset[str] | None:
        """The types of events that the stream shows; None for all."""
        others = dict(self.others)
        shown: frozenset[str] | None = None
        for option in OPTIONS.values():
            if option.types is None:
                continue
            value = getattr(self, option.attribute) if option.attribute else others.get(option.name)
            types = option.types(value)
            if types is not None:
                shown = types if shown is None else shown & types
        return shown

    def to_spec(self) -> dict[str, Any]:
        """Return the specification: what the user set, in the user's order."""
        return dict(self.given)

    def _check_token(self, scope: Scope) -> None:
        token = self.start_after or self.resume_after
        if token is None:
            return
        if self.start_at_operation_time is not None:
            raise CommandError(40674, "startAtOperationTime cannot be combined with a resume token")
        if self.resume_after is not None and token.from_invalidate:
            raise _invalid_token("resumeAfter cannot go on after an invalidate event; use startAfter")
        belongs_to_collection = token.uuid is not None or token.operation_type == _EVENT_WITHOUT_COLLECTION
        if scope.kind is ScopeKind.COLLECTION and not (belongs_to_collection or token.is_high_water_mark):
            raise _invalid_token(
                f"the resume token names an event that belongs to no collection; {scope} cannot resume there"
            )
        token.key_string()  # the stream's first position is this token, so one that cannot be written fails

    def _check_supported_events(self, on_router: bool) -> None:
        names = self.supported_events
        if names is None:
            return
        if on_router:
            raise CommandError(10498501, "supportedEvents is not allowed on a router")
        if "" in names or len(set(names)) != len(names):
            raise CommandError(10498500, "supportedEvents must not hold an empty or a repeated name")


def _given(spec: Mapping[str, Any] | bytes) -> list[tuple[str, Any]]:
    if isinstance(spec, bytes):
        return [
            (name.decode(errors="replace"), documents.decode_value(spec, kind, start, end))
            for kind, name, start, end in rawbson.elements(spec)
        ]
    check_is_document(spec)
    return list(spec.items())


def check_is_document(spec: object) -> None:
    """Refuse a value of `$changeStream` that is no document."""
    if not isinstance(spec, Mapping):
        raise CommandError(6188500, f"$changeStream must be an object, not {type_name(spec)}")


def _check_fields(given: list[tuple[str, Any]]) -> dict[str, Any]:
    """Check each option on its own; returns the values by name. Null is as if not given, but for a flag."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for name, value in given:
        option = OPTIONS.get(name)
        if option is None:
            raise CommandError(ErrorCode.IDLUnknownField, f"$changeStream has no option {name!r}")
        if name in seen:
            raise CommandError(ErrorCode.IDLDuplicateField, f"$changeStream has the option {name} twice")
        seen.add(name)
        if value is not None or option.form is OptionForm.FLAG:
            found[name] = option.read(value)
    return found


def _check_deployment(
    found: Mapping[str, Any], scope: Scope, *, on_router: bool, is_replica_set: bool
) -> None:
    """What is allowed where."""
    if not is_replica_set and not on_router:
        raise CommandError(40573, "$changeStream works on replica sets and sharded clusters only")
    for_cluster = found["all_changes_for_cluster"]
    if for_cluster and (scope.db != CLUSTER_DATABASE or scope.coll is not None):
        raise CommandError(
            ErrorCode.InvalidOptions,
            f"allChangesForCluster needs the database {CLUSTER_DATABASE} and no collection, not {scope}",
        )
    is_allowed_config = scope.db == "config" and found.get("allow_to_run_on_config_db", False)
    if scope.db in INTERNAL_DATABASES and not for_cluster and not is_allowed_config:
        raise CommandError(
            ErrorCode.InvalidNamespace, f"$changeStream cannot run on the internal database {scope.db}"
        )
    is_system = scope.coll is not None and scope.coll.startswith("system.")
    if is_system and (on_router or not found.get("allow_to_run_on_system_ns", False)):
        raise CommandError(ErrorCode.InvalidNamespace, f"$changeStream cannot run on the system {scope}")
    if on_router and found.get("show_migration_events", False):
        raise CommandError(31123, "showMigrationEvents is not available on a router")


def _check_start(found: Mapping[str, Any], release: StreamRelease) -> None:
    uses_lookup = found.get("full_document") == "updateLookup" or not release.matches_uuids_of_lookups_only
    if found.get("match_collection_uuid_for_update_lookup", False) and not uses_lookup:
        raise CommandError(
            12888201, "matchCollectionUUIDForUpdateLookup needs fullDocument to be updateLookup"
        )
    if "resume_after" in found and "start_after" in found:
        raise CommandError(50865, "only one of resumeAfter and startAfter can be given")


def _read_token(document: Mapping[str, Any]) -> ResumeToken:
    token = ResumeToken.parse(documents.encode(document))
    # A token may start with anything, but a stream needs a cluster time to read from.
    cluster_time_of(document["_data"])
    return token


def _invalid_token(message: str) -> CommandError:
    return CommandError(ErrorCode.InvalidResumeToken, message)


def _wrong_type(option: OptionDeclaration, value: Any) -> CommandError:
    message = f"the $changeStream option {option.name} must be {option.form.value}, not {type_name(value)}"
    return CommandError(ErrorCode.TypeMismatch, message)


def _flag(option: OptionDeclaration, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(option, value)
    return value


def _token_document(option: OptionDeclaration, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong_type(option, value)
    check_token_fields(documents.encode(value))
    return value


def _cluster_time(option: OptionDeclaration, value: Any) -> ClusterTime:
    if not isinstance(value, Timestamp):
        raise _wrong_type(option, value)
    return from_timestamp(value)


def _text(option: OptionDeclaration, value: Any) -> str:
    if type(value) is not str:
        raise _wrong_type(option, value)
    choices = option.choices
    if choices and value not in choices:
        message = f"the $changeStream option {option.name} must be one of {', '.join(choices)}, not {value!r}"
        raise CommandError(ErrorCode.BadValue, message)
    return value


def _names(option: OptionDeclaration, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong_type(option, value)
    for item in value:
        if type(item) is not str:
            raise _wrong_type(option, item)
    return tuple(value)


_READERS: Final[dict[OptionForm, Callable[[OptionDeclaration, Any], Any]]] = {
    OptionForm.FLAG: _flag,
    OptionForm.TEXT: _text,
    OptionForm.TOKEN: _token_document,
    OptionForm.TIME: _cluster_time,
    OptionForm.NAMES: _names,
}

OPTIONS: Final[dict[str, OptionDeclaration]] = {
    declared.name: replace(declared, attribute=attribute)
    for attribute, hint in get_type_hints(ChangeStreamOptions, include_extras=True).items()
    for declared in getattr(hint, "__metadata__", ())
}
"""All options by name."""
