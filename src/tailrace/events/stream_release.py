"""What the change streams of each MongoDB release show: the one table of it.

A field of `StreamRelease` is a row: what a stream does from some release on, the first release that does it,
and how that is known. *seen* is what a real 6.0.27 did (`tests/oracle`); *sheet* is MongoDB's documentation,
changelogs and source as far as they could be read. Stages ask a `StreamRelease`; nothing else knows releases.
What is about commands and the handshake is in `mongod/server/emulation/release.py`.

>>> release = StreamRelease.parse("6.0.27")
>>> release.token_version, release.wall_time, release.ns_type
(1, True, False)
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.query.dialect import Dialect

Number: TypeAlias = tuple[int, int, int]
Since: TypeAlias = tuple[Number, ...]
"""The first release that has something, then the first of each older series that got it too."""

CURRENT_NUMBER: Final[Number] = (8, 2, 1)
"""The release that is imitated where nobody names one."""
NEWEST_SERIES: Final = (8, 3)
SERIES: Final = (
    (4, 0), (4, 2), (4, 4), (5, 0), (5, 1), (5, 2), (5, 3), (6, 0), (6, 1), (6, 2), (6, 3), (7, 0), (7, 1),
    (7, 2), (7, 3), (8, 0), (8, 1), (8, 2), NEWEST_SERIES,
)  # fmt: skip
SPLIT: Final = "$changeStreamSplitLargeEvent"


@dataclass(frozen=True, slots=True)
class Known:
    """When something came, and how that is known."""

    since: Since
    evidence: str
    needs_compatibility: bool = False
    """Whether the feature compatibility version has to be one of these as well."""


@dataclass(frozen=True, slots=True)
class StreamRelease:
    """What the streams of one release show and check; releases that do the same are equal."""

    number: Number = field(compare=False)
    compatibility: Number = field(compare=False)
    """The feature compatibility version; the same as `number` unless an upgrade is not complete."""

    # -- resume tokens --------------------------------------------------------------------------------
    tokens_1: Annotated[bool, Known(((4, 0, 7),), "sheet: published tokens")]
    """New tokens have at least version 1."""
    tokens_2: Annotated[bool, Known(((6, 1, 0),), "sheet: published tokens; seen: 6.0.27 writes version 1")]
    """New tokens have version 2."""
    splits_large_events: Annotated[bool, Known(((7, 0, 0), (6, 0, 9)), "sheet; seen on 6.0.27")]
    """There is `$changeStreamSplitLargeEvent`. Such a stream has tokens of version 2 in any release, and
    so has a stream that was resumed with one."""
    keeps_resume_tokens: Annotated[bool, Known(((4, 2, 0),), "sheet")]
    """A pipeline that changes or removes `_id` fails; before, the client has to notice."""

    # -- which events there are -----------------------------------------------------------------------
    shows_applied_operations: Annotated[
        bool, Known(((6, 1, 0),), "seen: 6.0.27 hides them; sheet: 6.1 logs batches without a session")
    ]
    """Operations of an `applyOps` that has no session, such as a user's."""
    shows_index_builds: Annotated[bool, Known(((8, 1, 0),), "sheet; seen: 6.0.27 has none")]
    """`startIndexBuild` and `abortIndexBuild`, with `showSystemEvents`."""

    # -- fields ---------------------------------------------------------------------------------------
    wall_time: Annotated[
        bool, Known(((6, 0, 0),), "sheet; seen on 6.0.27, as 6.0 and as 5.0", needs_compatibility=True)
    ]
    expanded_wall_time: Annotated[bool, Known(((6, 0, 0),), "seen on 6.0.27 as 5.0")]
    """`wallTime` in streams with `showExpandedEvents`."""
    truncated_arrays: Annotated[bool, Known(((4, 7, 0),), "sheet; seen on 6.0.27")]
    disambiguated_paths: Annotated[bool, Known(((6, 1, 0),), "sheet; seen: 6.0.27 has none")]
    """In updates of streams with `showExpandedEvents`."""
    ns_type: Annotated[bool, Known(((8, 1, 0),), "sheet; seen: 6.0.27 has none")]
    """In `create` events."""
    from_migrate: Annotated[
        bool,
        Known(((8, 2, 0),), "sheet: in the newest source; seen: 6.0.27 has none with showMigrationEvents"),
    ]
    post_image_last: Annotated[
        bool, Known(((8, 3, 0),), "sheet; seen: 6.0.27 has it between wallTime and ns")
    ]
    """`fullDocument` of updates comes last; before, where it is in inserts."""

    # -- options --------------------------------------------------------------------------------------
    matches_uuids_of_lookups_only: Annotated[
        bool, Known(((6, 1, 0),), "sheet: a code of the newest source; seen: 6.0.27 does not check it")
    ]
    """`matchCollectionUUIDForUpdateLookup` is refused without `updateLookup`."""

    # -- filters --------------------------------------------------------------------------------------
    matches_entries: Annotated[
        bool, Known(((5, 1, 0),), "seen on 6.0.27; sheet: all source files since 2021")
    ]
    """A leading `$match` is also tested on oplog entries, where a retryable write has `lsid` and `txnNumber`,
    although its event has neither."""
    sees_parents_of_copies: Annotated[
        bool, Known(((7, 0, 0),), "seen: 6.0.27 does not; taken for repaired in later releases")
    ]
    """A `$match` on `x` does not move before a stage that copies a field to `x.y`."""
    converts_binary: Annotated[bool, Known(((8, 0, 0),), "sheet; seen: 6.0.27 refuses it")]
    """`$convert` converts from and to binary data."""
    undefined_is_not_null: Annotated[bool, Known(((8, 0, 0),), "sheet; seen: null finds undefined in 6.0.27")]
    """`{path: null}` does not match undefined."""

    @classmethod
    def parse(cls, text: str) -> "StreamRelease":
        """The release of a version as users write it, such as 6.0 or 6.0.27."""
        number = parse_number(text)
        if number is None or number[:2] not in SERIES:
            series = ", ".join(f"{major}.{minor}" for major, minor in SERIES)
            raise UsageError(
                f"{text} is not a server version whose change streams can be imitated; give one of {series}, "
                "with or without a third number"
            )
        return cls.of(number)

    @classmethod
    def of_server(cls, version: str, compatibility: str | None = None) -> "StreamRelease":
        """The release of a running server, also of one that is newer than the table or not released.

        ``compatibility`` is its feature compatibility version, if that is known.
        """
        found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
        if found is None or (number := (int(found[1]), int(found[2]), int(found[3])))[:2] < SERIES[0]:
            raise UsageError(
                f"the change streams of a server of version {version} cannot be imitated; name another "
                "version with --server-version"
            )
        series = parse_number(compatibility or "")
        is_same = series is None or series[:2] == number[:2]
        return cls.of(min(number, (*NEWEST_SERIES, 99)), None if is_same else series)

    @classmethod
    def of(cls, number: Number, compatibility: Number | None = None) -> "StreamRelease":
        return _release(number, compatibility or number)

    @property
    def version(self) -> str:
        """As buildInfo shows it."""
        return ".".join(map(str, self.number))

    @property
    def series(self) -> str:
        """The feature compatibility version, as a server shows it."""
        return ".".join(map(str, self.compatibility[:2]))

    @property
    def token_version(self) -> int:
        """The version of new resume tokens of streams that do not split events."""
        return self.tokens_1 + self.tokens_2

    @property
    def newest_known_tokens(self) -> int:
        """The newest version of resume tokens that is understood."""
        return 2 if self.splits_large_events else self.token_version

    @property
    def dialect(self) -> Dialect:
        """The rules of filters and expressions."""
        return Dialect(undefined_is_null=not self.undefined_is_not_null, converts_binary=self.converts_binary)

    @property
    def shows_inserts_as_now(self) -> bool:
        """Whether the event of an insert has the same bytes as in the current release."""
        return self.token_version == CURRENT_RELEASE.token_version and self.wall_time

    def check(self, spec: object, pipeline: Sequence[Any]) -> None:
        """Refuse options of `$changeStream`, and stages after it, that this release does not have."""
        options: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {}
        for option in options:
            if not has(self.number, _OPTIONS.get(option, ())):
                raise CommandError(
                    ErrorCode.IDLUnknownField, f"BSON field '$changeStream.{option}' is an unknown field."
                )
        mode = options.get("fullDocument")
        if isinstance(mode, str) and mode not in _OLD_FULL_DOCUMENT and not has(self.number, _IMAGES):
            raise CommandError(40575, f"unrecognized value for the 'fullDocument' option: {mode!r}")
        for stage in pipeline:
            for name in stage if isinstance(stage, Mapping) else ():
                if not has(self.number, _STAGES.get(name, ())):
                    raise CommandError(40324, f"Unrecognized pipeline stage name: '{name}'")


ROWS: Final[Mapping[str, Known]] = {
    name: row
    for name, hint in get_type_hints(StreamRelease, include_extras=True).items()
    for row in getattr(hint, "__metadata__", ())
}
"""The table by the names of its rows."""

_IMAGES: Final[Since] = ((6, 0, 0),)
"""`whenAvailable` and `required`; and an unknown value is BadValue, before it was 40575."""
_OLD_FULL_DOCUMENT: Final = ("default", "updateLookup")
_OPTIONS: Final[Mapping[str, Since]] = {
    "startAfter": ((4, 1, 1),),
    "showMigrationEvents": ((4, 7, 0),),
    "allowToRunOnConfigDB": ((5, 0, 0),),
    "fullDocumentBeforeChange": ((6, 0, 0),),
    "showExpandedEvents": ((6, 0, 0),),
    "showSystemEvents": ((6, 0, 0),),
    "showRawUpdateDescription": ((6, 0, 0),),
    "allowToRunOnSystemNS": ((6, 0, 0),),
    "matchCollectionUUIDForUpdateLookup": ((8, 2, 0), (6, 0, 27)),  # seen on 6.0.27
    "ignoreRemovedShards": ((8, 2, 0),),
    "version": ((8, 2, 0),),
    "supportedEvents": ((8, 2, 0),),
    "showCommitTimestamp": ((8, 2, 1),),
}
"""Options of `$changeStream` that came later than the others; those without a remark are from the sheets."""
_STAGES: Final[Mapping[str, Since]] = {
    "$set": ((4, 2, 0),),
    "$unset": ((4, 2, 0),),
    "$replaceWith": ((4, 2, 0),),
    SPLIT: ROWS["splits_large_events"].since,
}
"""Stages after `$changeStream` that came later than the others."""


def parse_number(text: str) -> Number | None:
    """The number of a version as users write it; None if it is none."""
    found = re.fullmatch(r"(\d{1,2})\.(\d{1,2})(?:\.(\d{1,2}))?", text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def has(number: Number, since: Since) -> bool:
    """Whether a release has something that came with these releases."""
    if not since or number >= since[0]:
        return True
    return any(number[:2] == older[:2] and number >= older for older in since[1:])


@cache
def _release(number: Number, compatibility: Number) -> StreamRelease:
    found = {
        name: has(number, row.since) and (not row.needs_compatibility or has(compatibility, row.since))
        for name, row in ROWS.items()
    }
    return StreamRelease(number, compatibility, **found)


CURRENT_RELEASE: Final = StreamRelease.of(CURRENT_NUMBER)
