"""One stream as its user described it; unlike a plan, it can be sent to executors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.bson import documents
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.events.stages.plan import Plan
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease


@dataclass(frozen=True)
class StreamSpec:
    """Scope, options and pipeline; everything is checked when it is made."""

    scope: Scope
    options: bytes
    """The `$changeStream` document as BSON."""
    pipeline: bytes = field(default_factory=lambda: documents.encode({"pipeline": []}))
    """A document whose `pipeline` has the user's stages."""
    on_router: bool = False
    raw_data: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    collation: Mapping[str, Any] | None = None
    let: Mapping[str, Any] | None = None
    release: StreamRelease = CURRENT_RELEASE
    """The server release whose streams are imitated."""
    variables: Mapping[str, Any] | None = None
    """Values of `$$NOW` and others: the same in all parts of a stream."""

    @classmethod
    def of(
        cls,
        scope: Scope,
        options: Mapping[str, Any] | bytes,
        pipeline: Sequence[Mapping[str, Any]] = (),
        **others: Any,
    ) -> "StreamSpec":
        """Build one from decoded documents; raises `CommandError` if they are not valid."""
        raw = options if isinstance(options, bytes) else documents.encode(options)
        spec = cls(scope, raw, documents.encode({"pipeline": list(pipeline)}), **others)
        return replace(spec, variables=spec.open().variables)

    def open(self) -> Plan:
        """Return the plan, from the start point of its user."""
        plan = Plan.open(
            self.scope,
            self.options,
            documents.decode(self.pipeline)["pipeline"],
            on_router=self.on_router,
            raw_data=self.raw_data,
            parameters=self.parameters,
            collation=self.collation,
            let=self.let,
            release=self.release,
        )
        return plan if self.variables is None else replace(plan, variables=self.variables)

    def without_pipeline(self) -> "StreamSpec":
        """Return the same stream without the user's stages."""
        return replace(self, pipeline=documents.encode({"pipeline": []}))


def goes_on_after(plan: Plan, after: int) -> Plan:
    """Return the plan of a stream that has shown everything up to a cluster time.

    Its tokens keep the version of the client's, which may be newer than the release's own.
    """
    given = plan.start_token
    start = ResumeToken.high_water_mark(after + 1, plan.token_version if given is None else given.version)
    options = replace(plan.options, resume_after=start, start_after=None, start_at_operation_time=None)
    return replace(plan, options=options)
