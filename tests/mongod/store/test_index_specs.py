"""Index specifications: what is refused with which code, and what the catalog stores."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Decimal128, Regex

from tailrace.bson import documents
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.create import create_collection
from tailrace.mongod.store.ddl.create_and_drop_indexes import create_indexes
from tailrace.mongod.store.ddl.timeseries_indexes import shown_spec
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tests.mongod.store.opening import opened

Document = dict[str, Any]
CLUSTERED: Document = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}
FRENCH: Document = {"locale": "fr"}
SERIES: Document = {"timeseries": {"timeField": "t", "metaField": "m"}}
MAX_SECONDS = 2**31 - 1
_names = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened(tmp_path_factory.mktemp("specs")) as store:
        yield store


def created(
    store: Store,
    *specs: Document,
    rules: CatalogRules | None = None,
    ignore_unknown: bool = False,
    **options: Any,
) -> list[Document]:
    """The specifications of the indexes of a new collection, without that of `_id`."""
    name = f"c{next(_names)}"

    def work(unit: WriteUnit) -> None:
        create_collection(unit, "shop", name, options)
        found = create_indexes(unit, "shop", name, specs, ignore_unknown=ignore_unknown)
        assert found.failure is None

    before = store.rules
    store.rules = rules or before
    try:
        store.write_now(work)
    finally:
        store.rules = before
    collection = store.catalog.collection(f"shop.{name}")
    assert collection is not None
    return [shown_spec(collection, index) for index in collection.indexes if not index.is_id]


def refused(store: Store, *specs: Document, **options: Any) -> int:
    with pytest.raises(CommandError) as caught:
        created(store, *specs, **options)
    return caught.value.code


def on(key: Document, **options: Any) -> Document:
    return {"key": key, "name": "i", **options}


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ({}, 67),
        ({f"f{n}": 1 for n in range(33)}, 13103),
        ({"a": 0}, 67),
        ({"a": -0.0}, 67),
        ({"a": Decimal128("0")}, 67),
        ({"a": float("nan")}, 67),
        ({"a": Decimal128("NaN")}, 67),
        ({"a": True}, 67),
        ({"a": None}, 67),
        ({"a": []}, 67),
        ({"a": {}}, 67),
        ({"a": "btree"}, 67),
        ({"a": ""}, 67),
        ({"a": "2dsphere_bucket"}, 67),
        ({"": 1}, 67),
        ({"a.": 1}, 67),
        ({".a": 1}, 67),
        ({"a..b": 1}, 67),
        ({"$a": 1}, 67),
        ({"a.$b": 1}, 67),
        ({"a.$b.c": 1}, 67),
        ({"$**.a": 1}, 67),
        ({".$**": 1}, 67),
        ({"a": "hashed", "b": "hashed"}, 31303),
        ({"a": "hashed", "b": "2d"}, 67),
        ({"a": "2d", "b": "2dsphere"}, 67),
        ({"a": "hashed", "b": "text"}, 67),
        ({"$**": 1, "a.$**": 1}, 67),
        ({"$**": "hashed"}, 67),
        ({"$**": "2d"}, 67),
        ({"a.$**": "2dsphere"}, 67),
        ({"a": "2d", "b": "2d"}, 16800),
        ({"a": 1, "b": "2d"}, 16801),
        ({"a": "text", "b": 1, "c": "text"}, 67),
    ],
)
def test_keys_that_no_index_can_have(store: Store, key: Document, code: int) -> None:
    assert refused(store, on(key)) == code


@pytest.mark.parametrize(
    "key",
    [
        {f"f{n}": 1 for n in range(32)},
        {"a": 1, "b.c": -1},
        {"a": 0.5},
        {"a": -7},
        {"a": Decimal128("-1.5")},
        {"a.$id": 1},
        {"a.$ref": 1},
        {"a.$db": -1},
        {"a": "hashed"},
        {"a": "hashed", "b": 1},
        {"a": 1, "b": "hashed"},
        {"$**": 1},
        {"$**": -1},
        {"a.$**": 1},
        {"a": 1, "$**": 1},
        {"_id": "hashed"},
        {"_id": 1, "a": 1},
        {"_id": 2},
    ],
)
def test_keys_that_are_stored_as_given(store: Store, key: Document) -> None:
    (spec,) = created(store, on(key))
    assert spec == {"v": 2, "key": key, "name": "i"}
    assert list(spec) == ["v", "key", "name"]


def test_older_releases_have_no_compound_and_no_descending_wildcards(store: Store) -> None:
    rules = CatalogRules(compound_wildcards=False)
    assert refused(store, on({"a": 1, "$**": 1}), rules=rules) == 67
    assert refused(store, on({"$**": -1}), rules=rules) == 67
    assert created(store, on({"$**": 1}), rules=rules) == [{"v": 2, "key": {"$**": 1}, "name": "i"}]
    assert created(store, on({"a": -1, "b": 1}), rules=rules)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"name": "i"}, 9),
        ({"key": {"a": 1}}, 9),
        (on({"a": 1}, made_up=1), 197),
        (on({"a": 1}, name=""), 67),
        (on({"a": 1}, name="a\0b"), 67),
        (on({"a": 1}, name="*"), 2),
        (on({"a": 1}, name="_id_"), 2),
        *[
            (on({"a": 1}, **{field: "1"}), 14)
            for field in ("v", "bits", "min", "max", "bucketSize", "textIndexVersion", "2dsphereIndexVersion")
        ],
        (on({"a": 1}, finestIndexedLevel="1"), 14),
        (on({"a": 1}, coarsestIndexedLevel="1"), 14),
        (on({"a": 1}, v=True), 14),
        *[
            (on({"a": 1}, **{field: "yes"}), 14)
            for field in ("unique", "sparse", "background", "dropDups", "prepareUnique", "clustered")
        ],
        (on({"a": 1}, hidden=1), 14),
        (on({"a": 1}, collation="fr"), 14),
        (on({"a": 1}, partialFilterExpression=1), 14),
        (on({"a": 1}, originalSpec=1), 14),
        ({"key": "a", "name": "i"}, 14),
        ({"key": {"a": 1}, "name": 5}, 14),
        (on({"a": "text"}, default_language=1), 14),
        (on({"a": "text"}, language_override=1), 14),
        (on({"a": 1}, collation={}), 2),
        (on({"a": 1}, originalSpec={}), 2),
        (on({"a": 1}, originalSpec={"key": {"a": 1}, "name": "i"}), 2),
        (on({"a": 1}, originalSpec={"key": {"a": 1}, "name": "i", "made_up": 1}), 197),
        (on({"a": 1}, unique=True, prepareUnique=True), 67),
        (on({"a": 1}, v=0), 67),
        (on({"a": 1}, v=3), 67),
        (on({"a": 1}, v=1.5), 2),
        (on({"a": 1}, v=Decimal128("1.5")), 2),
        (on({"a": 1}, v=float("nan")), 2),
        (on({"a": 1}, v=2**31), 2),
        (on({"a": 1}, v=2**31 - 1), 67),
        (on({"a": 1}, v=-(2**31) + 1), 67),
        (on({"a": 1}, v=-(2**31)), 2),
        (on({"a": 1}, weights={"a": 1}), 67),
        (on({"a": "text"}, weights=1), 14),
        (on({"a": "text"}, weights="a"), 67),
        (on({"a": "text"}, weights=["a"]), 67),
        (on({"a": 1}, storageEngine=1), 67),
        (on({"a": 1}, storageEngine={}), 67),
        (on({"a": 1}, storageEngine={"wiredTiger": 1}), 2),
        (on({"a": "text"}, collation=FRENCH), 67),
        (on({"a": "2d"}, collation=FRENCH), 67),
        (on({"$**": 1}, unique=True), 67),
        (on({"$**": 1}, sparse=True), 67),
        (on({"$**": 1}, expireAfterSeconds=1), 67),
        (on({"a": "hashed"}, unique=True), 16764),
        (on({"_id": -1}), 2),
        (on({"_id": 1}, sparse=True), 197),
        (on({"_id": 1}, unique=True), 197),
        (on({"_id": 1}, collation=FRENCH), 2),
        (on({"_id": 1}, clustered=True, unique=True), 6243700),
        (on({"_id": 1}, clustered=True), 67),
        (on({"_id": 1}, clustered=False, unique=True), 6492800),
        (on({"a": 1}, clustered=True, unique=True), 6243700),
    ],
)
def test_refused_specifications(store: Store, spec: Document, code: int) -> None:
    assert refused(store, spec) == code


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (on({"a": 1}, v=1), {"v": 1, "key": {"a": 1}, "name": "i"}),
        (on({"a": 1}, v=1.0), {"v": 1, "key": {"a": 1}, "name": "i"}),
        (on({"a": 1}, v=Decimal128("2")), {"v": 2, "key": {"a": 1}, "name": "i"}),
        (
            on({"a": 1}, sparse=True, hidden=True, unique=1),
            {"v": 2, "unique": True, "hidden": True, "key": {"a": 1}, "name": "i", "sparse": True},
        ),
        (on({"a": 1}, unique=False, hidden=False, prepareUnique=0), {"v": 2, "key": {"a": 1}, "name": "i"}),
        (on({"a": 1}, unique=Decimal128("0")), {"v": 2, "key": {"a": 1}, "name": "i"}),
        (on({"a": 1}, unique=Decimal128("2")), {"v": 2, "unique": True, "key": {"a": 1}, "name": "i"}),
        (on({"a": 1}, unique=Decimal128("sNaN")), {"v": 2, "unique": True, "key": {"a": 1}, "name": "i"}),
        (on({"a": 1}, prepareUnique=1), {"v": 2, "prepareUnique": True, "key": {"a": 1}, "name": "i"}),
        (
            on({"a": 1}, ns="x.y", dropDups=True, background=True),
            {"v": 2, "key": {"a": 1}, "name": "i", "background": True},
        ),
        (on({"a": 1}, collation={"locale": "simple"}), {"v": 2, "key": {"a": 1}, "name": "i"}),
        (
            on({"a": 1}, storageEngine={"wiredTiger": {"configString": ""}}),
            {"v": 2, "key": {"a": 1}, "name": "i", "storageEngine": {"wiredTiger": {"configString": ""}}},
        ),
        (
            on({"a": "2d"}, bits=32, min=-1, max=1),
            {"v": 2, "key": {"a": "2d"}, "name": "i", "bits": 32, "min": -1, "max": 1},
        ),
        (
            on({"a": "2dsphere"}),
            {"v": 2, "key": {"a": "2dsphere"}, "name": "i", "2dsphereIndexVersion": 3},
        ),
        (
            on({"a": 1, "b": "2dsphere"}, **{"2dsphereIndexVersion": 1}),
            {"v": 2, "key": {"a": 1, "b": "2dsphere"}, "name": "i", "2dsphereIndexVersion": 1},
        ),
        (
            on({"$**": 1}, wildcardProjection={"a": 1, "b.c": 1}),
            {"v": 2, "key": {"$**": 1}, "name": "i", "wildcardProjection": {"a": 1, "b.c": 1}},
        ),
    ],
)
def test_stored_specifications(store: Store, spec: Document, stored: Document) -> None:
    (found,) = created(store, spec)
    assert found == stored
    assert list(found) == list(stored)


def test_unknown_fields_are_ignored_on_request(store: Store) -> None:
    assert created(store, on({"a": 1}, made_up=1), ignore_unknown=True) == [
        {"v": 2, "key": {"a": 1}, "name": "i"}
    ]


def test_an_index_has_the_collation_of_its_collection_by_default(store: Store) -> None:
    ((inherited,), (simple,)) = (
        created(store, on({"a": 1}), collation=FRENCH),
        created(store, on({"a": 1}, collation={"locale": "simple"}), collation=FRENCH),
    )
    assert inherited["collation"]["locale"] == "fr"
    assert "collation" not in simple
    assert created(store, on({"_id": 1}, collation=FRENCH), collation=FRENCH) == []
    assert refused(store, on({"_id": 1}, collation={"locale": "de"}), collation=FRENCH) == 2
    assert refused(store, on({"_id": 1}, collation={"locale": "simple"}), collation=FRENCH) == 2
    assert created(store, on({"_id": 1}), collation=FRENCH) == []


def test_the_clustered_index_may_be_named_again(store: Store) -> None:
    assert created(store, on({"_id": 1}, clustered=True, unique=True), **CLUSTERED) == []
    assert refused(store, on({"a": 1}, clustered=True, unique=True), **CLUSTERED) == 6243700
    assert refused(store, on({"_id": 1, "a": 1}, clustered=True, unique=True), **CLUSTERED) == 6243700


@pytest.mark.parametrize("seconds", [0, 1, 1.9, MAX_SECONDS, Decimal128("3")])
def test_indexes_that_remove_expired_documents(store: Store, seconds: Any) -> None:
    (spec,) = created(store, on({"a": 1}, expireAfterSeconds=seconds))
    assert spec["expireAfterSeconds"] == seconds


@pytest.mark.parametrize("seconds", [float("nan"), Decimal128("NaN")])
def test_an_expiry_that_is_not_a_number_never_comes(store: Store, seconds: Any) -> None:
    (spec,) = created(store, on({"a": 1}, expireAfterSeconds=seconds))
    assert spec["expireAfterSeconds"] == MAX_SECONDS


def test_expiries_that_are_refused(store: Store) -> None:
    for seconds in (-1, MAX_SECONDS + 1, Decimal128("-1"), "1", True):
        assert refused(store, on({"a": 1}, expireAfterSeconds=seconds)) == 67
    assert refused(store, on({"a": 1, "b": 1}, expireAfterSeconds=1)) == 67
    capped: Document = {"capped": True, "size": 4096}
    assert created(store, on({"a": 1}, expireAfterSeconds=1), **capped)
    assert (
        refused(store, on({"a": 1}, expireAfterSeconds=1), rules=CatalogRules(ttl_on_capped=False), **capped)
        == 67
    )
    assert created(store, on({"a": 1}), rules=CatalogRules(ttl_on_capped=False), **capped)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"bits": 0}, 72),
        ({"bits": 33}, 72),
        ({"min": 180}, 72),
        ({"max": -180}, 72),
        ({"min": 5, "max": 5}, 72),
    ],
)
def test_flat_areas_that_are_refused(store: Store, options: Document, code: int) -> None:
    assert refused(store, on({"a": "2d"}, **options)) == code


def test_flat_areas_at_their_limits(store: Store) -> None:
    for options in ({"bits": 1}, {"min": 179}, {"max": -179}, {"min": 5, "max": 6}):
        assert created(store, on({"a": "2d"}, **options))


@pytest.mark.parametrize(
    ("key", "options", "code"),
    [
        ({"a": "2dsphere"}, {"2dsphereIndexVersion": 0}, 67),
        ({"a": "2dsphere"}, {"2dsphereIndexVersion": 4}, 67),
        ({"a": "text"}, {"textIndexVersion": 0}, 67),
        ({"a": "text"}, {"textIndexVersion": 4}, 67),
        ({"a": "text"}, {"weights": {"a": 0}}, 67),
        ({"a": "text"}, {"weights": {"a": 100_000}}, 67),
        ({"a": "text"}, {"weights": {"a": "1"}}, 67),
        ({"a": "text"}, {"weights": {"a": True}}, 67),
        ({"a": "text"}, {"weights": {"$b": 1}}, 67),
        ({"a": "text"}, {"weights": {"b.$c": 1}}, 67),
        ({"_fts": "text", "_ftsx": 1}, {}, 67),
        ({"a": "text"}, {"default_language": "klingon"}, 67),
        ({"a": "text"}, {"language_override": ""}, 67),
        ({"a": "text"}, {"language_override": "$a"}, 67),
        ({"a": "text"}, {"language_override": "a.b"}, 67),
        ({"a": 1}, {"wildcardProjection": {"a": 1}}, 2),
        ({"$**": 1}, {"wildcardProjection": 1}, 14),
        ({"$**": 1}, {"wildcardProjection": {}}, 9),
        ({"a.$**": 1}, {"wildcardProjection": {"a": 1}}, 9),
        ({"$**": 1}, {"wildcardProjection": {"a": "$b"}}, 51271),
        ({"$**": 1}, {"wildcardProjection": {"a": {"b": "$c"}}}, 51271),
        ({"$**": 1}, {"wildcardProjection": {"a": {"$add": [1, 2]}}}, 51271),
        ({"$**": 1}, {"wildcardProjection": {"a": 1, "b": 0}}, 31254),
    ],
)
def test_special_indexes_that_are_refused(store: Store, key: Document, options: Document, code: int) -> None:
    assert refused(store, on(key, **options)) == code


LANGUAGES = [
    *[
        "danish",
        "da",
        "dutch",
        "nl",
        "english",
        "en",
        "finnish",
        "fi",
        "french",
        "fr",
        "german",
        "de",
        "German",
    ],
    *["hungarian", "hu", "italian", "it", "norwegian", "nb", "portuguese", "pt", "romanian", "ro", "russian"],
    *["ru", "spanish", "es", "swedish", "sv", "turkish", "tr", "none"],
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_of_text_indexes(store: Store, language: str) -> None:
    (spec,) = created(store, on({"a": "text"}, default_language=language))
    assert spec["default_language"] == language


def test_a_text_index_is_stored_with_its_weights_and_defaults(store: Store) -> None:
    text = {"default_language": "english", "language_override": "language", "textIndexVersion": 3}
    rows: list[tuple[Document, Document, Document]] = [
        ({"a": "text"}, {"_fts": "text", "_ftsx": 1}, {"a": 1}),
        ({"b": "text", "a": "text"}, {"_fts": "text", "_ftsx": 1}, {"a": 1, "b": 1}),
        ({"p": 1, "a": "text", "q": -1}, {"p": 1, "_fts": "text", "_ftsx": 1, "q": -1}, {"a": 1}),
        ({"$**": "text"}, {"_fts": "text", "_ftsx": 1}, {"$**": 1}),
    ]
    for given, key, weights in rows:
        (spec,) = created(store, on(given))
        assert spec == {"v": 2, "key": key, "name": "i", "weights": weights, **text}
        assert list(spec["key"]) == list(key)
        assert list(spec["weights"]) == list(weights)
    (spec,) = created(
        store,
        on(
            {"_fts": "text", "_ftsx": 1}, weights={"c": 99_999, "a": 2.0}, textIndexVersion=2,
            default_language="none", language_override="idioma",
        ),
    )  # fmt: skip
    assert spec["weights"] == {"a": 2, "c": 99_999}
    assert list(spec["weights"]) == ["a", "c"]
    assert (spec["textIndexVersion"], spec["default_language"], spec["language_override"]) == (
        2,
        "none",
        "idioma",
    )
    assert refused(store, on({"a": "text"}), on({"b": "text"}, name="j")) == 85
    assert refused(store, on({"a": "text"}), on({"p": 1, "b": "text"}, name="j")) == 67


@pytest.mark.parametrize(
    "partial",
    [
        {"a": 1},
        {"a": {"$eq": 1}},
        {"a": {"$gt": 1, "$lt": 9}},
        {"a": {"$gte": 1}},
        {"a": {"$lte": 1}},
        {"a": {"$in": [1, 2]}},
        {"a": {"$exists": True}},
        {"a": {"$type": "string"}},
        {"a": {"$all": [1]}},
        {"$comment": "why"},
        {"$and": [{"a": 1}, {"b": {"$gt": 2}}]},
        {"$or": [{"a": 1}, {"$and": [{"b": 1}]}]},
        {"a": {"b": 1}},
    ],
)
def test_filters_of_partial_indexes(store: Store, partial: Document) -> None:
    (spec,) = created(store, on({"a": 1}, partialFilterExpression=partial))
    assert spec["partialFilterExpression"] == partial


@pytest.mark.parametrize(
    ("partial", "code"),
    [
        ({"$expr": {"$eq": ["$a", 1]}}, 224),
        ({"$jsonSchema": {}}, 224),
        ({"$where": "1"}, 2),
        ({"$text": {"$search": "a"}}, 2),
        ({"a": {"$nope": 1}}, 2),
        ({"a": {"$ne": 1}}, 67),
        ({"a": {"$nin": [1]}}, 67),
        ({"a": {"$exists": False}}, 67),
        ({"a": Regex("x")}, 67),
        ({"a": {"$regex": "x"}}, 67),
        ({"a": {"$not": {"$gt": 1}}}, 67),
        ({"$nor": [{"a": 1}]}, 67),
        ({"$and": [{"a": 1}, {"b": {"$mod": [2, 0]}}]}, 67),
        ({"$or": [{"$and": [{"b": {"$size": 2}}]}]}, 67),
    ],
)
def test_filters_that_no_partial_index_can_have(store: Store, partial: Document, code: int) -> None:
    assert refused(store, on({"a": 1}, partialFilterExpression=partial)) == code


def test_a_partial_index_is_not_sparse(store: Store) -> None:
    assert refused(store, on({"a": 1}, partialFilterExpression={"a": 1}, sparse=True)) == 67
    assert created(store, on({"a": 1}, partialFilterExpression={"a": 1}, sparse=False))


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (on({"a": 1}), None),
        (on({"a": 1}, hidden=True), None),
        (on({"a": 1}, background=True), None),
        (on({"a": 1}, v=1), None),
        (on({"a": 1}, name="j"), 85),
        (on({"b": 1}), 86),
        (on({"a": -1}), 86),
        (on({"a": 1, "b": 1}), 86),
        (on({"a": 1}, unique=True), 86),
        (on({"a": 1}, sparse=True), 86),
        (on({"a": 1}, collation=FRENCH), 86),
        (on({"a": 1}, partialFilterExpression={"a": 1}), 86),
        (on({"a": 1}, expireAfterSeconds=1), 85),
        (on({"a": 1}, name="j", expireAfterSeconds=1), 85),
        (on({"a": 1}, name="j", unique=True), None),
        (on({"a": 1}, name="j", sparse=True), None),
        (on({"a": 1}, name="j", collation=FRENCH), None),
        (on({"a": 1}, name="j", partialFilterExpression={"a": 1}), None),
    ],
)
def test_an_index_beside_another(store: Store, second: Document, code: int | None) -> None:
    name = f"c{next(_names)}"
    store.write_now(lambda unit: create_indexes(unit, "shop", name, [on({"a": 1})]))
    if code is None:
        result = store.write_now(lambda unit: create_indexes(unit, "shop", name, [second]))
        is_new = second["name"] != "i"
        assert (result.before, result.after, result.some_exist) == (2, 3 if is_new else 2, not is_new)
        assert not result.created_collection
    else:
        with pytest.raises(CommandError) as caught:
            store.write_now(lambda unit: create_indexes(unit, "shop", name, [second]))
        assert caught.value.code == code


def test_indexes_of_a_collection_with_documents(store: Store) -> None:
    name = f"c{next(_names)}"

    def fill(unit: WriteUnit) -> None:
        collection = create_collection(unit, "shop", name, {})
        for n in range(4):
            unit.insert(collection, documents.encode({"_id": n, "a": n, "b": n // 2}))

    store.write_now(fill)
    specs = [on({"a": 1}), on({"b": 1}, name="b")]
    built = store.write_now(lambda unit: create_indexes(unit, "shop", name, specs))
    assert (built.before, built.after, built.created_collection, built.some_exist) == (1, 3, False, False)
    assert built.failure is None
    more = [*specs, on({"a": 1, "b": 1}, name="ab"), on({"b": -1}, name="unique", unique=True)]
    failed = store.write_now(lambda unit: create_indexes(unit, "shop", name, more))
    assert (failed.before, failed.after, failed.created_collection, failed.some_exist) == (3, 3, False, True)
    assert failed.failure is not None
    assert failed.failure.code == 11000
    none = store.write_now(lambda unit: create_indexes(unit, "shop", name, specs))
    assert (none.before, none.after, none.created_collection, none.some_exist) == (3, 3, False, True)
    new = store.write_now(lambda unit: create_indexes(unit, "shop", name + "x", specs))
    assert (new.before, new.after, new.created_collection, new.some_exist) == (1, 3, True, False)


def test_a_collection_has_at_most_64_indexes(store: Store) -> None:
    specs = [on({f"f{n}": 1}, name=f"i{n}") for n in range(64)]
    assert len(created(store, *specs[:63])) == 63
    assert refused(store, *specs) == 67
    assert refused(store, on({"a": 1}), on({"a": 1})) == 68


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (on({"t": 1}), {"control.min.t": 1, "control.max.t": 1}),
        (on({"t": -1}), {"control.max.t": -1, "control.min.t": -1}),
        (on({"m": 1}), {"meta": 1}),
        (on({"m.x": -1, "t": 1}), {"meta.x": -1, "control.min.t": 1, "control.max.t": 1}),
        (on({"mx": 1}), {"control.min.mx": 1, "control.max.mx": 1}),
        (on({"m": "hashed"}), {"meta": "hashed"}),
        (on({"m.place": "2dsphere"}), {"meta.place": "2dsphere"}),
        (on({"place": "2dsphere"}), {"data.place": "2dsphere_bucket"}),
        (on({"m": 1}, sparse=True), {"meta": 1}),
        (on({"m": 1}, partialFilterExpression={"m": 1}), {"meta": 1}),
    ],
)
def test_an_index_of_a_time_series_is_one_of_its_buckets(
    store: Store, spec: Document, stored: Document
) -> None:
    (shown,) = created(store, spec, **SERIES)
    collection = store.catalog.collection(f"shop.system.buckets.c{next(_names) - 1}")
    assert collection is not None
    found = next(index.spec for index in collection.indexes if not index.is_id)
    assert found["key"] == stored
    assert list(found["key"]) == list(stored)
    assert shown["key"] == spec["key"]
    assert {**shown, "v": 2}.items() >= spec.items()


def test_a_filter_of_a_time_series_is_one_of_its_metadata(store: Store) -> None:
    partial = {"m": 5, "m.x": {"$gt": 1}, "m.y": {"z": 1}}
    created(store, on({"m": 1}, partialFilterExpression=partial), **SERIES)
    collection = store.catalog.collection(f"shop.system.buckets.c{next(_names) - 1}")
    assert collection is not None
    found = next(index.spec for index in collection.indexes if not index.is_id)
    assert found["partialFilterExpression"] == {
        "meta": {"$eq": 5}, "meta.x": {"$gt": 1}, "meta.y": {"$eq": {"z": 1}},
    }  # fmt: skip
    assert found["originalSpec"] == {**on({"m": 1}, partialFilterExpression=partial), "v": 2}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (on({"t": 1}, unique=True), 72),
        (on({"t": 1}, expireAfterSeconds=1), 72),
        (on({"a": "text"}), 72),
        (on({"a": 1}, sparse=True), 72),
        (on({"a": "hashed"}), 67),
        (on({"t": "2dsphere"}), 67),
        (on({"a": 1}, partialFilterExpression={"a": 1}), 72),
        (on({"t": 1}, partialFilterExpression={"mx": 1}), 72),
    ],
)
def test_indexes_that_no_time_series_can_have(store: Store, spec: Document, code: int) -> None:
    assert refused(store, spec, **SERIES) == code
