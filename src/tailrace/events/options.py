"""The options of `$changeStream`, checked once.

`ChangeStreamOptions.parse` goes through the specification the way the server does: first every field by
itself (known, not repeated, of the right type, of a known value), then what the fields mean together and on
this scope, in the server's order, so that a specification with several faults is answered with the same one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bson import Timestamp

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.resume_token import CURRENT_VERSION, ResumeToken, cluster_time_of
from tailrace.events.scope import CLUSTER_DATABASE, INTERNAL_DATABASES, Scope, ScopeKind

FULL_DOCUMENT: Final = ("default", "updateLookup", "whenAvailable", "required")
FULL_DOCUMENT_BEFORE_CHANGE: Final = ("off", "whenAvailable", "required")
READER_VERSIONS: Final = ("v1", "v2")

_EVENT_WITHOUT_COLLECTION: Final = "endOfTransaction"


@dataclass(frozen=True, slots=True)
class ChangeStreamOptions:
    """One stream's options; the defaults are those of an empty specification."""

    resume_after: ResumeToken | None = None
    start_after: ResumeToken | None = None
    start_at_operation_time: int | None = None
    """A cluster time: seconds in the high 32 bits, increment in the low."""
    full_document: str = "default"
    full_document_before_change: str = "off"
    all_changes_for_cluster: bool = False
    show_expanded_events: bool = False
    show_system_events: bool = False
    show_migration_events: bool = False
    show_raw_update_description: bool = False
    show_commit_timestamp: bool = False
    allow_to_run_on_config_db: bool = False
    allow_to_run_on_system_ns: bool = False
    match_collection_uuid_for_update_lookup: bool = False
    ignore_removed_shards: bool = False
    version: str | None = None
    """Which reader a router uses; not the version of tokens."""
    supported_events: tuple[str, ...] | None = None
    given: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The specification as it came."""

    @classmethod
    def parse(
        cls,
        spec: Mapping[str, Any] | bytes,
        scope: Scope,
        *,
        on_router: bool = False,
        is_replica_set: bool = True,
    ) -> "ChangeStreamOptions":
        """Read and check a specification: decoded values, or raw BSON to notice repeated fields.

        >>> options = ChangeStreamOptions.parse({"fullDocument": "updateLookup"}, Scope.parse_ns("shop"))
        >>> options.full_document, options.resume_token
        ('updateLookup', None)
        """
        given = _given(spec)
        found = {"all_changes_for_cluster": scope.kind is ScopeKind.CLUSTER, **_check_fields(given)}
        _check_deployment(found, scope, on_router=on_router, is_replica_set=is_replica_set)
        _check_start(found)
        for name in ("resume_after", "start_after"):
            if name in found:
                found[name] = _read_token(found[name])
        options = cls(**found, given=dict(given))
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
        """The version of tokens behind the resume point."""
        token = self.resume_token
        return CURRENT_VERSION if token is None else max(CURRENT_VERSION, token.version)

    def to_spec(self) -> dict[str, Any]:
        """The specification again: what the user set, in the user's order."""
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
    if not isinstance(spec, Mapping):
        raise CommandError(6188500, f"$changeStream must be an object, not {type_name(spec)}")
    return list(spec.items())


def _check_fields(given: list[tuple[str, Any]]) -> dict[str, Any]:
    """Each option by itself; gives back the fields of `ChangeStreamOptions` that were set."""
    found: dict[str, Any] = {}
    for name, value in given:
        if name not in _FIELDS:
            raise CommandError(ErrorCode.IDLUnknownField, f"$changeStream has no option {name!r}")
        attribute, read = _FIELDS[name]
        if attribute in found:
            raise CommandError(ErrorCode.IDLDuplicateField, f"$changeStream has the option {name} twice")
        found[attribute] = read(name, value)
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


def _check_start(found: Mapping[str, Any]) -> None:
    uses_lookup = found.get("full_document") == "updateLookup"
    if found.get("match_collection_uuid_for_update_lookup", False) and not uses_lookup:
        raise CommandError(
            12888201, "matchCollectionUUIDForUpdateLookup needs fullDocument to be updateLookup"
        )
    if "resume_after" in found and "start_after" in found:
        raise CommandError(50865, "only one of resumeAfter and startAfter can be given")


def _read_token(document: Mapping[str, Any]) -> ResumeToken:
    token = ResumeToken.parse(documents.encode(document))
    # A token as such may start with anything, but a stream needs to know where to read.
    cluster_time_of(document["_data"])
    return token


def _invalid_token(message: str) -> CommandError:
    return CommandError(ErrorCode.InvalidResumeToken, message)


def _wrong_type(name: str, value: Any, wanted: str) -> CommandError:
    message = f"the $changeStream option {name} must be {wanted}, not {type_name(value)}"
    return CommandError(ErrorCode.TypeMismatch, message)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(name, value, "a boolean")
    return value


def _token_document(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, "a resume token document")
    return value


def _cluster_time(name: str, value: Any) -> int:
    if not isinstance(value, Timestamp):
        raise _wrong_type(name, value, "a timestamp")
    return from_timestamp(value)


def _one_of(choices: tuple[str, ...]) -> Callable[[str, Any], str]:
    def read(name: str, value: Any) -> str:
        if type(value) is not str:
            raise _wrong_type(name, value, "a string")
        if value not in choices:
            message = f"the $changeStream option {name} must be one of {', '.join(choices)}, not {value!r}"
            raise CommandError(ErrorCode.BadValue, message)
        return value

    return read


def _names(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong_type(name, value, "an array of strings")
    for item in value:
        if type(item) is not str:
            raise _wrong_type(name, item, "an array of strings")
    return tuple(value)


# Option: its field above, and what reads its value.
_FIELDS: Final[dict[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "resumeAfter": ("resume_after", _token_document),
    "startAfter": ("start_after", _token_document),
    "startAtOperationTime": ("start_at_operation_time", _cluster_time),
    "fullDocument": ("full_document", _one_of(FULL_DOCUMENT)),
    "fullDocumentBeforeChange": ("full_document_before_change", _one_of(FULL_DOCUMENT_BEFORE_CHANGE)),
    "allChangesForCluster": ("all_changes_for_cluster", _flag),
    "showExpandedEvents": ("show_expanded_events", _flag),
    "showSystemEvents": ("show_system_events", _flag),
    "showMigrationEvents": ("show_migration_events", _flag),
    "showRawUpdateDescription": ("show_raw_update_description", _flag),
    "showCommitTimestamp": ("show_commit_timestamp", _flag),
    "allowToRunOnConfigDB": ("allow_to_run_on_config_db", _flag),
    "allowToRunOnSystemNS": ("allow_to_run_on_system_ns", _flag),
    "matchCollectionUUIDForUpdateLookup": ("match_collection_uuid_for_update_lookup", _flag),
    "ignoreRemovedShards": ("ignore_removed_shards", _flag),
    "version": ("version", _one_of(READER_VERSIONS)),
    "supportedEvents": ("supported_events", _names),
}
