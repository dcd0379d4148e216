"""The order of stages, defined only here.

::

    shared part, per shard         view part, per stream
    ────────────────────────       ─────────────────────────────────────────────────────────────────────
    oplog match (pre-filter)       scope match
    unwind transaction      ─▶     check invalidate, check resumability
    transform               merge  classic types, the user's leading $match as far as it needs no images
                                   add pre-image, add post-image
                                   the user's other stages
                                   split large event
                                   ensure resume token present

A plan is opened once for a stream, which raises all errors of its options and its pipeline, with the
server's codes. The parts that it creates have the state of one run.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import CHANGES, ChangeEvent
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.entry_reader import EntryReader
from tailrace.events.layout.fields import FULL_DOCUMENT, verbatim_shape
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.resume_token import CURRENT_VERSION, ResumeToken
from tailrace.events.scope import Scope, ScopeKind
from tailrace.events.stages.add_post_image import AddPostImage
from tailrace.events.stages.add_pre_image import AddPreImage
from tailrace.events.stages.check_event_size import check_event_size
from tailrace.events.stages.check_invalidate import CheckInvalidate
from tailrace.events.stages.check_resumability import CheckResumability
from tailrace.events.stages.ensure_resume_token_present import EnsureResumeTokenPresent
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.oplog_match import EntryFilter, OplogMatch
from tailrace.events.stages.parts import SharedPart, ViewPart, only_types
from tailrace.events.stages.render import Shape, shape_of
from tailrace.events.stages.resume_point import ResumePoint
from tailrace.events.stages.rewrites.constants import Folding
from tailrace.events.stages.rewrites.entry_match import (
    EntryMatch,
    compares_with_limits,
    mentions_sessions,
    refuse_null_bytes,
)
from tailrace.events.stages.rewrites.push_down import PushedMatch, push_down
from tailrace.events.stages.rewrites.reordering import UserStage, reordered, split_by
from tailrace.events.stages.scope_match import ScopeMatch
from tailrace.events.stages.split_large_event import SplitLargeEvent
from tailrace.events.stages.stage import Row, Stage
from tailrace.events.stages.transform.document import Transform
from tailrace.events.stages.unwind_transaction import UnwindTransaction
from tailrace.events.stages.user_stages import (
    UserStages,
    leading_match,
    read_pipeline,
)
from tailrace.events.stream_release import CURRENT_RELEASE, SPLIT, StreamRelease
from tailrace.query.collation import Collation
from tailrace.query.match.evaluation_order import has_expression, in_evaluation_order
from tailrace.query.variables import stream_variables

END_OF_TRANSACTION_FLAG = "featureFlagEndOfTransactionChangeEvent"
EMIT_FROM_MIGRATE = "changeStreamsEmitFromMigrate"
FULL_DOCUMENT_BEFORE_CHANGE: Final = "fullDocumentBeforeChange"
_ANY_SHAPE: Final = verbatim_shape(expanded=False)

T = TypeVar("T")
Step: TypeAlias = tuple[Stage[T, T], list[dict[str, Any]]]
"""A stage, and what explain shows of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One stream, checked and ready to run."""

    scope: Scope
    options: ChangeStreamOptions
    user_stages: tuple[UserStage, ...]
    splits: bool
    raw_data: bool
    parameters: Mapping[str, Any]
    collation: Collation | None
    variables: Mapping[str, Any]
    pushed: PushedMatch
    tested_on_entries: Mapping[str, Any] | None
    """The leading filter, as far as a server rewrites it onto entries; None if it does not."""
    release: StreamRelease = CURRENT_RELEASE

    @classmethod
    def open(
        cls,
        scope: Scope,
        spec: Mapping[str, Any] | bytes,
        pipeline: Sequence[Mapping[str, Any]] = (),
        *,
        on_router: bool = False,
        is_replica_set: bool = True,
        raw_data: bool = False,
        parameters: Mapping[str, Any] | None = None,
        collation: Mapping[str, Any] | None = None,
        let: Mapping[str, Any] | None = None,
        release: StreamRelease = CURRENT_RELEASE,
    ) -> "Plan":
        """Check the options and the pipeline; raises `CommandError` if they are not valid.

        ``spec`` is the `$changeStream` document; as raw BSON, fields given twice are noticed. With an older
        ``release`` the stream shows what a server of that release did.

        >>> plan = Plan.open(Scope.parse_ns("shop.orders"), {}, [{"$match": {"operationType": "insert"}}])
        >>> plan.explain()["stages"][1]
        {'$changeStream': {'stage': '$_internalChangeStreamUnwindTransaction'}}
        """
        if release != CURRENT_RELEASE:
            release.check(documents.decode(spec) if isinstance(spec, bytes) else spec, pipeline)
        options = ChangeStreamOptions.parse(
            spec, scope, on_router=on_router, is_replica_set=is_replica_set, release=release
        )
        stages, splits = read_pipeline(pipeline, on_router=on_router)
        parsed_collation = None if collation is None else Collation.parse(collation)
        variables = stream_variables(let)
        UserStages(stages, _ANY_SHAPE, variables, parsed_collation)  # compiled here to raise every error now
        given = options.start_after or options.resume_after
        if given is not None and given.version > release.newest_known_tokens:
            raise CommandError(50795, f"this server does not know resume tokens of version {given.version}")
        token = options.resume_token
        if token is not None and token.fragment is not None and not splits:
            raise CommandError(
                ErrorCode.ChangeStreamFatalError,
                f"the resume token names a fragment of a split event; resuming there needs {SPLIT}",
            )
        folding = Folding(variables, release.dialect)
        folded = [folding.stage(stage) for stage in stages]
        in_order = partial(reordered, folded, sees_parents=release.sees_parents_of_copies)
        stages = in_order()
        first, _ = leading_match(stages)
        # A copy of a filter before `$redact` comes too late for a rewrite, unless the types are not filtered.
        on_entries = stages if options.show_expanded_events else in_order(copies_filters=False)
        # A filter on fields that an older release does not show, or with other rules, cannot be rewritten.
        can_push = parsed_collation is None and release.wall_time and release.undefined_is_not_null
        is_rewritten = parsed_collation is None and release.matches_entries
        tested_on_entries = leading_match(on_entries)[0] if is_rewritten else None
        if tested_on_entries is not None:
            refuse_null_bytes(tested_on_entries)
        pushed = push_down(first) if first is not None and can_push else PushedMatch()
        return cls(
            scope,
            options,
            tuple(stages),
            splits,
            raw_data,
            parameters or {},
            parsed_collation,
            variables,
            pushed,
            tested_on_entries,
            release,
        )

    @property
    def start(self) -> int | None:
        """The cluster time to read from, inclusive; None if the client named no start point."""
        token = self.options.resume_token
        return None if token is None else token.cluster_time

    @property
    def start_token(self) -> ResumeToken | None:
        """The stream's first position: the client's token, a high-water mark in the stream's version."""
        token = self.options.resume_token
        if token is None or not token.is_high_water_mark:
            return token
        given = self.options.start_after or self.options.resume_after
        version = self.token_version if given is None else max(self.token_version, given.version)
        return ResumeToken.high_water_mark(token.cluster_time, version)

    @property
    def token_version(self) -> int:
        """The version of new tokens, unless the client's token is newer."""
        release = self.release
        return release.newest_known_tokens if self.splits else release.token_version

    def scope_match(self) -> ScopeMatch:
        """Return the rules of visibility of this stream."""
        marks_end = bool(self.parameters.get(END_OF_TRANSACTION_FLAG))
        return ScopeMatch(
            self.scope, self.options, raw_data=self.raw_data, marks_end=marks_end, release=self.release
        )

    def entry_filter(self) -> EntryFilter:
        """Return the pre-filter of this stream."""
        return EntryFilter(self.scope_match(), self.pushed)

    @property
    def shows_inserts_verbatim(self) -> bool:
        """Whether all that happens to an insert is rendering in the current version."""
        token = self.start_token
        return (token is None or token.is_high_water_mark) and self.shows_inserts_verbatim_once_resumed

    @property
    def shows_inserts_verbatim_once_resumed(self) -> bool:
        """The same, after the event that the stream was resumed after."""
        token = self.start_token
        is_current = token is None or token.version <= CURRENT_VERSION
        return is_current and self._only_renders and self.release.shows_inserts_as_now

    @property
    def alters_changes(self) -> bool:
        """Whether changes other than inserts are shown in another way than the log has them."""
        return self._adds_to_changes or self.release != CURRENT_RELEASE

    @property
    def shows_changes_verbatim(self) -> bool:
        """Whether all that happens to a change is rendering, with the fields that the log has.

        Tokens may have another version, and descriptions fewer fields.
        """
        token = self.start_token
        is_between = token is None or token.is_high_water_mark
        return is_between and self._only_renders and not self._adds_to_changes and self.release.wall_time

    @property
    def _only_renders(self) -> bool:
        is_untouched = not self.user_stages and not self.splits and self.pushed.document is None
        types = self.options.shown_types
        return is_untouched and (types is None or types >= CHANGES)

    @property
    def _adds_to_changes(self) -> bool:
        options = self.options
        return (
            options.full_document != "default"
            or options.full_document_before_change != "off"
            or options.show_raw_update_description
        )

    @property
    def output_key(self) -> Hashable | None:
        """Equal for streams that show the same from the same place on.

        None for a stream whose past matters, or that looks things up when it shows an event.
        """
        options = self.options
        shows_images = options.full_document != "default" or options.full_document_before_change != "off"
        if shows_images or not self.shows_inserts_verbatim:
            return None
        anywhere = replace(options, resume_after=None, start_after=None, start_at_operation_time=None)
        return self.scope, anywhere, self.raw_data, tuple(sorted(self.parameters.items()))

    def shared_part(self, shard: str, lookups: Lookups) -> SharedPart:
        """Return the stages that run on one shard's oplog."""
        reader = EntryReader()
        visible = self.entry_filter()
        marks_end = bool(self.parameters.get(END_OF_TRANSACTION_FLAG)) and self.options.show_expanded_events
        return SharedPart(
            OplogMatch(visible, reader, self.start or 0),
            UnwindTransaction(visible, reader, lookups.entry, marks_end=marks_end),
            Transform(
                shard=shard,
                maps_views=self.scope.kind is not ScopeKind.COLLECTION,
                supported_noops=frozenset(self.options.supported_events or ()),
            ),
        )

    def view_part(self, lookups: Mapping[str, Lookups], *, shares_events: bool = False) -> ViewPart:
        """Return the stages that run on the merged events of all shards.

        With ``shares_events`` other streams show the same events, and what one rendered serves the next.
        """
        resume = self.resume_point()
        return ViewPart(
            resume,
            [stage for stage, _ in self._event_steps(resume)],
            self._shape(),
            [stage for stage, _ in self._row_steps(resume, lookups)],
            shares_events=shares_events,
        )

    def resume_point(self) -> ResumePoint:
        """Return the state of a stream at its start."""
        return ResumePoint(self.start_token, newest_version=self.token_version)

    def _event_steps(self, resume: ResumePoint) -> Iterator[Step[ChangeEvent]]:
        """What happens to events before they are rendered."""
        yield self.scope_match(), []
        first = self.tested_on_entries
        if first is not None and self._needs_entry_match(first):
            yield EntryMatch(in_evaluation_order(first, is_query=True), self._shape(), self.variables), []
        if self.scope.kind is not ScopeKind.CLUSTER:
            yield CheckInvalidate(self.scope.kind, resume), [_internal("CheckInvalidate")]
        yield CheckResumability(resume), [_internal("CheckResumability")]
        types = self.options.shown_types
        if types is not None:
            yield only_types(types), [{"$match": {"operationType": {"$in": sorted(types)}}}]

    def _needs_entry_match(self, user_filter: Mapping[str, Any]) -> bool:
        """Whether it shows that a server tests a filter on entries; events are decoded for it."""
        options = self.options
        requires_image = "required" in (options.full_document, options.full_document_before_change)
        hides_views = options.show_system_events and not options.show_expanded_events
        is_odd = hides_views or options.show_raw_update_description
        if requires_image or is_odd or mentions_sessions(user_filter):
            return True
        return compares_with_limits(user_filter) or has_expression(user_filter)

    def _row_steps(self, resume: ResumePoint, lookups: Mapping[str, Lookups]) -> Iterator[Step[Row]]:
        """What happens to rendered events."""
        before, after = self.options.full_document_before_change, self.options.full_document
        before_images, between_images, others = self._user_parts()
        yield from self._user_step(before_images)
        if before != "off":
            shown = _internal("AddPreImage", fullDocumentBeforeChange=before)
            yield AddPreImage(lookups, required=before == "required"), [shown]
        yield from self._user_step(between_images)
        if after != "default":
            match_uuid = self.options.match_collection_uuid_for_update_lookup
            shown = _internal("AddPostImage", fullDocument=after)
            yield AddPostImage(lookups, after, self._shape(), match_uuid=match_uuid), [shown]
        yield from self._user_step(others)
        if self.splits:
            yield SplitLargeEvent(resume), [{SPLIT: {}}]
        if resume.is_event:
            yield EnsureResumeTokenPresent(resume), [_internal("EnsureResumeTokenPresent")]
        yield check_event_size, []

    def _user_step(self, stages: list[UserStage]) -> Iterator[Step[Row]]:
        if stages:
            shown = [{name: spec} for name, spec in stages]
            keeps_ids = self.release.keeps_resume_tokens
            yield (
                UserStages(stages, self._shape(), self.variables, self.collation, keeps_ids=keeps_ids),
                shown,
            )

    def _user_parts(self) -> tuple[list[UserStage], list[UserStage], list[UserStage]]:
        """The user's stages before, between and after the images, so that few images are required."""
        stages = list(self.user_stages)
        options = self.options
        has_pre, has_post = options.full_document_before_change != "off", options.full_document != "default"
        first, rest = leading_match(stages)
        if first is None or not (has_pre or has_post):
            return [], [], stages
        free, bound = split_by(first, FULL_DOCUMENT) if has_post else (first, None)
        between = None
        if has_pre and free is not None:
            free, between = split_by(free, FULL_DOCUMENT_BEFORE_CHANGE)
        before, middle, after = (
            [] if part is None else [("$match", part)] for part in (free, between, bound)
        )
        return before, middle, after + rest

    def _shape(self) -> Shape:
        options = self.options
        return shape_of(
            expanded=options.show_expanded_events,
            raw_update=options.show_raw_update_description,
            commit_timestamp=options.show_commit_timestamp,
            from_migrate=options.show_migration_events
            and self.parameters.get(EMIT_FROM_MIGRATE, True) is not False,
            release=self.release,
        )

    def explain(self) -> dict[str, Any]:
        """Return the stages in the order they run, each as the server names it."""
        match: dict[str, Any] = {} if self.pushed.document is None else {"pushedDown": self.pushed.document}
        start = self.start
        if start is not None:
            match["startAt"] = to_timestamp(start)
        stages = [
            _internal("OplogMatch", **match),
            _internal("UnwindTransaction"),
            _internal("Transform", **self.options.to_spec()),
        ]
        resume = self.resume_point()
        for _, shown in (*self._event_steps(resume), *self._row_steps(resume, {})):
            stages += shown
        return {"stages": stages}


def _internal(name: str, **details: Any) -> dict[str, Any]:
    """A stage of ours as explain shows it."""
    return {"$changeStream": {"stage": f"$_internalChangeStream{name}", **details}}
