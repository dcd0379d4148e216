"""Removal of expired documents and images, as jobs of the writer."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import DatetimeMS, ObjectId

from tailrace.bson import documents
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.expiry import ExpiryRule, delete_expired, expiry_rules, remove_expired_images
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.validation import Validation
from tailrace.mongod.store.write_unit import WriteUnit

IMAGES = {"changeStreamPreAndPostImages": {"enabled": True}}
TTL = {"v": 2, "key": {"t": 1}, "name": "t_1", "expireAfterSeconds": 10}


@pytest.fixture
def wall() -> WallClock:
    return WallClock()


@pytest.fixture
def store(tmp_path: Path, wall: WallClock) -> Iterator[Store]:
    store = Store.open(tmp_path, wall=wall, map_size=1 << 30)
    yield store
    store.close()


def made(store: Store, name: str, *specs: dict[str, Any], **options: Any) -> Collection:
    def work(unit: WriteUnit) -> Collection:
        collection = unit.create_collection("shop", name, options)
        for spec in specs:
            collection = unit.add_index(collection, spec)
        return collection

    return store.write_now(work)


def insert(store: Store, collection: Collection, *items: dict[str, Any]) -> None:
    store.write_now(lambda unit: [unit.insert(collection, documents.encode(item)) for item in items])


def ids(store: Store, collection: Collection) -> list[Any]:
    with store.snapshot() as snapshot:
        validation = Validation(snapshot, collection)
        for _ in validation.steps():
            pass
        assert validation.errors == []
        return [documents.decode(raw)["_id"] for _, raw in snapshot.records(collection)]


def change(store: Store, collection: Collection) -> None:
    """Add a field to every document: each change stores a pre-image."""

    def work(unit: WriteUnit) -> None:
        for key, before in list(unit.records(collection)):
            after = documents.encode({**documents.decode(before), "changed": True})
            unit.update(collection, key, before, after, after)

    store.write_now(work)


def images(store: Store) -> int:
    with store.snapshot() as snapshot:
        number = snapshot._transaction.stat(store.tables.preimages)["entries"]
        collection = snapshot.catalog.collection("config.system.preimages")
        assert collection is not None
        assert snapshot.count(collection)[0] == number
        return number


def test_rules_are_read_from_the_catalog(store: Store) -> None:
    made(store, "plain")
    made(store, "indexed", TTL)
    made(store, "clustered", clusteredIndex={"key": {"_id": 1}}, expireAfterSeconds=5)
    rules = expiry_rules(store.catalog)
    assert [(rule.ns, rule.index, rule.seconds) for rule in rules] == [
        ("shop.clustered", None, 5),
        ("shop.indexed", "t_1", 10),
    ]


def test_documents_exactly_at_the_threshold_have_expired(store: Store) -> None:
    collection = made(store, "c", TTL)
    insert(store, collection, *({"_id": n, "t": DatetimeMS(n)} for n in (999, 1000, 1001)))
    (rule,) = expiry_rules(store.catalog)
    assert store.write_now(lambda unit: delete_expired(unit, rule, 11_000)) == 2
    assert ids(store, collection) == [1001]


def test_a_job_deletes_a_limited_number(store: Store) -> None:
    collection = made(store, "c", TTL)
    insert(store, collection, *({"_id": n, "t": [DatetimeMS(n), DatetimeMS(-n)]} for n in range(1, 31)))
    (rule,) = expiry_rules(store.catalog)
    counts = [store.write_now(lambda unit: delete_expired(unit, rule, 11_000, 12)) for _ in range(4)]
    assert counts == [12, 12, 6, 0]
    assert ids(store, collection) == []


def test_rules_that_no_longer_exist_delete_nothing(store: Store) -> None:
    collection = made(store, "c", TTL)
    insert(store, collection, {"_id": 1, "t": DatetimeMS(0)})
    gone = ExpiryRule("shop.c", bytes(16), "t_1", 10)
    other_index = ExpiryRule("shop.c", collection.uuid, "nosuch", 10)
    other_time = ExpiryRule("shop.c", collection.uuid, "t_1", 99)
    no_option = ExpiryRule("shop.c", collection.uuid, None, 10)
    for rule in (gone, other_index, other_time, no_option):
        assert store.write_now(partial(delete_expired, rule=rule, now=10**15)) == 0
    assert ids(store, collection) == [1]


def test_deletes_of_expired_documents_store_pre_images(store: Store) -> None:
    collection = made(store, "c", TTL, **IMAGES)
    insert(store, collection, {"_id": 1, "t": DatetimeMS(0)}, {"_id": 2, "t": DatetimeMS(1)})
    (rule,) = expiry_rules(store.catalog)
    store.write_now(lambda unit: delete_expired(unit, rule, 11_000))
    assert images(store) == 2


def test_images_expire_by_age_and_by_entry(store: Store, wall: WallClock) -> None:
    first, second = made(store, "a", **IMAGES), made(store, "b", **IMAGES)
    insert(store, first, {"_id": 1}, {"_id": 2})
    insert(store, second, {"_id": 1})
    change(store, first)
    wall.advance(100)
    middle = wall.milliseconds()
    change(store, second)
    change(store, first)
    assert images(store) == 5
    job = store.write_now(lambda unit: remove_expired_images(unit, before_entry=0, before_date=None))
    assert job.number == 0
    job = store.write_now(lambda unit: remove_expired_images(unit, before_entry=0, before_date=middle))
    assert (job.number, images(store)) == (2, 3)
    newest = store.last_committed
    job = store.write_now(lambda unit: remove_expired_images(unit, before_entry=newest, before_date=None))
    assert (job.number, images(store)) == (2, 1)
    assert job.size > 100


def test_images_of_many_collections_are_removed_in_steps(store: Store) -> None:
    collections = [made(store, f"c{n}", **IMAGES) for n in range(5)]
    for collection in collections:
        insert(store, collection, *({"_id": n} for n in range(7)))
        change(store, collection)

    def work(unit: WriteUnit) -> int:
        return remove_expired_images(unit, before_entry=2**63, before_date=None, limit=10).number

    assert [store.write_now(work) for _ in range(5)] == [10, 10, 10, 5, 0]
    assert images(store) == 0


# -- which documents have expired ----------------------------------------------------------------------------


def expired(store: Store, collection: Collection, seconds: int = 10, index: str | None = "t_1") -> list[Any]:
    """The ids that are left after a job at the time 100 s."""
    rule = ExpiryRule(collection.ns, collection.uuid, index, seconds)
    before = len(ids(store, collection))
    number = store.write_now(partial(delete_expired, rule=rule, now=100_000))
    left = ids(store, collection)
    assert number == before - len(left)
    return left


DATES: list[Any] = [
    DatetimeMS(89_999), DatetimeMS(90_000), DatetimeMS(90_001), DatetimeMS(-5), "a", 5, None,
    [DatetimeMS(95_000), DatetimeMS(1)], [DatetimeMS(1), DatetimeMS(2)], [DatetimeMS(95_000)],
    {"x": DatetimeMS(1)},
    DatetimeMS(-(2**63)), DatetimeMS(2**63 - 1),
]  # fmt: skip
LEFT = [2, 4, 5, 6, 9, 10, 12]


@pytest.mark.parametrize("direction", [1, -1])
def test_dates_up_to_the_threshold_have_expired(store: Store, direction: int) -> None:
    collection = made(store, "c", {**TTL, "key": {"t": direction}})
    insert(store, collection, *({"_id": n, "t": date} for n, date in enumerate(DATES)))
    assert expired(store, collection) == LEFT


def test_ids_up_to_the_threshold_have_expired(store: Store) -> None:
    clustered = {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}
    collection = made(store, "c", clusteredIndex=clustered, expireAfterSeconds=10)
    dates = [date for date in DATES if not isinstance(date, list)]
    insert(store, collection, *({"_id": date} for date in dates))
    left = [None, 5, "a", {"x": DatetimeMS(1)}, DatetimeMS(90_001), DatetimeMS(2**63 - 1)]
    assert len(expired(store, collection, seconds=11, index=None)) == len(dates)  # not its rule any more
    assert expired(store, collection, index=None) == left


def test_documents_of_another_shard_stay(store: Store) -> None:
    collection = made(store, "c", TTL)
    insert(store, collection, *({"_id": n, "t": DatetimeMS(n)} for n in range(6)))
    rule = ExpiryRule(collection.ns, collection.uuid, "t_1", 10)

    def owns(raw: bytes) -> bool:
        return bool(documents.decode(raw)["_id"] % 2)

    assert store.write_now(partial(delete_expired, rule=rule, now=100_000, limit=2, owns=owns)) == 2
    assert ids(store, collection) == [0, 2, 4, 5]
    assert store.write_now(partial(delete_expired, rule=rule, now=100_000, owns=owns)) == 1
    assert ids(store, collection) == [0, 2, 4]


def test_buckets_expire_with_their_last_measurement(store: Store) -> None:
    options = {"timeseries": {"timeField": "t"}, "clusteredIndex": True, "expireAfterSeconds": 10}
    collection = made(store, "system.buckets.c", **options)

    def bucket(start: int, latest: Any) -> dict[str, Any]:
        identity = ObjectId((start // 1000).to_bytes(4, "big") + bytes(8))
        return {"_id": identity, "control": {"max": {"t": latest}}}

    buckets = [
        bucket(1_000, DatetimeMS(90_000)),
        bucket(2_000, DatetimeMS(90_001)),
        bucket(3_000, "damaged"),
        {"_id": ObjectId((4).to_bytes(4, "big") + bytes(8))},
        bucket(90_000, DatetimeMS(95_000)),
        bucket(91_000, DatetimeMS(95_000)),
        # After the first bucket that began later than the threshold no other is checked.
        bucket(92_000, DatetimeMS(1)),
    ]
    insert(store, collection, *buckets)
    assert expired(store, collection, index=None) == [found["_id"] for found in buckets[1:]]
