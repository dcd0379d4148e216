"""Options and names of new collections: what is refused with which code, and what the catalog stores."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Decimal128, Int64

from tailrace.errors import CommandError
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.collection_options import check_validation_modes
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.store import Store
from tests.mongod.store.opening import opened

Document = dict[str, Any]
CLUSTERED: Document = {"key": {"_id": 1}, "unique": True}
SERIES: Document = {"timeField": "t"}
MAX_INT = 2**31 - 1
_names = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened(tmp_path_factory.mktemp("options")) as store:
        yield store


def created(
    store: Store, options: Document, *, ns: str | None = None, rules: CatalogRules | None = None
) -> Document:
    """The options that the catalog has for a new collection."""
    database, _, name = (ns or f"shop.c{next(_names)}").partition(".")
    before = store.rules
    store.rules = rules or before
    try:
        collection = store.write_now(lambda unit: create_collection(unit, database, name, options))
    finally:
        store.rules = before
    return dict(collection.options)


def refused(store: Store, options: Document, **how: Any) -> int:
    with pytest.raises(CommandError) as caught:
        created(store, options, **how)
    return caught.value.code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capped": True}, 72),
        ({"size": 5}, 72),
        ({"max": 5}, 72),
        ({"capped": False, "size": 5}, 72),
        ({"capped": True, "max": 5}, 72),
        ({"capped": True, "size": 0}, 2),
        ({"capped": True, "size": (1 << 50) + 1}, 2),
        ({"capped": True, "size": 9, "max": 2**31}, 2),
        ({"validationLevel": "loose"}, 2),
        ({"validationAction": "ignore"}, 2),
        ({"validator": {"a": {"$nope": 1}}}, 2),
        ({"expireAfterSeconds": 5}, 72),
        ({"autoIndexId": False}, 50001),
        ({"storageEngine": {"wiredTiger": 1}}, 2),
        ({"indexOptionDefaults": {"other": {}}}, 40415),
        ({"indexOptionDefaults": {"storageEngine": 1}}, 14),
        ({"encryptedFields": {"fields": [], "other": 1}}, 40415),
        ({"encryptedFields": {"escCollection": "e"}}, 40414),
        ({"clusteredIndex": True}, 5979703),
        ({"clusteredIndex": {**CLUSTERED, "other": 1}}, 40415),
        ({"clusteredIndex": {"key": {"_id": 1}}}, 40414),
        ({"clusteredIndex": {"unique": True}}, 40414),
        ({"clusteredIndex": {**CLUSTERED, "key": {"a": 1}}}, 197),
        ({"clusteredIndex": {**CLUSTERED, "key": {"_id": -1}}}, 197),
        ({"clusteredIndex": {**CLUSTERED, "key": {"_id": True}}}, 197),
        ({"clusteredIndex": {**CLUSTERED, "key": {"_id": 1, "a": 1}}}, 197),
        ({"clusteredIndex": {**CLUSTERED, "key": 5}}, 197),
        ({"clusteredIndex": {**CLUSTERED, "name": 5}}, 14),
        ({"clusteredIndex": {**CLUSTERED, "unique": False}}, 5979700),
        ({"clusteredIndex": {**CLUSTERED, "v": 1}}, 5979704),
        ({"clusteredIndex": CLUSTERED, "autoIndexId": False}, 6026501),
        ({"clusteredIndex": CLUSTERED, "capped": True, "size": 5}, 6049200),
        ({"clusteredIndex": CLUSTERED, "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72),
        ({"clusteredIndex": CLUSTERED, "expireAfterSeconds": -1}, 72),
        ({"clusteredIndex": CLUSTERED, "expireAfterSeconds": MAX_INT + 1}, 72),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "unique": True}}, 197),
        ({"idIndex": {"key": {"_id": 1}}}, 9),
        ({"idIndex": {"name": "_id_"}}, 9),
        ({"idIndex": {"key": {}, "name": "_id_"}}, 67),
        ({"idIndex": {"key": {"_id": 1}, "name": ""}}, 67),
        ({"idIndex": {"key": {"a": 1}, "name": "_id_"}}, 2),
        ({"idIndex": {"key": {"_id": -1}, "name": "_id_"}}, 2),
        ({"idIndex": {"key": {"_id": 1, "a": 1}, "name": "_id_"}}, 2),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "collation": {"locale": "fr"}}}, 2),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "v": 3}}, 67),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "v": 0}}, 67),
    ],
)
def test_refused_options(store: Store, options: Document, code: int) -> None:
    assert refused(store, options) == code


STORED: list[tuple[Document, Document]] = [
    ({}, {}),
    ({"capped": False}, {}),
    ({"capped": None, "size": None}, {}),
    ({"max": 7, "size": 1, "capped": True}, {"capped": True, "size": 1, "max": 7}),
    ({"capped": True, "size": 5000}, {"capped": True, "size": 5000}),
    ({"capped": True, "size": 1 << 50}, {"capped": True, "size": 1 << 50}),
    ({"capped": True, "size": 9, "max": 1}, {"capped": True, "size": 9, "max": 1}),
    ({"capped": True, "size": 9, "max": 0}, {"capped": True, "size": 9, "max": MAX_INT}),
    ({"capped": True, "size": 9, "max": -4}, {"capped": True, "size": 9, "max": MAX_INT}),
    ({"capped": True, "size": 9, "max": MAX_INT}, {"capped": True, "size": 9, "max": MAX_INT}),
    ({"autoIndexId": True}, {"autoIndexId": True}),
    ({"temp": True}, {"temp": True}),
    ({"temp": False}, {}),
    ({"validator": {}}, {}),
    ({"validator": {"a": 1}}, {"validator": {"a": 1}}),
    ({"validationLevel": "off"}, {"validationLevel": "off"}),
    ({"validationLevel": "strict"}, {"validationLevel": "strict"}),
    ({"validationLevel": "moderate"}, {"validationLevel": "moderate"}),
    ({"validationAction": "error"}, {"validationAction": "error"}),
    ({"validationAction": "warn"}, {"validationAction": "warn"}),
    ({"validationAction": "errorAndLog"}, {"validationAction": "errorAndLog"}),
    ({"changeStreamPreAndPostImages": {"enabled": False}}, {}),
    (
        {"changeStreamPreAndPostImages": {"enabled": True}},
        {"changeStreamPreAndPostImages": {"enabled": True}},
    ),
    ({"storageEngine": {}}, {}),
    ({"storageEngine": {"wiredTiger": {}}}, {"storageEngine": {"wiredTiger": {}}}),
    ({"indexOptionDefaults": {}}, {}),
    ({"indexOptionDefaults": {"storageEngine": {}}}, {"indexOptionDefaults": {"storageEngine": {}}}),
    ({"collation": {"locale": "simple"}}, {}),
    ({"clusteredIndex": False}, {}),
    (
        {"clusteredIndex": CLUSTERED},
        {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}},
    ),
    (
        {
            "expireAfterSeconds": 0,
            "clusteredIndex": {**CLUSTERED, "unique": Decimal128("1"), "v": 2, "name": "n"},
        },
        {
            "clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "n", "unique": True},
            "expireAfterSeconds": Int64(0),
        },
    ),
    ({"encryptedFields": {"fields": []}}, {"encryptedFields": {"fields": []}}),
    ({"idIndex": {"key": {"_id": 1.0}, "name": "any", "v": 1, "ns": "x"}}, {}),
]


@pytest.mark.parametrize(("options", "stored"), STORED)
def test_stored_options(store: Store, options: Document, stored: Document) -> None:
    found = created(store, options)
    assert found == stored
    assert list(found) == list(stored)
    assert all(type(value) is type(found[option]) for option, value in stored.items())


def test_levels_and_actions_are_checked_before_anything_else() -> None:
    check_validation_modes({})
    check_validation_modes({"validationLevel": "moderate", "validationAction": "errorAndLog", "size": -1})
    check_validation_modes({"validationLevel": None, "validationAction": None})
    for options in ({"validationLevel": "nope"}, {"validationAction": "nope"}):
        with pytest.raises(CommandError) as caught:
            check_validation_modes(options)
        assert caught.value.code == 2


def test_the_id_index_has_the_version_and_collation_of_its_option(store: Store) -> None:
    french = {"locale": "fr"}
    spec = {"key": {"_id": 1}, "name": "_id_", "collation": french, "v": 1}
    assert created(store, {"collation": french, "idIndex": spec})["collation"]["locale"] == "fr"
    collection = store.catalog.collection(f"shop.c{next(_names) - 1}")
    assert collection is not None
    assert collection.indexes[0].spec["v"] == 1
    assert collection.indexes[0].spec["collation"]["locale"] == "fr"
    assert refused(store, {"collation": {"locale": "de"}, "idIndex": spec}) == 2


def test_rules_of_older_releases(store: Store) -> None:
    rounding = CatalogRules(rounds_capped_sizes=True)
    sizes = [created(store, {"capped": True, "size": n}, rules=rounding)["size"] for n in (1, 256, 257)]
    assert sizes == [256, 256, 512]
    quiet = CatalogRules(logs_validation_errors=False)
    assert refused(store, {"validationAction": "errorAndLog"}, rules=quiet) == 2
    assert created(store, {"validationAction": "warn"}, rules=quiet) == {"validationAction": "warn"}


def test_a_repeated_create_needs_the_same_options(store: Store) -> None:
    options = {"capped": True, "size": 4096}
    created(store, options, ns="shop.repeated")
    assert created(store, {**options, "temp": False}, ns="shop.repeated") == options
    assert refused(store, {}, ns="shop.repeated") == 48
    assert refused(store, {**options, "max": 5}, ns="shop.repeated") == 48
    assert refused(store, options, ns="shop.repeated", rules=CatalogRules(repeats_are_errors=True)) == 48


def test_internal_databases_have_no_images_and_no_validators(store: Store) -> None:
    for database in ("admin", "config", "local"):
        images = {"changeStreamPreAndPostImages": {"enabled": True}}
        assert refused(store, images, ns=f"{database}.c") == 72
        assert refused(store, {"validator": {"a": 1}}, ns=f"{database}.c") == 72
    assert refused(store, {"validator": {"a": 1}}, ns="shop.system.js") == 72
    assert created(store, {"autoIndexId": False}, ns="local.without") == {}


@pytest.mark.parametrize(
    ("series", "code"),
    [
        ({}, 40414),
        ({"timeField": 5}, 14),
        ({"timeField": ""}, 72),
        ({"timeField": "_id"}, 72),
        ({"timeField": "$t"}, 72),
        ({"timeField": "a.b"}, 72),
        ({"timeField": "a\0"}, 72),
        ({"timeField": "t", "other": 1}, 40415),
        ({"timeField": "t", "metaField": "t"}, 72),
        ({"timeField": "t", "metaField": 1}, 14),
        ({"timeField": "t", "metaField": "_id"}, 72),
        ({"timeField": "t", "granularity": "days"}, 2),
        ({"timeField": "t", "granularity": 1}, 2),
        ({"timeField": "t", "granularity": "hours", "bucketMaxSpanSeconds": 3600}, 72),
        ({"timeField": "t", "granularity": "hours", "bucketRoundingSeconds": 2_592_000}, 72),
        ({"timeField": "t", "bucketMaxSpanSeconds": 60}, 72),
        ({"timeField": "t", "bucketRoundingSeconds": 60}, 72),
        ({"timeField": "t", "bucketMaxSpanSeconds": 60, "bucketRoundingSeconds": 61}, 72),
        ({"timeField": "t", "bucketMaxSpanSeconds": 0, "bucketRoundingSeconds": 0}, 2),
        ({"timeField": "t", "bucketMaxSpanSeconds": 31_536_001, "bucketRoundingSeconds": 31_536_001}, 2),
        ({"timeField": "t", "bucketMaxSpanSeconds": "1", "bucketRoundingSeconds": "1"}, 2),
        ({"timeField": "t", "bucketMaxSpanSeconds": True, "bucketRoundingSeconds": True}, 2),
    ],
)
def test_refused_time_series(store: Store, series: Document, code: int) -> None:
    assert refused(store, {"timeseries": series}) == code


@pytest.mark.parametrize(
    ("series", "stored"),
    [
        ({}, {"granularity": "seconds", "bucketMaxSpanSeconds": 3600}),
        ({"metaField": "m"}, {"metaField": "m", "granularity": "seconds", "bucketMaxSpanSeconds": 3600}),
        ({"bucketMaxSpanSeconds": 3600}, {"granularity": "seconds", "bucketMaxSpanSeconds": 3600}),
        ({"granularity": "seconds"}, {"granularity": "seconds", "bucketMaxSpanSeconds": 3600}),
        ({"granularity": "minutes"}, {"granularity": "minutes", "bucketMaxSpanSeconds": 86_400}),
        (
            {"granularity": "hours", "bucketMaxSpanSeconds": 2_592_000},
            {"granularity": "hours", "bucketMaxSpanSeconds": 2_592_000},
        ),
        (
            {"bucketMaxSpanSeconds": 1, "bucketRoundingSeconds": 1},
            {"bucketRoundingSeconds": 1, "bucketMaxSpanSeconds": 1},
        ),
        (
            {"bucketMaxSpanSeconds": 31_536_000.0, "bucketRoundingSeconds": 31_536_000},
            {"bucketRoundingSeconds": 31_536_000, "bucketMaxSpanSeconds": 31_536_000},
        ),
    ],
)
def test_stored_time_series(store: Store, series: Document, stored: Document) -> None:
    found = created(store, {"timeseries": {**SERIES, **series}, "expireAfterSeconds": 9})
    assert found["timeseries"] == {**SERIES, **stored}
    assert list(found["timeseries"]) == list({**SERIES, **stored})
    assert list(found) == ["validator", "clusteredIndex", "expireAfterSeconds", "timeseries"]
    assert found["clusteredIndex"] is True
    schema = found["validator"]["$jsonSchema"]
    times = {"bsonType": "object", "required": ["t"], "properties": {"t": {"bsonType": "date"}}}
    assert schema == {
        "bsonType": "object",
        "required": ["_id", "control", "data"],
        "properties": {
            "_id": {"bsonType": "objectId"},
            "control": {
                "bsonType": "object",
                "required": ["version", "min", "max"],
                "properties": {
                    "version": {"bsonType": "number"},
                    "min": times,
                    "max": times,
                    "closed": {"bsonType": "bool"},
                    "count": {"bsonType": "number", "minimum": 1},
                },
                "additionalProperties": False,
            },
            "data": {"bsonType": "object"},
            "meta": {},
        },
        "additionalProperties": False,
    }


def test_options_that_time_series_can_have(store: Store) -> None:
    allowed: list[Document] = [
        {"storageEngine": {"wiredTiger": {}}},
        {"indexOptionDefaults": {"storageEngine": {}}},
        {"collation": {"locale": "fr"}},
        {"temp": True},
        {"changeStreamPreAndPostImages": {"enabled": False}},
    ]
    for options in allowed:
        assert "timeseries" in created(store, {"timeseries": SERIES, **options})
    others: list[Document] = [
        {"capped": True, "size": 9},
        {"validator": {"a": 1}},
        {"validationLevel": "off"},
        {"autoIndexId": True},
        {"changeStreamPreAndPostImages": {"enabled": True}},
        {"clusteredIndex": CLUSTERED},
    ]
    for options in others:
        assert refused(store, {"timeseries": SERIES, **options}) == 72


@pytest.mark.parametrize(
    ("ns", "code"),
    [
        ("shop.", 73),
        ("shop..a", 73),
        ("shop.$a", 73),
        ("shop.a.$b", 73),
        ("shop.a\0b", 73),
        ("shop.a$b", 73),
        ("shop." + "a" * 251, 73),
        ("shop." + "é" * 126, 73),
        ("shop.system.made_up", 73),
        ("shop.system.roles", 73),
        ("shop.system.version", 73),
        ("shop.system.keys", 73),
        ("local.system.roles", 73),
        ("SHOP.c", 13297),
    ],
)
def test_names_that_are_refused(store: Store, ns: str, code: int) -> None:
    created(store, {})
    assert refused(store, {}, ns=ns) == code


@pytest.mark.parametrize(
    "ns",
    [
        "shop." + "a" * 250,
        "shop.a.b",
        "shop.systems",
        *[f"shop.system.{name}" for name in ("js", "views", "profile", "users", "buckets.x", "resharding.x")],
        *[
            f"{database}.system.{name}"
            for database in ("admin", "config")
            for name in ("roles", "version", "keys", "users")
        ],
    ],
)
def test_names_that_are_allowed(store: Store, ns: str) -> None:
    assert created(store, {}, ns=ns) == {}
