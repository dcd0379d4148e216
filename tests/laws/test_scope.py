"""Scope: a collection stream is the database stream filtered, which is the cluster stream filtered.

Narrower streams add `invalidate` and end there; they can be restarted after it. All events of a narrow stream
and its restarts, without the invalidations, are the events of the wider stream, filtered.
"""

import random
from dataclasses import replace
from typing import Any

from tailrace.bson import documents as bsondocs
from tailrace.events.scope import Scope, ScopeKind
from tailrace.query.match import compile_match
from tests.laws.law_seeds import over_fewer_seeds, over_seeds
from tests.support.choices import any_filter, any_spec, any_stream, is_users
from tests.support.commands import VIEWS
from tests.support.history import History
from tests.support.seeds import check_histories
from tests.support.streams import Stream, operation_type

INVALIDATING = {
    ScopeKind.CLUSTER: frozenset[str](),
    ScopeKind.DATABASE: frozenset({"dropDatabase"}),
    ScopeKind.COLLECTION: frozenset({"drop", "rename"}),
}


def without_invalidations(scope: Scope, events: list[bytes]) -> list[bytes]:
    """Drop `invalidate`, after checking that it follows the events that invalidate, and no others."""
    kinds = [operation_type(event) for event in events]
    for position, kind in enumerate(kinds):
        follows = kinds[position + 1] if position + 1 < len(kinds) else ""
        assert (kind in INVALIDATING[scope.kind]) == (follows == "invalidate")
    return [event for event, kind in zip(events, kinds, strict=True) if kind != "invalidate"]


def touches(event: bytes, **watched: str) -> bool:
    """Return whether an event's namespace, or a rename's target, is the watched one."""
    fields = bsondocs.decode(event)
    places: list[dict[str, Any]] = [fields["ns"], fields.get("to", {})]
    return any(watched.items() <= place.items() for place in places)


def nested_scopes(history: History) -> None:
    rng = random.Random(history.seed)
    users = [namespace for namespace in history.namespaces if is_users(namespace)]
    if not users:
        return
    database, _, collection = rng.choice(users).partition(".")
    spec, raw_data = any_spec(history, rng), rng.random() < 0.3

    def events(scope: Scope) -> list[bytes]:
        return without_invalidations(scope, Stream(history, scope, spec, raw_data=raw_data).all_events())

    of_cluster = events(Scope.cluster())
    of_database = events(Scope.parse_ns(database))
    assert of_database == [event for event in of_cluster if touches(event, db=database)]
    of_collection = events(Scope.parse_ns(f"{database}.{collection}"))
    assert collection not in VIEWS
    assert of_collection == [event for event in of_database if touches(event, db=database, coll=collection)]


@over_seeds
def test_each_scope_is_the_wider_one_filtered(seeds: range) -> None:
    check_histories(seeds, nested_scopes)


def filtered_by_user(history: History) -> None:
    """A `$match` filters the stream's events, no matter in which stage the engine evaluates it.

    The first one is tested on entries as well, where retryable writes have a session that their events do not
    show, and updates a description, whatever the stream shows of it.
    """
    rng = random.Random(history.seed)
    stream = any_stream(history, rng)
    everything = stream.events()
    in_entries = views_of_entries(stream)
    for _ in range(2):
        condition = any_filter(everything, rng)
        accepts = compile_match(condition)
        shown = replace(stream, pipeline=[{"$match": condition}]).run()
        assert shown.error is None
        accepted = [
            (event, accepts(in_entry))
            for event, in_entry in zip(everything, in_entries, strict=True)
            if accepts(bsondocs.decode(event))
        ]
        if "$or" in condition and shown.events == [event for event, _ in accepted]:
            # A server does not test it on entries if there is a part that it cannot test there.
            continue
        assert shown.events == [event for event, by_entry in accepted if by_entry], condition


def views_of_entries(stream: Stream) -> list[dict[str, Any]]:
    """The events of a stream with all that a filter finds in their entries."""
    is_raw = stream.spec.get("showRawUpdateDescription", False)
    spec = {**stream.spec, "showRawUpdateDescription": False}
    events: list[dict[str, Any]] = [bsondocs.decode(event) for event in replace(stream, spec=spec).events()]
    for event in events:
        entry = bsondocs.decode(stream.history.entry_at(event["clusterTime"]))
        # Operations inside an entry have no session of their own.
        if entry["op"] != "c":
            event.update({name: entry[name] for name in ("lsid", "txnNumber") if name in entry})
        if is_raw and "updateDescription" in event:
            # That no array was truncated cannot be tested on an entry.
            del event["updateDescription"]["truncatedArrays"]
    return events


@over_fewer_seeds
def test_a_match_shows_exactly_the_events_it_accepts(seeds: range) -> None:
    check_histories(seeds, filtered_by_user)
