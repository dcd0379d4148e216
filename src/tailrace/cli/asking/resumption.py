"""Whether a resume token can be resumed at a place now, from where, and until when."""

import time
from dataclasses import dataclass
from typing import Any, Final

from bson import encode
from pymongo.errors import InvalidName, OperationFailure

from tailrace.cli.asking import words
from tailrace.cli.asking.deployment import Deployment, ask_deployment
from tailrace.cli.asking.history import history_in
from tailrace.cli.asking.oplog import entries_after
from tailrace.cli.sources.namespaces import namespace_argument
from tailrace.client.token_order import comes_after, high_water_mark, text_of
from tailrace.error_codes import ErrorCode
from tailrace.errors import HistoryError, UsageError
from tailrace.events.cluster_time import END_OF_TIME, from_timestamp, seconds_of
from tailrace.events.resume_token import cluster_time_of
from tailrace.events.token_explanation import TokenExplanation, TokenKind
from tailrace.sources.deployments.clients import Client, open_client, shard_uri
from tailrace.sources.deployments.connection_string import ConnectionString
from tailrace.sources.deployments.driver_errors import command_error, driver_errors

OPLOG: Final = "the oplog"
HISTORY: Final = "the history"
_AWAIT_MS: Final = 100
_EXPANDED_SINCE: Final = 17
"""The wire version of MongoDB 6.0, whose streams can show all events."""
_MOST_COUNTED: Final = 1000
_COUNT_SECONDS: Final = 2.0
"""Events up to these limits are counted; for more, the entries of the oplog are."""
_ONLY_TOKENS: Final = {"$project": {"_id": 1}}
_WRONG_TYPE_BITS: Final = 50810
_NO_EVENT: Final = "the {place} has no event with this token; is it of this deployment?"
_SPLIT: Final[dict[str, Any]] = {"$changeStreamSplitLargeEvent": {}}


@dataclass(frozen=True, slots=True)
class Resumption:
    place: str
    reason: str | None
    """Why it cannot be resumed; None if it can."""
    tier: str | None = None
    events: int | None = None
    """How many events the place has after it; None if that is unknown."""
    entries: int | None = None
    """How many oplog entries there are after it, where events are not counted."""
    stays_seconds: float | None = None
    """How long the oplog will have it at the present rate."""
    outlived_by_history: bool = False
    is_hidden: bool | None = None
    """Whether the pipeline hides the token's event; None if there is no pipeline."""

    @property
    def is_possible(self) -> bool:
        return self.reason is None

    def rows(self) -> list[tuple[str, str | None]]:
        return [
            ("at", self.place),
            ("resumable", f"yes, from {self.tier}" if self.is_possible else f"no: {self.reason}"),
            ("after it", self._count()),
            ("stays", self._future()),
            ("pipeline", self._effect()),
        ]

    def _effect(self) -> str | None:
        if self.is_hidden is None:
            return None
        if not self.is_hidden:
            return "shows the event of the token; every driver resumes after it"
        return (
            "hides the event of the token; `tailrace watch` and `tailrace consume` go on after it; other "
            "drivers get 280 ChangeStreamFatalError with the next event: start them at its time"
        )

    def _count(self) -> str | None:
        if self.events is not None:
            return f"{self.events:,} event{'' if self.events == 1 else 's'}"
        return None if self.entries is None else f"{self.entries:,} oplog entries"

    def _future(self) -> str | None:
        if not self.is_possible:
            return None
        if self.tier == HISTORY:
            return "until the pipeline removes it, by --keep-age or --keep-size"
        if self.stays_seconds is None:
            return None
        end = words.moment(time.time() + self.stays_seconds)
        then = ", then in the history" if self.outlived_by_history else ""
        return f"in the oplog for {words.span(self.stays_seconds)} at the present rate, until {end}{then}"

    def as_document(self) -> bytes:
        fields: dict[str, Any] = {
            "place": self.place,
            "resumable": self.is_possible,
            "reason": self.reason,
            "tier": self.tier,
            "eventsAfter": self.events,
            "entriesAfter": self.entries,
            "hiddenByPipeline": self.is_hidden,
            "leavesOplogSeconds": None if self.stays_seconds is None else round(self.stays_seconds),
        }
        return encode({name: value for name, value in fields.items() if value is not None})


def at_history(place: str, token: dict[str, Any], explained: TokenExplanation) -> Resumption:
    """Raises `HistoryError` if there is no history."""
    table = history_in(place)
    moment = explained.cluster_time
    if moment <= table.begins and table.begins:
        return Resumption(
            table.place, f"the history begins after it, at {words.moment(seconds_of(table.begins))}"
        )
    if moment > table.through:
        return Resumption(
            table.place, f"the history has not reached it, only {words.moment(seconds_of(table.through))}"
        )
    later = table.files.between(moment - 1, END_OF_TIME)
    count, is_there = 0, False
    if len(later):
        data = str(token["_data"])
        for batch in table.read(moment - 1, later[0].last_time, columns=["token"]):
            tokens = batch.column("token").to_pylist()
            is_there = is_there or data in tokens
            count += sum(found > data for found in tokens)
        count += later[1:].rows
    has_to_match = explained.kind is TokenKind.EVENT and explained.version == 2
    if has_to_match and not is_there:
        return Resumption(table.place, _NO_EVENT.format(place="history"))
    return Resumption(table.place, None, HISTORY, events=count)


def at_deployment(
    uri: ConnectionString,
    token: dict[str, Any],
    explained: TokenExplanation,
    namespace: str | None,
    pipeline: list[dict[str, Any]] | None = None,
) -> Resumption:
    """Raises `SourceUnavailableError` if nobody answers, `CommandError` if the pipeline is refused."""
    now = time.time()
    found = ask_deployment(uri, now)
    place = f"{uri.shown}, {found.name}"
    with open_client(uri) as client:
        hidden = None
        try:
            counted = _count_after(client, uri, token, explained, namespace)
            # a MongoDB notices only with the next event that the one of the token is missing
            if counted == 0 and not _shows(client, uri, token, explained, namespace, []):
                return Resumption(place, _NO_EVENT.format(place="deployment"))
            if pipeline is not None:
                hidden = not _shows(client, uri, token, explained, namespace, pipeline)
        except OperationFailure as error:
            reason = str(command_error(error, uri, "changeStream and find"))
            return Resumption(place, f"{reason}{_hint(error, token, explained)}")
    moment = explained.cluster_time
    tier = _tier(found, moment)
    # an oplog that has lost nothing has every time before its first entry, too
    stays = [
        left
        for oplog in found.oplogs
        if (left := oplog.stays(max(seconds_of(moment), oplog.window.oldest), now)) is not None
    ]
    return Resumption(
        place,
        None,
        tier,
        events=counted if tier == OPLOG else _events_in(found, token, explained),
        entries=_entries_after(uri, found, moment)
        if tier == OPLOG and counted is None and found.source is None
        else None,
        stays_seconds=min(stays, default=None) if tier == OPLOG else None,
        outlived_by_history=found.has_history,
        is_hidden=hidden,
    )


def _hint(error: OperationFailure, token: dict[str, Any], explained: TokenExplanation) -> str:
    """What may be missing of a token that was not found."""
    has_key = explained.kind is TokenKind.EVENT
    if (
        error.code not in (ErrorCode.ChangeStreamFatalError, _WRONG_TYPE_BITS)
        or not has_key
        or "_typeBits" in token
    ):
        return ""
    return "; if the document of the token has _typeBits, give the whole document"


def _tier(found: Deployment, moment: int) -> str:
    """What answers for a time."""
    history = found.history
    if history is None:
        return OPLOG
    if found.source is not None:  # whose oplog is not shown; it answers for what the history does not have
        return HISTORY if history.begins <= moment <= history.through else OPLOG
    return OPLOG if all(oplog.begins <= moment for oplog in found.oplogs) else HISTORY


def _count_after(
    client: Client, uri: str, token: dict[str, Any], explained: TokenExplanation, namespace: str | None
) -> int | None:
    """Open a stream after the token; return how many events it has now, None if they are too many to count.

    Raises `OperationFailure` if the server refuses the token.
    """
    hello = _hello(client, uri, namespace)
    end = hello.get("operationTime")
    # A fragment's place is one in whole events.
    stages: list[dict[str, Any]] = [_ONLY_TOKENS] if explained.fragment is None else [_SPLIT]
    deadline = time.monotonic() + _COUNT_SECONDS
    count = 0
    try:
        with _target(client, namespace).watch(
            stages, start_after=token, max_await_time_ms=_AWAIT_MS, **_all_events(hello)
        ) as stream:
            while count < _MOST_COUNTED and time.monotonic() < deadline:
                if stream.try_next() is not None:
                    count += 1
                elif end is None or cluster_time_of(stream.resume_token["_data"]) >= from_timestamp(end):
                    return count
    except InvalidName as error:
        raise UsageError(f"{namespace!r} is not a namespace: {error}") from None
    return None


def _shows(
    client: Client,
    uri: str,
    token: dict[str, Any],
    explained: TokenExplanation,
    namespace: str | None,
    pipeline: list[dict[str, Any]],
) -> bool:
    """Whether a stream with a pipeline has the event of a token among the events of its time.

    True for a token that need not match an event: a high water mark, a fragment, or an invalidation, which
    only some streams show.
    """
    if explained.kind is not TokenKind.EVENT or explained.version is None:
        return True
    options = _all_events(_hello(client, uri, namespace))
    start = high_water_mark(explained.cluster_time, explained.version)
    deadline = time.monotonic() + _COUNT_SECONDS
    with (
        driver_errors(uri, f"changeStream and find on {namespace or 'all databases'}"),
        _target(client, namespace).watch(
            pipeline, start_after=start, max_await_time_ms=_AWAIT_MS, **options
        ) as stream,
    ):
        while time.monotonic() < deadline:
            event = stream.try_next()
            if event is not None and text_of(event["_id"]) == text_of(token):
                return True
            if comes_after(stream.resume_token if event is None else event["_id"], token):
                break
    return False


def _target(client: Client, namespace: str | None) -> Any:
    if namespace is None:
        return client
    database, collection = namespace_argument("--ns", namespace)
    return client[database] if collection is None else client[database][collection]


def _hello(client: Client, uri: str, namespace: str | None) -> dict[str, Any]:
    with driver_errors(uri, f"changeStream and find on {namespace or 'all databases'}"):
        return client.admin.command("hello")


def _all_events(hello: dict[str, Any]) -> dict[str, Any]:
    """The options of a stream that shows every kind of event that the server knows."""
    return {"show_expanded_events": True} if hello.get("maxWireVersion", 0) >= _EXPANDED_SINCE else {}


def _events_in(found: Deployment, token: dict[str, Any], explained: TokenExplanation) -> int | None:
    """Count in the server's history, if this machine can read it."""
    if found.history is None:
        return None
    try:
        return at_history(found.history.place, token, explained).events
    except (HistoryError, OSError):
        return None


def _entries_after(uri: str, found: Deployment, moment: int) -> int:
    if found.kind != "a sharded cluster":
        with open_client(uri) as client:
            return entries_after(client, uri, moment)
    total = 0
    with open_client(uri) as router, driver_errors(uri, "listShards on the cluster"):
        shards = router.admin.command("listShards")["shards"]
    for shard in shards:
        address = shard_uri(uri, shard["host"])
        with open_client(address) as client:
            total += entries_after(client, address, moment)
    return total
