"""The catalog: immutable values."""

import pytest

from tailrace.mongod.store.catalog import ID_INDEX, Catalog, Collection, Index, View


def collection(name: str = "c", database: str = "shop", ident: int = 20, **options: object) -> Collection:
    index = Index(ident + 1, ID_INDEX)
    return Collection(database, name, bytes([ident]) * 16, ident, options, (index,))


def test_a_collection_survives_encoding_and_decoding() -> None:
    unique = Index(30, {"v": 2, "key": {"b": -1, "a.c": 1}, "name": "x", "unique": True})
    kept = collection(validator={"b": {"$gt": 1}, "a": 1}, capped=True).with_changes(
        indexes=(Index(21, ID_INDEX), unique)
    )
    found = Collection.from_bson(kept.to_bson())
    assert (found.ns, found.uuid, found.ident, found.prefix) == ("shop.c", kept.uuid, 20, kept.prefix)
    assert list(found.options["validator"]) == ["b", "a"]
    assert [(i.ident, dict(i.spec), i.key, i.unique) for i in found.indexes] == [
        (21, dict(ID_INDEX), (("_id", 1),), True),
        (30, dict(unique.spec), (("b", -1), ("a.c", 1)), True),
    ]
    assert found.is_capped


def test_properties_of_a_collection() -> None:
    assert collection().id_index is not None
    assert collection(clusteredIndex=True).is_clustered
    assert collection(timeseries={"timeField": "t"}).is_timeseries
    assert collection(changeStreamPreAndPostImages={"enabled": True}).records_images
    assert not collection(changeStreamPreAndPostImages={"enabled": False}).records_images
    assert not collection(database="local").is_logged
    assert collection().index("nosuch") is None


@pytest.mark.parametrize(
    ("spec", "unique", "allows_duplicates"),
    [({}, False, True), ({"unique": True}, True, False), ({"prepareUnique": True}, False, False)],
)
def test_which_indexes_take_duplicates(spec: dict[str, bool], unique: bool, allows_duplicates: bool) -> None:
    index = Index(20, {"v": 2, "key": {"a": 1}, "name": "a_1", **spec})
    assert (index.unique, index.allows_duplicates) == (unique, allows_duplicates)


def test_changes_return_new_catalogs() -> None:
    empty = Catalog()
    first = empty.with_collection(collection("b")).with_collection(collection("a", ident=40))
    renamed = first.without_collection("shop.b").with_collection(collection("z"))
    assert [c.ns for c in empty.collections()] == []
    assert [c.ns for c in first.collections("shop")] == ["shop.a", "shop.b"]
    assert [c.ns for c in renamed.collections()] == ["shop.a", "shop.z"]
    assert renamed.by_uuid(bytes([20]) * 16) is renamed.collection("shop.z")
    assert list(first.collections("sho")) == []


def test_databases_and_views() -> None:
    view = View("shop", "v", "c", ({"$limit": 1},))
    catalog = Catalog().with_collection(collection(database="zoo")).with_collection(collection(ident=50))
    with_view = catalog.with_view(view)
    assert catalog.databases() == ["shop", "zoo"]
    assert with_view.view("shop.v") == view
    assert list(with_view.views("zoo")) == []
    assert with_view.without_view("shop.v").view("shop.v") is None
    assert with_view.with_collection(collection("other", ident=60)).view("shop.v") == view
