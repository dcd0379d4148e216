"""Scope: a collection stream is the database stream filtered, which is the cluster stream filtered.

Narrower streams add `invalidate` and end there; started again behind it, they go on. So the whole of a
narrow stream, invalidations left out, is the wider one filtered.
"""

import random
from typing import Any

from tests.laws.law_seeds import over_seeds

from tailrace.bsonio import documents as bsondocs
from tailrace.model.scope import Scope
from tailrace.testing.choices import any_spec, is_users
from tailrace.testing.commands import VIEWS
from tailrace.testing.history import History
from tailrace.testing.seeds import check_histories
from tailrace.testing.streams import Stream, operation_type


def without_invalidations(events: list[bytes]) -> list[bytes]:
    return [event for event in events if operation_type(event) != "invalidate"]


def touches(event: bytes, **watched: str) -> bool:
    """Whether an event's namespace, or a rename's target, is the one watched."""
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
        return without_invalidations(Stream(history, scope, spec, raw_data=raw_data).all_events())

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
    """What a `$match` on the namespace keeps of a wide stream is the same filter again."""
    rng = random.Random(history.seed)
    users = [namespace for namespace in history.namespaces if is_users(namespace)]
    if not users:
        return
    database, _, collection = rng.choice(users).partition(".")
    spec = any_spec(history, rng)
    everything = Stream(history, Scope.cluster(), spec).events()
    match = {"$match": {"ns.db": database, "ns.coll": collection}}
    kept = Stream(history, Scope.cluster(), spec, [match]).events()
    assert kept == [
        event for event in everything if bsondocs.decode(event)["ns"] == {"db": database, "coll": collection}
    ]


@over_seeds
def test_a_match_on_the_namespace_keeps_what_the_namespace_says(seeds: range) -> None:
    check_histories(seeds, filtered_by_user)
