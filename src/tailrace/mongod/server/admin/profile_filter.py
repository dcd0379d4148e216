"""The filter of a profiler, which decides in place of level, `slowms` and `sampleRate`."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.match import compile_match

_FIELDS: Final = frozenset(
    {"op", "ns", "command", "originatingCommand", "cursorid", "replanned", "replanReason", "keysExamined",
     "docsExamined", "hasSortStage", "usedDisk", "fromMultiPlanner", "nMatched", "nModified", "nUpserted",
     "ninserted", "ndeleted", "keysInserted", "keysDeleted", "prepareReadConflicts", "writeConflicts",
     "cursorExhausted", "numYield", "nreturned", "queryHash", "planCacheKey", "queryFramework", "locks",
     "flowControl", "readConcern", "writeConcern", "storage", "ok", "errMsg", "errName", "errCode",
     "responseLength", "protocol", "millis", "planSummary", "planningTimeMicros", "execStats", "ts", "client",
     "appName", "allUsers", "user", "nBatches", "tid", "cpuNanos", "remoteOpWaitMillis"}
)  # fmt: skip
_UNKNOWN_FIELD: Final = 4910200
_LOGICAL: Final = ("$and", "$or", "$nor")


class ProfileFilter:
    """A filter on entries; raises if it uses a field that they do not have."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.matches = compile_match(spec)
        unknown = sorted(_paths(spec) - _FIELDS)
        if unknown:
            fields = " ".join(unknown)
            reason = f"No such field (or fields) available for profile filter: {fields}"
            raise CommandError(_UNKNOWN_FIELD, reason)
        self.shown = _written_out(spec)
        """The filter as the server shows it, with its operators."""


def _paths(spec: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for name, value in spec.items():
        if name in _LOGICAL:
            for each in value:
                found |= _paths(each)
        elif not name.startswith("$"):
            found.add(name.partition(".")[0])
    return found


def _written_out(spec: Mapping[str, Any]) -> dict[str, Any]:
    conditions = [
        {name: [_written_out(each) for each in value]}
        if name in _LOGICAL
        else {name: value if name.startswith("$") or _is_operators(value) else {"$eq": value}}
        for name, value in spec.items()
    ]
    return conditions[0] if len(conditions) == 1 else {"$and": conditions} if conditions else {}


def _is_operators(value: Any) -> bool:
    return isinstance(value, Mapping) and next(iter(value), "").startswith("$")
