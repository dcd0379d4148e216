"""Fields of a DBRef in paths, and what is refused with a true sentence."""

from typing import Any

import pytest
from bson import DBRef
from pymongo.database import Database
from pymongo.errors import OperationFailure

Document = dict[str, Any]


@pytest.fixture
def database(tailrace_database: Database[Document]) -> Database[Document]:
    tailrace_database.orders.insert_one({"_id": 1, "buyer": DBRef("people", 5)})
    tailrace_database.people.insert_one({"_id": 5, "name": "Ada"})
    return tailrace_database


@pytest.mark.parametrize(
    ("stage", "found"),
    [
        ({"$project": {"buyer": "$buyer.$id"}}, {"_id": 1, "buyer": 5}),
        ({"$project": {"buyer": "$buyer.$ref"}}, {"_id": 1, "buyer": "people"}),
        ({"$project": {"buyer.$id": 1}}, {"_id": 1, "buyer": {"$id": 5}}),
        ({"$group": {"_id": "$buyer.$id"}}, {"_id": 5}),
        ({"$unset": ["buyer.$id", "buyer.$ref"]}, {"_id": 1, "buyer": {}}),
        ({"$match": {"buyer.$id": 5}}, {"_id": 1, "buyer": DBRef("people", 5)}),
        ({"$sort": {"buyer.$id": 1}}, {"_id": 1, "buyer": DBRef("people", 5)}),
        ({"$set": {"buyer.$id": 6}}, {"_id": 1, "buyer": DBRef("people", 6)}),
    ],
)
def test_fields_of_references_are_fields(
    database: Database[Document], stage: Document, found: Document
) -> None:
    assert list(database.orders.aggregate([stage])) == [found]


def test_references_are_joined(database: Database[Document]) -> None:
    """As Beanie fetches links."""
    join = {"from": "people", "localField": "buyer.$id", "foreignField": "_id", "as": "buyer"}
    (order,) = database.orders.aggregate([{"$lookup": join}, {"$unwind": "$buyer"}])
    assert order["buyer"]["name"] == "Ada"
    assert database.orders.distinct("buyer.$id") == [5]
    assert list(database.orders.find({}, {"buyer.$id": 1})) == [{"_id": 1, "buyer": {"$id": 5}}]


def test_other_names_with_a_dollar_are_refused(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as failure:
        list(database.orders.aggregate([{"$project": {"x": "$buyer.$name"}}]))
    assert failure.value.code == 16410


@pytest.mark.parametrize(
    ("filter_", "code", "sentence"),
    [
        ({"$where": "true"}, 2, "$where is not supported: no JavaScript can be run"),
        ({"at": {"$near": [1, 2]}}, 5626500, "$near is not supported: there is no geospatial index"),
        ({"at": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}}, 2, "$geoWithin is not supported"),
        ({"$text": {"$search": "x"}}, 27, "$text is not supported"),
        ({"$expr": {"$function": {"body": "", "args": [], "lang": "js"}}}, 168, "no JavaScript can be run"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(
    database: Database[Document], filter_: Document, code: int, sentence: str
) -> None:
    with pytest.raises(OperationFailure) as failure:
        list(database.orders.find(filter_))
    assert failure.value.code == code
    assert sentence in str(failure.value)
