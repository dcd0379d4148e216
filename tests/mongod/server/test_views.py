"""Views: created, changed, listed and dropped as documents of `system.views`."""

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tests.mongod.server.oplog import entries, last_entry, refused
from tests.mongod.server.running import Document, RunningServer

MATCH = [{"$match": {"a": 1}}]


def view(database: Database[Document], name: str, on: str, pipeline: list[Document] | None = None) -> None:
    database.command("create", name, viewOn=on, pipeline=pipeline or [])


def test_a_view_is_a_document(server: RunningServer, database: Database[Document]) -> None:
    view(database, "v", "c", MATCH)
    created, inserted = entries(server, database.name)
    assert created["o"]["create"] == "system.views"
    assert (inserted["op"], inserted["ns"]) == ("i", f"{database.name}.system.views")
    assert inserted["o"] == {"_id": f"{database.name}.v", "viewOn": "c", "pipeline": MATCH}
    assert inserted["o2"] == {"_id": f"{database.name}.v"}
    (entry,) = database.list_collections(filter={"type": "view"})
    assert entry == {
        "name": "v",
        "type": "view",
        "options": {"viewOn": "c", "pipeline": MATCH},
        "info": {"readOnly": True},
    }


def test_reading_through_a_view(database: Database[Document]) -> None:
    database.c.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}, {"_id": 3, "a": 1}])
    view(database, "v", "c", MATCH)
    view(database, "w", "v", [{"$project": {"_id": 1}}])
    assert list(database.w.find().sort("_id", 1)) == [{"_id": 1}, {"_id": 3}]
    database.command("collMod", "v", viewOn="c", pipeline=[])
    assert database.w.count_documents({}) == 3


def test_changing_a_view_replaces_its_document(server: RunningServer, database: Database[Document]) -> None:
    view(database, "v", "c", MATCH)
    database.command("collMod", "v", viewOn="d")
    logged = last_entry(server, database.name)
    assert logged["op"] == "u"
    assert logged["o"] == {"_id": f"{database.name}.v", "viewOn": "d", "pipeline": MATCH}
    assert logged["o2"] == {"_id": f"{database.name}.v"}


def test_dropping_a_view(server: RunningServer, database: Database[Document]) -> None:
    view(database, "v", "c")
    reply = database.command("drop", "v")
    assert reply["ns"] == f"{database.name}.v"
    assert "nIndexesWas" not in reply
    logged = last_entry(server, database.name)
    assert (logged["op"], logged["o"]) == ("d", {"_id": f"{database.name}.v"})
    assert database.list_collection_names() == ["system.views"]


def test_the_same_view_again(server: RunningServer, database: Database[Document]) -> None:
    view(database, "v", "c", MATCH)
    before = len(entries(server, database.name))
    view(database, "v", "c", MATCH)
    assert len(entries(server, database.name)) == before
    with refused(48):
        view(database, "v", "c")
    with refused(48):
        database.command("create", "v")
    database.command("create", "c")
    with refused(48):
        view(database, "c", "v")


def test_views_are_dropped_with_their_definitions(database: Database[Document]) -> None:
    view(database, "v", "c")
    database.command("drop", "system.views")
    assert database.list_collection_names() == []
    database.command("create", "v")
    assert database.list_collection_names() == ["v"]


def test_a_collation_is_shown_in_full(database: Database[Document]) -> None:
    database.command("create", "v", viewOn="c", collation={"locale": "fr"})
    (entry,) = database.list_collections(filter={"name": "v"})
    assert entry["options"]["collation"]["strength"] == 3
    with refused(167, "collation"):
        view(database, "w", "v")


def test_views_that_read_each_other_have_one_collation(database: Database[Document]) -> None:
    french = {"locale": "fr"}
    database.create_collection("above", viewOn="below")
    database.create_collection("measured", timeseries={"timeField": "t"})
    for name, source in (("below", "orders"), ("on_series", "measured")):
        with refused(167):
            database.create_collection(name, viewOn=source, collation=french)
        database.create_collection(name, viewOn=source)


def test_definitions_of_time_series_cannot_be_dropped(database: Database[Document]) -> None:
    database.create_collection("measured", timeseries={"timeField": "t"})
    with refused(125):
        database.drop_collection("system.views")


def test_cycles_are_refused(database: Database[Document]) -> None:
    view(database, "a", "b")
    view(database, "b", "c")
    with refused(5):
        view(database, "c", "a")
    with refused(5):
        view(database, "self", "self")
    with refused(5):
        database.command("collMod", "b", viewOn="a")
    lookup = {"$lookup": {"from": "a", "localField": "x", "foreignField": "x", "as": "y"}}
    with refused(5):
        view(database, "c", "d", [lookup])
    with refused(5):
        view(database, "c", "d", [{"$unionWith": "a"}])


def test_views_cannot_be_too_deep(database: Database[Document]) -> None:
    view(database, "v0", "c")
    for number in range(1, 20):
        view(database, f"v{number}", f"v{number - 1}")
    with refused(165):
        view(database, "v20", "v19")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"viewOn": "c", "pipeline": [{"$changeStream": {}}]}, 167),
        ({"viewOn": "c", "pipeline": [{"$out": "x"}]}, 167),
        ({"viewOn": "c", "pipeline": [{"$merge": {"into": "x"}}]}, 167),
        ({"viewOn": "c", "pipeline": [{"$nosuch": 1}]}, 40324),
        ({"viewOn": "c", "pipeline": [{"$limit": 1, "$skip": 1}]}, 40323),
        ({"viewOn": "c", "pipeline": [1]}, 14),
        ({"viewOn": "c", "pipeline": [{"$limit": -1}]}, 5107201),
        ({"viewOn": "c", "pipeline": {}}, 14),
        ({"viewOn": 1, "pipeline": []}, 14),
        ({"viewOn": "", "pipeline": []}, 2),
        ({"viewOn": "c$d"}, 73),
        ({"viewOn": "c", "changeStreamPreAndPostImages": {"enabled": True}}, 72),
        ({"viewOn": "c", "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72),
        ({"viewOn": "c", "timeseries": {"timeField": "t"}}, 72),
    ],
)
def test_definitions_that_are_refused(database: Database[Document], options: Document, code: int) -> None:
    with refused(code):
        database.command({"create": "v", **options})
    # The collection of definitions is made before a definition is checked.
    assert database.list_collection_names() in ([], ["system.views"])


def test_a_view_is_not_a_collection(client: MongoClient[Document], database: Database[Document]) -> None:
    view(database, "v", "c")
    for command in (
        {"collStats": "v"},
        {"validate": "v"},
        {"compact": "v"},
        {"convertToCapped": "v", "size": 9},
    ):
        with refused(166):
            database.command(command)
    with refused(166):
        database.v.insert_one({})
    with refused(73):
        view(database, "system.v", "c")
