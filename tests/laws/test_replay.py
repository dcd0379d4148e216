"""Replay: applying a stream's events to the documents at its start gives the documents at its end.

The bytes are the same where the stream shows the server's diff (`showRawUpdateDescription`). An ordinary
`updateDescription` does not contain the place of a field in its document, so there the documents are compared
without the order of their fields. Where one dotted name means two paths, it cannot be applied: the document
is taken from the history.
"""

import random
from collections.abc import Callable, Iterable

from tailrace.bson import raw as rawbson
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.scope import Scope
from tests.laws.law_seeds import over_fewer_seeds, over_seeds
from tests.support.choices import is_users
from tests.support.deployment import INTERNAL_DATABASES
from tests.support.folding import Fold, unordered
from tests.support.history import Change, Documents, History, identity
from tests.support.seeds import check_histories
from tests.support.streams import Stream, cluster_time_of, operation_type, transaction_index_of

Visible = Callable[[str], bool]


def is_shown_with_system_events(namespace: str) -> bool:
    database, _, name = namespace.partition(".")
    shown = ("system.js", "system.buckets.", "system.resharding.")
    return database not in INTERNAL_DATABASES and (not name.startswith("system.") or name.startswith(shown))


def only(documents: Documents, visible: Visible) -> Documents:
    return {namespace: content for namespace, content in documents.items() if visible(namespace)}


def follow(
    history: History, events: Iterable[bytes], start: int, visible: Visible, *, migrated: bool = False
) -> None:
    """Fold events, and compare with the generated changes at every new cluster time."""
    fold = Fold(only(history.documents_at(start - 1, migrated=migrated), visible))
    truth = Fold(fold.documents)
    changes = [c for c in history.changes if c.timestamp >= start and visible(c.namespace)]
    changes = [change for change in changes if migrated or not change.migrated]
    position = 0
    time = start
    for event in events:
        if cluster_time_of(event) > time:
            position = advance(truth, changes, position, time)
            assert fold.content() == truth.content(), to_timestamp(time)
            time = cluster_time_of(event)
            # No change between two events is without an event.
            assert position == len(changes) or changes[position].timestamp >= time, to_timestamp(time)
        fold.apply(event)
    advance(truth, changes, position, history.timestamps[-1])
    assert fold.content() == truth.content()


def advance(truth: Fold, changes: list[Change], position: int, time: int) -> int:
    while position < len(changes) and changes[position].timestamp <= time:
        change = changes[position]
        collection = truth.documents.setdefault(change.namespace, {})
        if change.after is None:
            collection.pop(change.key, None)
        else:
            collection[change.key] = change.after
        position += 1
    return position


def some_start(history: History) -> int:
    """Return the time of a random entry, most often the first."""
    rng = random.Random(history.seed)
    return rng.choice((history.timestamps[0], rng.choice(history.timestamps)))


def cluster_replay(history: History) -> None:
    start = some_start(history)
    spec = {"showRawUpdateDescription": True, "startAtOperationTime": to_timestamp(start)}
    follow(history, Stream(history, Scope.cluster(), spec).events(), start, is_users)


@over_seeds
def test_a_cluster_stream_replays_to_the_same_bytes_at_every_time(seeds: range) -> None:
    check_histories(seeds, cluster_replay)


def complete_replay(history: History) -> None:
    start = some_start(history)
    spec = {
        "showRawUpdateDescription": True,
        "showMigrationEvents": True,
        "showSystemEvents": True,
        "startAtOperationTime": to_timestamp(start),
    }
    events = Stream(history, Scope.cluster(), spec, raw_data=True).events()
    follow(history, events, start, is_shown_with_system_events, migrated=True)


@over_fewer_seeds
def test_a_stream_of_all_events_replays_migrations_and_system_collections_too(
    seeds: range,
) -> None:
    check_histories(seeds, complete_replay)


def collection_replay(history: History) -> None:
    """Replay a collection's stream up to the event that invalidates it."""
    rng = random.Random(history.seed)
    namespaces = [namespace for namespace in history.namespaces if is_users(namespace)]
    if not namespaces:
        return
    namespace = rng.choice(namespaces)
    start = some_start(history)
    spec = {"showRawUpdateDescription": True, "startAtOperationTime": to_timestamp(start)}
    outcome = Stream(history, Scope.parse_ns(namespace), spec).run()
    assert outcome.error is None
    events, end = outcome.events, history.timestamps[-1]
    if outcome.invalidated:
        assert operation_type(events[-1]) == "invalidate"
        assert operation_type(events[-2]) in ("drop", "rename")
        end = cluster_time_of(events[-1]) - 1
        events = events[:-2]
    fold = Fold(only(history.documents_at(start - 1), namespace.__eq__))
    for event in events:
        fold.apply(event)
    assert fold.content() == only(history.documents_at(end), namespace.__eq__)


@over_seeds
def test_a_collection_stream_replays_to_the_same_bytes(seeds: range) -> None:
    check_histories(seeds, collection_replay)


def described_replay(history: History) -> None:
    """Replay a database's stream with ordinary update descriptions, restarted after every invalidation."""
    rng = random.Random(history.seed)
    databases = sorted({namespace.partition(".")[0] for namespace in filter(is_users, history.namespaces)})
    if not databases:
        return
    database = rng.choice(databases)

    def is_watched(namespace: str) -> bool:
        return is_users(namespace) and namespace.startswith(f"{database}.")

    spec = {"showExpandedEvents": True, "startAtOperationTime": history.start}
    fold = Fold({}, lambda event: document_after(history, event))
    for event in Stream(history, Scope.parse_ns(database), spec).all_events():
        fold.apply(event)
    assert comparable(fold.content()) == comparable(only(history.final_documents, is_watched))


def document_after(history: History, event: bytes) -> bytes:
    key = identity(rawbson.subdocument(event, b"documentKey") or b"")
    place = cluster_time_of(event), transaction_index_of(event), key
    for change in history.changes:
        if (change.timestamp, change.position, change.key) == place and change.after is not None:
            return change.after
    raise AssertionError("an update event for a document that did not change")


def comparable(documents: Documents) -> Documents:
    return {
        namespace: {key: unordered(raw) for key, raw in content.items()}
        for namespace, content in documents.items()
    }


@over_fewer_seeds
def test_update_descriptions_replay_to_the_same_documents_except_for_field_order(
    seeds: range,
) -> None:
    check_histories(seeds, described_replay)
