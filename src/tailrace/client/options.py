"""The options of a change stream, and its target.

Values are not validated here: an unknown `fullDocument`, two start points or a negative batch size are sent,
and the server accepts or refuses them. An option that was not given is not sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypedDict

from bson import Timestamp
from pymongo.collation import Collation

from tailrace.events.options import OPTIONS

Document: TypeAlias = Mapping[str, Any]
Pipeline: TypeAlias = Sequence[Document]

START_OPTIONS: Final = ("startAfter", "resumeAfter", "startAtOperationTime")
"""The three start points; a resume replaces all of them by one."""


class Keywords(TypedDict, total=False):
    """The keyword arguments of `watch`: PyMongo's names, and two for fields that PyMongo does not name.

    Further options of `$changeStream` are accepted by their names in `events/options.py`.
    """

    full_document: str | None
    full_document_before_change: str | None
    resume_after: Document | None
    start_after: Document | None
    start_at_operation_time: Timestamp | None
    show_expanded_events: bool | None
    max_await_time_ms: int | None
    batch_size: int | None
    collation: Document | Collation | None
    comment: Any
    stage_options: Document | None
    command_options: Document | None


@dataclass(frozen=True, slots=True)
class Target:
    """What is watched: a collection, a database, or the whole deployment."""

    database: str
    collection: str | None = None
    whole_cluster: bool = False

    @classmethod
    def cluster(cls) -> "Target":
        """The whole deployment; such a stream is opened on `admin`."""
        return cls("admin", whole_cluster=True)

    @property
    def aggregate(self) -> str | int:
        """The value of the command's `aggregate` field."""
        return 1 if self.collection is None else self.collection


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream, grouped by the part of the command that they belong to."""

    stage: Document = field(default_factory=dict)
    """fields of `$changeStream`"""
    command: Document = field(default_factory=dict)
    """further fields of `aggregate`"""
    batch_size: int | None = None
    max_await_time_ms: int | None = None
    comment: Any = None
    collation: Document | None = None

    @classmethod
    def of(cls, keywords: Keywords) -> "StreamOptions":
        """Convert options from PyMongo's names.

        >>> StreamOptions.of({"full_document": "updateLookup", "batch_size": 5}).stage
        {'fullDocument': 'updateLookup'}
        """
        given: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
        stage = {
            option.name: given.pop(option.keyword) for option in OPTIONS.values() if option.keyword in given
        }
        stage |= given.pop("stage_options", {})
        collation = given.pop("collation", None)
        if isinstance(collation, Collation):
            collation = collation.document
        options = cls(
            stage=stage,
            command=dict(given.pop("command_options", {})),
            batch_size=given.pop("batch_size", None),
            max_await_time_ms=given.pop("max_await_time_ms", None),
            comment=given.pop("comment", None),
            collation=collation,
        )
        if given:
            raise TypeError(f"watch() has no option {next(iter(given))}")
        return options

    @property
    def start(self) -> Document:
        """The given start points, by their names in `$changeStream`."""
        return {name: self.stage[name] for name in START_OPTIONS if name in self.stage}


def with_other_start(options: Keywords, token: Document) -> Keywords:
    """Options of a stream that shows which events there are, one at a time, after a token."""
    stage = {
        name: value
        for name, value in (options.get("stage_options") or {}).items()
        if name not in START_OPTIONS and not name.startswith("fullDocument")
    }
    return {
        "start_after": token,
        "batch_size": 1,
        "stage_options": stage,
        "show_expanded_events": options.get("show_expanded_events"),
        "command_options": options.get("command_options"),
    }
