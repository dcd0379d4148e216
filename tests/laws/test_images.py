"""Images: the documents that a stream shows before and after a change are the real ones.

They are compared with the generator's record of every change, not with the pre-images that the stream reads.
"""

import random
from dataclasses import replace

from tailrace.bson import raw as rawbson
from tests.laws.law_seeds import over_fewer_seeds
from tests.support.choices import any_scope
from tests.support.history import Change, History, identity
from tests.support.seeds import check_histories
from tests.support.streams import Stream, cluster_time_of, operation_type, transaction_index_of
from tests.support.workload import EVERYTHING

NULL = (rawbson.NULL, b"")


def truth_of(history: History) -> dict[tuple[int, int], Change]:
    return {(c.timestamp, c.position): c for c in history.changes if c.is_write and not c.migrated}


def shown(event: bytes, name: bytes) -> bytes | None:
    """Return a document of an event, None for null; fail if the field is missing."""
    found = rawbson.field(event, name)
    assert found is not None, name
    return None if found == NULL else found[1]


def check_event(event: bytes, truth: dict[tuple[int, int], Change], *, all_recorded: bool) -> None:
    kind = operation_type(event)
    if kind not in ("insert", "update", "replace", "delete"):
        return
    change = truth[cluster_time_of(event), transaction_index_of(event)]
    assert identity(rawbson.subdocument(event, b"documentKey") or b"") == change.key
    recorded = change.has_image
    if kind != "insert":
        assert recorded or not all_recorded
        assert shown(event, b"fullDocumentBeforeChange") == (change.before if recorded else None)
    if kind == "update":
        image = shown(event, b"fullDocument")
        if not recorded:
            assert image is None
        elif image != change.after:
            check_moved_fields(change.before or b"", change.after or b"", image or b"")
    elif kind != "delete":
        assert shown(event, b"fullDocument") == change.after
    else:
        assert rawbson.find(event, b"fullDocument") is None


def check_moved_fields(before: bytes, after: bytes, image: bytes) -> None:
    """An image has the fields of the stored document, but those that an update moved are where they were."""
    old, new, seen = (
        {name: (kind, raw[start:end]) for kind, name, start, end in rawbson.elements(raw)}
        for raw in (before, after, image)
    )
    assert list(seen) == sorted(new, key=lambda name: list(old).index(name) if name in old else len(old))
    for name, (kind, value) in seen.items():
        if value != new[name][1]:
            assert old[name][0] == new[name][0] == kind
            assert kind in (rawbson.DOCUMENT, rawbson.ARRAY)
            check_moved_fields(old[name][1], new[name][1], value)
        assert kind == new[name][0]


def check_images(history: History, mode: str) -> None:
    spec = {"fullDocument": mode, "fullDocumentBeforeChange": mode, "startAtOperationTime": history.start}
    scope = any_scope(history, random.Random(history.seed))
    truth = truth_of(history)
    for event in Stream(history, scope, spec).events():
        check_event(event, truth, all_recorded=mode == "required")


@over_fewer_seeds
def test_recorded_images_are_the_documents_before_and_after(seeds: range) -> None:
    check_histories(seeds, lambda history: check_images(history, "whenAvailable"))


@over_fewer_seeds
def test_required_images_are_shown_where_every_collection_records_them(seeds: range) -> None:
    always = replace(EVERYTHING, images="always")
    check_histories(seeds, lambda history: check_images(history, "required"), always)


def current_documents(history: History) -> None:
    rng = random.Random(history.seed)
    spec = {"fullDocument": "updateLookup", "startAtOperationTime": history.start}
    for event in Stream(history, any_scope(history, rng), spec).events():
        if operation_type(event) == "update":
            namespace = namespace_of(event)
            key = identity(rawbson.subdocument(event, b"documentKey") or b"")
            current = history.final_documents.get(namespace, {}).get(key)
            assert shown(event, b"fullDocument") == current


def namespace_of(event: bytes) -> str:
    namespace = rawbson.subdocument(event, b"ns") or b""
    parts = [rawbson.find(namespace, name) for name in (b"db", b"coll")]
    return ".".join(rawbson.string_value(namespace, part[2], part[3]) for part in parts if part)


@over_fewer_seeds
def test_update_lookup_shows_the_current_documents(seeds: range) -> None:
    check_histories(seeds, current_documents)
