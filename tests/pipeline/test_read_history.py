"""Streams on a history, with images that the deployment did not store."""

from pathlib import Path
from typing import Any

import pytest

from tailrace import CommandError, ErrorCode, ReplicaSet, UsageError, read_history
from tailrace.namespaces import NamespaceChoice

Document = dict[str, Any]
REQUIRED: Document = {"fullDocument": "required", "fullDocumentBeforeChange": "required"}
WHEN_AVAILABLE: Document = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}


def images(events: list[Document]) -> list[tuple[str, Document | None, Document | None]]:
    return [
        (event["operationType"], event.get("fullDocumentBeforeChange"), event.get("fullDocument"))
        for event in events
    ]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    with ReplicaSet(data=folder / "data") as old:
        old.client().shop.old.insert_one({"_id": 1, "n": 0})
        old.client().shop.old.insert_one({"_id": 2})
        old.truncate_oplog()  # but for the newest entry
    with ReplicaSet(data=folder / "data", history=folder / "history", builds_history=True) as built:
        shop = built.client().shop
        shop.orders.insert_one({"_id": 1, "n": 0})
        shop.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        shop.orders.replace_one({"_id": 1}, {"a": 2})
        shop.orders.delete_one({"_id": 1})
        shop.old.update_one({"_id": 1}, {"$set": {"n": 1}})
        shop.old.replace_one({"_id": 1}, {"n": 2})
        shop.old.update_one({"_id": 1}, {"$set": {"n": 3}})
        built.catch_up()
    return folder / "history"


def test_images_are_rebuilt(history: Path) -> None:
    events = [*read_history(history, "shop.orders", REQUIRED, images="rebuilt")]
    assert images(events) == [
        ("insert", None, {"_id": 1, "n": 0}),
        ("update", {"_id": 1, "n": 0}, {"_id": 1, "n": 1}),
        ("replace", {"_id": 1, "n": 1}, {"_id": 1, "a": 2}),
        ("delete", {"_id": 1, "a": 2}, None),
    ]
    assert [*read_history(history, "shop.orders", WHEN_AVAILABLE, images="rebuilt")] == events
    resumed = read_history(
        history, "shop.orders", {**REQUIRED, "resumeAfter": events[1]["_id"]}, images="rebuilt"
    )
    assert [*resumed] == events[2:]


def test_by_default_images_are_those_that_the_deployment_has_stored(history: Path) -> None:
    events = [*read_history(history, "shop.orders", WHEN_AVAILABLE)]
    assert [before for _, before, _ in images(events)] == [None] * 4
    with pytest.raises(CommandError) as failure:
        [*read_history(history, "shop.orders", REQUIRED)]
    assert failure.value.code == ErrorCode.NoMatchingDocument


def test_a_document_that_is_older_than_the_history_has_images_from_its_replacement_on(history: Path) -> None:
    changed = [{"$match": {"documentKey._id": 1}}]
    events = [*read_history(history, "shop.old", WHEN_AVAILABLE, changed, images="rebuilt")]
    assert images(events) == [
        ("update", None, None),
        ("replace", None, {"_id": 1, "n": 2}),
        ("update", {"_id": 1, "n": 2}, {"_id": 1, "n": 3}),
    ]
    stream = read_history(history, "shop.old", {"fullDocument": "required"}, changed, images="rebuilt")
    with pytest.raises(CommandError) as failure:
        next(stream)
    assert failure.value.code == ErrorCode.NoMatchingDocument


def test_another_value_is_refused(history: Path) -> None:
    with pytest.raises(UsageError, match="images are stored or rebuilt, not 'exact'"):
        read_history(history, images="exact")


def test_a_collection_that_had_a_name_that_is_not_kept_begins_again(tmp_path: Path) -> None:
    kept = NamespaceChoice.of(["shop.orders"])
    with ReplicaSet(history=tmp_path, builds_history=True, kept=kept) as built:
        shop = built.client().shop
        shop.orders.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        shop.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
        shop.orders.rename("hidden")
        shop.hidden.update_one({"_id": 1}, {"$set": {"n": 2}})
        shop.hidden.rename("orders")
        shop.orders.update_many({}, {"$inc": {"n": 1}})
        built.catch_up()
    events = [*read_history(tmp_path, "shop.orders", WHEN_AVAILABLE, images="rebuilt")]
    while events[-1]["operationType"] == "invalidate":
        options = {**WHEN_AVAILABLE, "startAfter": events[-1]["_id"]}
        events += read_history(tmp_path, "shop.orders", options, images="rebuilt")
    assert images([event for event in events if event["operationType"] == "update"]) == [
        ("update", {"_id": 1, "n": 0}, {"_id": 1, "n": 1}),
        ("update", None, None),
        ("update", None, None),
    ]
