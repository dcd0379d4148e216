"""Random choices a test makes about a history: which stream to open on it, with which options."""

import random
from typing import Any, Final

from tailrace.model.scope import Scope
from tailrace.testing.background import METRICS
from tailrace.testing.deployment import INTERNAL_DATABASES
from tailrace.testing.history import History
from tailrace.testing.streams import Stream

_FLAGS: Final = ("showExpandedEvents", "showSystemEvents", "showMigrationEvents", "showRawUpdateDescription")


def is_users(namespace: str) -> bool:
    """Whether an ordinary stream shows what happens in a namespace."""
    database, _, name = namespace.partition(".")
    return database not in INTERNAL_DATABASES and not name.startswith("system.") and name != METRICS


def any_scope(history: History, rng: random.Random) -> Scope:
    """The cluster, or a database or collection in which something happened; each one time in three."""
    users = [namespace for namespace in history.namespaces if is_users(namespace)]
    kind = rng.randrange(3)
    if not users or not kind:
        return Scope.cluster()
    namespace = rng.choice(users)
    return Scope.parse_ns(namespace if kind == 1 else namespace.partition(".")[0])


def any_spec(history: History, rng: random.Random) -> dict[str, Any]:
    """Options of a stream from the beginning of the history on."""
    spec: dict[str, Any] = {flag: True for flag in _FLAGS if rng.random() < 0.4}
    if rng.random() < 0.5:
        spec["fullDocument"] = rng.choice(("updateLookup", "whenAvailable"))
    if rng.random() < 0.5:
        spec["fullDocumentBeforeChange"] = "whenAvailable"
    return {**spec, "startAtOperationTime": history.start}


def any_stream(history: History, rng: random.Random) -> Stream:
    """A stream over the history."""
    scope = any_scope(history, rng)
    return Stream(history, scope, any_spec(history, rng), raw_data=rng.random() < 0.3)
