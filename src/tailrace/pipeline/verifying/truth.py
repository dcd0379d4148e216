"""What a sink should have: events and documents of the source itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, cast

from pymongo import MongoClient

from tailrace.bson import documents
from tailrace.errors import UsageError
from tailrace.events.resume_token import cluster_time_of
from tailrace.events.scope import Namespace, Scope
from tailrace.lake.past.as_of import as_of
from tailrace.pipeline.streams.event_source import EventSource
from tailrace.pipeline.streams.open_source import SourceOptions, open_source
from tailrace.pipeline.streams.stream_spec import StreamSpec, goes_on_after
from tailrace.pipeline.verifying.event_check import token_of
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.connection_string import is_uri
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.raw_documents import split_documents


def true_events(
    place: str,
    scope: Scope,
    options: Mapping[str, Any],
    pipeline: Sequence[Mapping[str, Any]],
    start: int | None,
) -> Callable[[str, str], Iterator[bytes]]:
    """The stream of a deployment or a history, from a cluster time or the first token of a sink on.

    It ends with the last token of the sink: what the sink has not got yet is not missing.
    """
    source = open_source(SourceOptions(uri=place) if is_uri(place) else SourceOptions(history=place))
    spec = StreamSpec.of(scope, options, pipeline, on_router=source.is_cluster, release=source.release())
    return lambda first, last: _between(source, spec, first, last, start)


def _between(
    source: EventSource, spec: StreamSpec, first: str, last: str, start: int | None
) -> Iterator[bytes]:
    with closing(source):
        if not last:
            if start is None:
                raise UsageError("the sink has no events; name the beginning of the stream with --start-at")
            after, through = start - 1, int(source.promised())
        else:
            after = cluster_time_of(first) - 1 if start is None else start - 1
            through = cluster_time_of(last)
        if source.oldest() > after + 1:
            raise UsageError(
                "the source no longer has all events since then; verify against a history, or name a later "
                "beginning with --start-at"
            )
        run = source.run(goes_on_after(spec.open(), after), after, through)
        for rows in run.rows():
            for row in rows:
                token = token_of(row.raw)
                if last and (token > last or (start is None and token < first)):
                    continue
                yield row.raw


def true_documents(place: str, namespace: Namespace) -> Iterator[bytes]:
    """The documents of a collection now, in one snapshot; or at the end of a history."""
    if not is_uri(place):
        yield from as_of(place, str(namespace)).raw()
        return
    client: MongoClient[dict[str, Any]] = MongoClient(place)
    with (
        closing(client),
        driver_errors(place, rights.documents_of(str(namespace))),
        client.start_session(snapshot=True) as session,
    ):
        for batch in client[namespace.db][namespace.coll].find_raw_batches({}, session=session):
            yield from split_documents(cast("bytes", batch))


def without_lookups(raw: bytes) -> bytes:
    """An event without the document that `updateLookup` found, which depends on when it was looked up."""
    event = documents.decode(raw)
    if event.get("operationType") == "update":
        event.pop("fullDocument", None)
    return documents.encode(event)
