"""The events of a change stream on a history, without Spark."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions

from tailrace.events.scope import Scope, check_kept
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.past.rebuilt_images import Images, images_of
from tailrace.pipeline.streams.history_events import HistoryEvents
from tailrace.pipeline.streams.planning import StreamPlanner
from tailrace.pipeline.streams.stream_spec import StreamSpec, goes_on_after
from tailrace.places import history_place


def read_history(
    history: str | PathLike[str],
    scope: str | None = None,
    options: Mapping[str, Any] | None = None,
    pipeline: Sequence[Mapping[str, Any]] = (),
    *,
    images: str = "stored",
    server_version: str | None = None,
    codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
) -> Iterator[dict[str, Any]]:
    """Return the events that a change stream on a history shows, up to the history's end.

    ``history`` is a folder or the URL of an object store. ``scope`` is ``"db"`` or ``"db.coll"``; without it
    the whole deployment is watched. ``options`` are the fields of `$changeStream`, with the server's names;
    without a start point the stream begins with the history. ``pipeline`` are the stages after
    `$changeStream`.

    With ``images="rebuilt"``, the options `fullDocument` and `fullDocumentBeforeChange` show images that the
    deployment did not store, as far as the history has the document's past (docs/history.md); by default
    they show what the deployment has stored. ``server_version`` is the MongoDB release whose streams are
    imitated, by default that of the deployment.

    Options and pipeline are checked by this call. Iterating raises `CommandError` where the stream would
    fail, after all events before it. An invalidated stream ends.

        for event in tailrace.read_history(
            "events", "shop.orders", {"fullDocument": "required"}, images="rebuilt"
        ):
            print(event["fullDocument"])
    """
    source = HistoryEvents(history_place(history), rebuilds_images=images_of(images) is Images.REBUILT)
    spec = StreamSpec.of(
        Scope.cluster() if scope is None else Scope.parse_ns(scope),
        options or {},
        pipeline,
        release=source.release() if server_version is None else StreamRelease.parse(server_version),
    )
    planner = StreamPlanner(spec, source)
    if planner.start is not None:
        planner.check_start(planner.start)
    after = source.earliest() if planner.start is None else max(planner.start - 1, 0)
    check_kept(spec.scope, source.kept, after + 1)
    return _decoded(spec, source, after, lambda raw: bson.decode(raw, codec_options))


def _decoded(
    spec: StreamSpec, source: HistoryEvents, after: int, decode: Callable[[bytes], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    plan = spec.open()
    if plan.start is None:
        plan = goes_on_after(plan, after)
    for rows in source.run(plan, after, source.promised()).rows():
        yield from (decode(row.raw) for row in rows)
