"""The features of MongoDB releases that change streams and the drivers' handshake show.

The server can present itself as an older release, so that a driver can be tested on all of them. Everything
that depends on the release is in the tables of this file; the rest of the server asks a `Release`. What a
release does not have is refused as unknown: a command with 59, an option with 40415, a stage with 40324.

>>> release = Release.parse("4.0.6")
>>> release.wire_version, release.has(POST_BATCH_RESUME_TOKEN), release.stream.token_version
(7, False, 0)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.stages.user_stages import SPLIT
from tailrace.events.stream_release import StreamRelease
from tailrace.mongod.server.emulation.version import VERSION

Number: TypeAlias = tuple[int, int, int]
Since: TypeAlias = tuple[Number, ...]
"""The first release that has a feature, then the first of each older series that got it too."""

WIRE_VERSIONS: Final[Mapping[tuple[int, int], int]] = {
    (4, 0): 7, (4, 2): 8, (4, 4): 9, (5, 0): 13, (5, 1): 14, (5, 2): 15, (5, 3): 16, (6, 0): 17, (6, 1): 18,
    (6, 2): 19, (6, 3): 20, (7, 0): 21, (7, 1): 22, (7, 2): 23, (7, 3): 24, (8, 0): 25, (8, 1): 26,
    (8, 2): 27,
}  # fmt: skip
"""`maxWireVersion` of each series that can be presented; `minWireVersion` is 0 in all of them."""

POST_BATCH_RESUME_TOKEN: Final[Since] = ((4, 0, 7),)
TOKENS_1: Final[Since] = ((4, 0, 7),)
TOKENS_2: Final[Since] = ((6, 1, 0),)
KEPT_RESUME_TOKENS: Final[Since] = ((4, 2, 0),)
"""From then on a pipeline that changes or removes `_id` fails on the server, with 280."""
STREAM_ERROR_CODES: Final[Since] = ((4, 2, 0),)
"""ChangeStreamFatalError and ChangeStreamHistoryLost; before, there were numbers without a name."""
ERROR_LABELS: Final[Since] = ((4, 3, 1),)
"""RetryableWriteError and ResumableChangeStreamError; before, drivers decide by the code."""
NO_WRITES_PERFORMED: Final[Since] = ((6, 1, 0),)
KILLED_PLANS_RESUME: Final[Since] = ((8, 0, 0),)
"""QueryPlanKilled has the label ResumableChangeStreamError."""
STREAMING_HELLO: Final[Since] = ((4, 4, 0),)
"""`topologyVersion`, in `hello` and in errors of members that are not primary."""
CONNECTION_IDS: Final[Since] = ((4, 2, 0),)
ANY_COMMENT: Final[Since] = ((4, 4, 0),)
"""A comment may be of any type; before, only text."""
FULL_DOCUMENT_ENUM: Final[Since] = ((6, 0, 0),)
"""`whenAvailable` and `required`; and an unknown value is BadValue, before it was 40575."""
WALL_TIME: Final[Since] = ((6, 0, 0),)
NEGATIVE_SIZES_ARE_BAD_VALUES: Final[Since] = ((8, 0, 0),)
"""A negative `batchSize` is BadValue; before, it was 51024."""
NS_TYPE: Final[Since] = ((8, 1, 0),)
LOGGED_DIFFS: Final[Since] = ((4, 7, 0),)
"""Updates by pipelines are logged as diffs and so shown as updates, with `truncatedArrays`; before, they
were logged as whole documents and shown as replacements."""
DISAMBIGUATED_PATHS: Final[Since] = ((6, 1, 0),)
VECTORED_INSERTS: Final[Since] = ((8, 0, 0),)
"""Inserts of one command share an oplog entry and so a cluster time."""

_COMMANDS: Final[Mapping[str, Since]] = {
    "hello": ((4, 4, 2), (4, 2, 10), (4, 0, 21)),
    "bulkWrite": ((8, 0, 0),),
    "getClusterParameter": ((6, 0, 0),),
    "setClusterParameter": ((6, 0, 0),),
    "getDefaultRWConcern": ((4, 4, 0),),
    "setDefaultRWConcern": ((4, 4, 0),),
    "waitForFailPoint": ((4, 4, 0),),
}
"""Commands by the name they are called with; `isMaster` is in all releases."""

_API_FIELDS: Final = dict.fromkeys(("apiVersion", "apiStrict", "apiDeprecationErrors"), ((5, 0, 0),))
_COMMAND_FIELDS: Final[Mapping[str, Mapping[str, Since]]] = {
    "aggregate": {"let": ((5, 0, 0),)},
    "getMore": {"comment": ((4, 4, 0),)},
    "create": {"changeStreamPreAndPostImages": ((6, 0, 0),), "timeseries": ((5, 0, 0),)},
    "collMod": {"changeStreamPreAndPostImages": ((6, 0, 0),)},
}
_PARSED_BY_HAND: Final = frozenset({"aggregate", "find", "getMore"})
"""Commands that refused an unknown field with FailedToParse before 5.0; all others use 40415."""
_GENERATED_PARSERS: Final[Since] = ((5, 0, 0),)

_STREAM_OPTIONS: Final[Mapping[str, Since]] = {
    "startAfter": ((4, 1, 1),),
    "showMigrationEvents": ((4, 7, 0),),
    "allowToRunOnConfigDB": ((5, 0, 0),),
    "fullDocumentBeforeChange": ((6, 0, 0),),
    "showExpandedEvents": ((6, 0, 0),),
    "showSystemEvents": ((6, 0, 0),),
    "showRawUpdateDescription": ((6, 0, 0),),
    "allowToRunOnSystemNS": ((6, 0, 0),),
    "matchCollectionUUIDForUpdateLookup": ((8, 2, 0),),
    "ignoreRemovedShards": ((8, 2, 0),),
    "version": ((8, 2, 0),),
    "supportedEvents": ((8, 2, 0),),
    "showCommitTimestamp": ((8, 2, 1),),
}
"""Options of `$changeStream` that came later than the others."""
_OLD_FULL_DOCUMENT: Final = ("default", "updateLookup")

_STREAM_STAGES: Final[Mapping[str, Since]] = {
    "$set": ((4, 2, 0),),
    "$unset": ((4, 2, 0),),
    "$replaceWith": ((4, 2, 0),),
    SPLIT: ((7, 0, 0),),
}
"""Stages after `$changeStream` that came later than the others."""

_OLD_STREAM_CODES: Final[Mapping[int, int]] = {
    ErrorCode.ChangeStreamFatalError: 40585,
    ErrorCode.ChangeStreamHistoryLost: 40576,
}


@dataclass(frozen=True, slots=True)
class Release:
    number: Number
    stream: StreamRelease
    """The release's change streams."""

    @classmethod
    def parse(cls, text: str) -> "Release":
        """The release of a version as users write it, such as 4.2 or 4.0.6."""
        found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
        number = None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))
        if number is None or number[:2] not in WIRE_VERSIONS or any(part > 99 for part in number):
            series = ", ".join(f"{major}.{minor}" for major, minor in WIRE_VERSIONS)
            raise UsageError(
                f"{text} is not a server version that can be presented; give one of {series}, "
                "with or without a third number"
            )
        return _release(number)

    @property
    def version(self) -> str:
        """As buildInfo shows it."""
        return ".".join(map(str, self.number))

    @property
    def series(self) -> str:
        """Its first two numbers, which are also the feature compatibility version."""
        return f"{self.number[0]}.{self.number[1]}"

    @property
    def wire_version(self) -> int:
        """What `hello` calls `maxWireVersion`."""
        return WIRE_VERSIONS[self.number[:2]]

    @property
    def is_current(self) -> bool:
        """Whether it is the newest release, so that nothing has to be left out."""
        return self is CURRENT

    def has(self, since: Since) -> bool:
        """Whether it has a feature that came with these releases."""
        return _has(self.number, since)

    def has_command(self, name: str) -> bool:
        """Whether it has a command of that name."""
        since = _COMMANDS.get(name)
        return since is None or self.has(since)

    # -- what it refuses ------------------------------------------------------------------------------

    def check_command(self, name: str, command: Mapping[str, Any]) -> None:
        """Refuse the fields of a command that this release does not have."""
        for fields in (_API_FIELDS, _COMMAND_FIELDS.get(name, {})):
            for field, since in fields.items():
                if field in command and not self.has(since):
                    raise self._unknown_field(name, field)
        comment = command.get("comment")
        if comment is not None and type(comment) is not str and not self.has(ANY_COMMENT):
            raise CommandError(ErrorCode.TypeMismatch, "the field comment must be a string")
        cursor = command.get("cursor") if name == "aggregate" else command
        size = cursor.get("batchSize") if isinstance(cursor, Mapping) else None
        if isinstance(size, int) and size < 0 and not self.has(NEGATIVE_SIZES_ARE_BAD_VALUES):
            raise CommandError(51024, f"BSON field 'batchSize' value must be >= 0, actual value '{size}'")

    def _unknown_field(self, name: str, field: str) -> CommandError:
        if name in _PARSED_BY_HAND and not self.has(_GENERATED_PARSERS):
            return CommandError(ErrorCode.FailedToParse, f"unrecognized field '{field}'")
        return CommandError(ErrorCode.IDLUnknownField, f"BSON field '{name}.{field}' is an unknown field.")

    def check_stream(self, spec: object, pipeline: Sequence[Any]) -> None:
        """Refuse options of `$changeStream`, and stages after it, that this release does not have."""
        for option in spec if isinstance(spec, Mapping) else ():
            if not self.has(_STREAM_OPTIONS.get(option, ())):
                raise CommandError(
                    ErrorCode.IDLUnknownField, f"BSON field '$changeStream.{option}' is an unknown field."
                )
        mode = spec.get("fullDocument") if isinstance(spec, Mapping) else None
        if isinstance(mode, str) and mode not in _OLD_FULL_DOCUMENT and not self.has(FULL_DOCUMENT_ENUM):
            raise CommandError(40575, f"unrecognized value for the 'fullDocument' option: {mode!r}")
        for stage in pipeline:
            for name in stage if isinstance(stage, Mapping) else ():
                if not self.has(_STREAM_STAGES.get(name, ())):
                    raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")

    # -- what it answers ------------------------------------------------------------------------------

    def stream_error(self, error: CommandError) -> CommandError:
        """The error of a stream with the code that this release has for it."""
        code = _OLD_STREAM_CODES.get(error.code)
        if code is None or self.has(STREAM_ERROR_CODES):
            return error
        return CommandError(code, error.message)


@cache
def _release(number: Number) -> Release:
    stream = StreamRelease(
        token_version=sum(_has(number, since) for since in (TOKENS_1, TOKENS_2)),
        wall_time=_has(number, WALL_TIME),
        ns_type=_has(number, NS_TYPE),
        truncated_arrays=_has(number, LOGGED_DIFFS),
        disambiguated_paths=_has(number, DISAMBIGUATED_PATHS),
        keeps_resume_tokens=_has(number, KEPT_RESUME_TOKENS),
    )
    return Release(number, stream)


def _has(number: Number, since: Since) -> bool:
    if not since or number >= since[0]:
        return True
    return any(number[:2] == older[:2] and number >= older for older in since[1:])


CURRENT: Final = Release.parse(VERSION)
