"""The features of MongoDB releases that commands and the drivers' handshake show.

The server can present itself as an older release, so that a driver can be tested on all of them. What depends
on the release is in the tables of this file and, for change streams, in that of `events/stream_release.py`;
the rest of the server asks a `Release`. What a release does not have is refused as unknown: a command with
59, an option with 40415, a stage with 40324.

>>> release = Release.parse("4.0.6")
>>> release.wire_version, release.has(POST_BATCH_RESUME_TOKEN), release.stream.token_version
(7, False, 0)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.stream_release import Number, Since, StreamRelease, has, parse_number
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.store.catalog_rules import CatalogRules

WIRE_VERSIONS: Final[Mapping[tuple[int, int], int]] = {
    (4, 0): 7, (4, 2): 8, (4, 4): 9, (5, 0): 13, (5, 1): 14, (5, 2): 15, (5, 3): 16, (6, 0): 17, (6, 1): 18,
    (6, 2): 19, (6, 3): 20, (7, 0): 21, (7, 1): 22, (7, 2): 23, (7, 3): 24, (8, 0): 25, (8, 1): 26,
    (8, 2): 27,
}  # fmt: skip
"""`maxWireVersion` of each series that can be presented; `minWireVersion` is 0 in all of them."""

POST_BATCH_RESUME_TOKEN: Final[Since] = ((4, 0, 7),)
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
NEGATIVE_SIZES_ARE_BAD_VALUES: Final[Since] = ((8, 0, 0),)
"""A negative `batchSize` is BadValue; before, it was 51024."""
LARGE_DOCUMENT_CODE: Final[Since] = ((7, 0, 0),)
"""A document over 16 MB is BSONObjectTooLarge, as in newer sources; a 6.0.27 answers 2, 17419, 17420."""
UPDATE_SORT: Final[Since] = ((8, 0, 0),)
"""`sort` of update statements."""
LOGGED_DIFFS: Final[Since] = ((4, 7, 0),)
"""Updates by pipelines are logged as diffs and so shown as updates, with `truncatedArrays`; before, they
were logged as whole documents and shown as replacements."""
SEARCH_PROCESSES: Final[Since] = ((8, 0, 0),)
"""Search is not limited to Atlas."""
IGNORED_NUMBER_OF_CHUNKS: Final[Since] = ((7, 2, 0),)
"""`numInitialChunks` of shardCollection is deprecated and never an error (SERVER-74747, SERVER-83005)."""
WRITTEN_TIMES: Final[Since] = ((8, 0, 0),)
"""replSetGetStatus shows the times of written entries, by the manual; a real 6.0.27 does not."""
CONFIRMED_VERSIONS: Final[Since] = ((7, 0, 0),)
"""setFeatureCompatibilityVersion has to be confirmed, by the manual."""
VECTORED_INSERTS: Final[Since] = ((8, 0, 0),)
"""Inserts of one command share an oplog entry and so a cluster time."""
REPEATED_DDL: Final[Since] = ((7, 0, 0),)
"""`create` of what exists with the same options, and `drop` of what does not exist, succeed; a real 6.0.27
refuses both."""
EXACT_CAPPED_SIZES: Final[Since] = ((6, 2, 0),)
"""The size of a capped collection is not rounded to 256 any more."""
TIMESERIES_DELETES: Final[Since] = ((7, 0, 0),)
"""Deletes from a time series by any field; a real 6.0.27 deletes only by metadata, whole series."""
LATER_MEASUREMENTS: Final[Since] = ((7, 0, 0),)
"""Measurements after one with an array in an indexed field are inserted; a real 6.0.27 refuses them, too."""
COMPOUND_WILDCARDS: Final[Since] = ((7, 0, 0),)
TTL_ON_CAPPED: Final[Since] = ((7, 1, 0),)
"""TTL indexes on capped collections, by the documentation; a real 6.0.27 refuses them."""
SERIES_OUTPUT: Final[Since] = ((7, 0, 3),)
"""`$out` to a time series, by the documentation; a real 6.0.27 refuses it."""
ERROR_AND_LOG: Final[Since] = ((8, 1, 0),)
"""The validation action `errorAndLog`; a real 6.0.27 refuses it."""
EXPRESS_PLANS: Final[Since] = ((8, 0, 0),)
"""Plans for look-ups by `_id` of their own, and explain's newer fields; a real 6.0.27 shows IDHACK."""
BATCHED_DELETES: Final[Since] = ((6, 1, 0),)
"""Deletes of many documents are planned in batches; a real 6.0.27 shows DELETE."""
CLUSTERED_FIGURES: Final[Since] = ((7, 0, 0),)
"""`collStats` marks clustered collections, by the manual; a real 6.0.27 does not."""
VALIDATED_SPECS: Final[Since] = ((6, 2, 0),)
"""`validate` shows the collection's UUID and the specifications of indexes; a real 6.0.27 does not."""
CATALOG_ENTRIES: Final[Since] = ((8, 0, 0),)
"""`dropDatabase` is logged with an explicit `fromMigrate`, and counts of removed documents as `Int64`; a real
6.0.27 has neither, the description of the newest oplog has both."""

_COMMANDS: Final[Mapping[str, Since]] = {
    "hello": ((4, 4, 2), (4, 2, 10), (4, 0, 21)),
    "bulkWrite": ((8, 0, 0),),
    "checkMetadataConsistency": ((7, 0, 0),),
    "getClusterParameter": ((6, 0, 0),),
    "setClusterParameter": ((6, 0, 0),),
    "getDefaultRWConcern": ((4, 4, 0),),
    "setDefaultRWConcern": ((4, 4, 0),),
    "waitForFailPoint": ((4, 4, 0),),
}
"""Commands by the name they are called with; `isMaster` is in all releases."""

_STAGES: Final[Mapping[str, Since]] = {
    "$listSampledQueries": ((7, 0, 0),),
    "$querySettings": ((8, 0, 0),),
    "$rankFusion": ((8, 1, 0),),
    "$scoreFusion": ((8, 2, 0),),
}
"""Aggregation stages that 6.0.27 does not have, with the first release whose documentation has them."""

_API_FIELDS: Final = dict.fromkeys(("apiVersion", "apiStrict", "apiDeprecationErrors"), ((5, 0, 0),))
_COMMAND_FIELDS: Final[Mapping[str, Mapping[str, Since]]] = {
    "aggregate": {
        "let": ((5, 0, 0),),
        "allowPartialResults": ((7, 0, 0),),  # 6.0.27 has neither of these two
        "rawData": ((7, 0, 0),),
    },
    "getMore": {"comment": ((4, 4, 0),)},
    "create": {"changeStreamPreAndPostImages": ((6, 0, 0),), "timeseries": ((5, 0, 0),)},
    "collMod": {"changeStreamPreAndPostImages": ((6, 0, 0),)},
}
_PARSED_BY_HAND: Final = frozenset({"aggregate", "find", "getMore"})
"""Commands that refused an unknown field with FailedToParse before 5.0; all others use 40415."""
_GENERATED_PARSERS: Final[Since] = ((5, 0, 0),)

_OLD_STREAM_CODES: Final[Mapping[int, int]] = {
    ErrorCode.ChangeStreamFatalError: 40585,
    ErrorCode.ChangeStreamHistoryLost: 40576,
}


class SizeCodes(NamedTuple):
    """The codes of documents that are too large, by what makes them."""

    insert: int = ErrorCode.BSONObjectTooLarge
    update: int = ErrorCode.BSONObjectTooLarge
    upsert: int = ErrorCode.BSONObjectTooLarge


_SIZE_CODES: Final = SizeCodes()
_OLD_SIZE_CODES: Final = SizeCodes(ErrorCode.BadValue, 17419, 17420)


@dataclass(frozen=True, slots=True)
class Release:
    number: Number
    stream: StreamRelease
    """The release's change streams."""
    catalog: CatalogRules
    """How it changes the catalog."""

    @classmethod
    def parse(cls, text: str) -> "Release":
        """The release of a version as users write it, such as 4.2 or 4.0.6."""
        number = parse_number(text)
        if number is None or number[:2] not in WIRE_VERSIONS:
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
        return has(self.number, since)

    @property
    def size_codes(self) -> SizeCodes:
        """The codes of documents that are too large."""
        return _SIZE_CODES if self.has(LARGE_DOCUMENT_CODE) else _OLD_SIZE_CODES

    def has_command(self, name: str) -> bool:
        """Whether it has a command of that name."""
        since = _COMMANDS.get(name)
        return since is None or self.has(since)

    def has_stage(self, name: str) -> bool:
        """Whether it has an aggregation stage of that name."""
        return self.has(_STAGES.get(name, ()))

    @property
    def search_error(self) -> int:
        """The code of search stages where there is no search process."""
        return ErrorCode.SearchNotEnabled if self.has(SEARCH_PROCESSES) else 6047401

    # -- what it refuses ------------------------------------------------------------------------------

    def check_command(self, name: str, command: Mapping[str, Any]) -> None:
        """Refuse the fields of a command that this release does not have."""
        for fields in (_API_FIELDS, _COMMAND_FIELDS.get(name, {})):
            for field, since in fields.items():
                if field in command and not self.has(since):
                    raise self._unknown_field(name, field)
        comment = command.get("comment")
        if comment is not None and not is_string(comment) and not self.has(ANY_COMMENT):
            raise CommandError(ErrorCode.TypeMismatch, "the field comment must be a string")

    def _unknown_field(self, name: str, field: str) -> CommandError:
        if name in _PARSED_BY_HAND and not self.has(_GENERATED_PARSERS):
            return CommandError(ErrorCode.FailedToParse, f"unrecognized field '{field}'")
        return CommandError(ErrorCode.IDLUnknownField, f"BSON field '{name}.{field}' is an unknown field.")

    def check_stream(self, spec: object, pipeline: Sequence[Any]) -> None:
        """Refuse options of `$changeStream`, and stages after it, that this release does not have."""
        self.stream.check(spec, pipeline)

    # -- what it answers ------------------------------------------------------------------------------

    def stream_error(self, error: CommandError) -> CommandError:
        """The error of a stream with the code that this release has for it."""
        code = _OLD_STREAM_CODES.get(error.code)
        if code is None or self.has(STREAM_ERROR_CODES):
            return error
        return CommandError(code, error.message)


@cache
def _release(number: Number) -> Release:
    catalog = CatalogRules(
        rounds_capped_sizes=not has(number, EXACT_CAPPED_SIZES),
        repeats_are_errors=not has(number, REPEATED_DDL),
        compound_wildcards=has(number, COMPOUND_WILDCARDS),
        series_output=has(number, SERIES_OUTPUT),
        ttl_on_capped=has(number, TTL_ON_CAPPED),
        logs_validation_errors=has(number, ERROR_AND_LOG),
        long_counts=has(number, CATALOG_ENTRIES),
        marks_database_drops=has(number, CATALOG_ENTRIES),
    )
    return Release(number, StreamRelease.of(number), catalog)


CURRENT: Final = Release.parse(VERSION)
