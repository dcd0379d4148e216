"""Which streams can be made of recorded events, and why others cannot."""

from collections.abc import Iterator
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES, ScopeKind
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.rewrites.entry_match import mentions_sessions

_IDENTITY: Final = "the stream of "


def recorded_identity(name: str) -> str:
    """Return the identity of a deployment whose stream is read, and of histories that are built from it."""
    return _IDENTITY + name


def is_recorded(identity: str) -> bool:
    return identity.startswith(_IDENTITY)


def check_recorded(plan: Plan) -> None:
    """Raise CommandNotSupported (115) if a stream shows what no event of the recorded stream has."""
    for option, reason in _missing(plan):
        raise CommandError(
            ErrorCode.CommandNotSupported,
            f"{option} cannot be served here: Tailrace reads the change stream of the deployment and not its "
            f"oplog, and {reason}; open this stream on the deployment itself",
        )


def _missing(plan: Plan) -> Iterator[tuple[str, str]]:
    options, scope = plan.options, plan.scope
    if options.show_system_events:
        yield "showSystemEvents", "the stream does not show system collections"
    if options.show_migration_events:
        yield "showMigrationEvents", "the stream does not show migrations"
    if options.show_raw_update_description:
        yield "showRawUpdateDescription", "the stream does not show updates as they were logged"
    if options.supported_events is not None:
        yield "supportedEvents", "the stream does not show internal events"
    is_internal = scope.kind is not ScopeKind.CLUSTER and scope.db in INTERNAL_DATABASES
    if is_internal or (scope.coll or "").startswith("system."):
        yield f"a stream on {scope}", "the stream does not show system collections"
    if mentions_sessions(plan.tested_on_entries):
        yield "a $match on lsid or txnNumber", "the stream does not show the sessions of retryable writes"
