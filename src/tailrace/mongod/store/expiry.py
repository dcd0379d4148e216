"""Remove expired documents and pre-images.

Each function is part of a job of the writer. It removes a limited number, so that other writes are not
delayed, and returns how many; the caller repeats it while there are more. Deletes of documents are logged
like those of a client; the removal of pre-images is not logged.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from bson import DatetimeMS

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode
from tailrace.bson.keystring import layout
from tailrace.bson.values import whole_number
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.indexes.index_keys import INVERTED, is_descending
from tailrace.mongod.store.reader import Record
from tailrace.mongod.store.table_writer import PRE_IMAGES_IDENT
from tailrace.mongod.store.tables import TIME, after_prefix
from tailrace.mongod.store.write_unit import WriteUnit

AT_ONCE: Final = 500
"""The most that one job removes: as many deletes as fit into one oplog entry"""
_UUID: Final = 16
_MILLISECONDS: Final = 1000
_BEFORE_DATES: Final = bytes([layout.DATE - 1])
_DATES: Final = bytes([layout.DATE])


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """When documents of a collection expire: by an index, or by the time in their `_id` (no index)."""

    ns: str
    uuid: bytes
    index: str | None
    seconds: int

    def threshold(self, now: int) -> int:
        """The time, in milliseconds, of the youngest documents that have expired at the time ``now``."""
        return now - self.seconds * _MILLISECONDS


def expiry_rules(catalog: Catalog) -> list[ExpiryRule]:
    """The rules of all collections in the catalog."""
    found = []
    for collection in catalog.collections():
        if collection.is_internal:
            continue
        seconds = collection.options.get("expireAfterSeconds")
        if seconds is not None:
            found.append(ExpiryRule(collection.ns, collection.uuid, None, int(seconds)))
        for index in collection.indexes:
            seconds = index.spec.get("expireAfterSeconds")
            if seconds is not None:
                whole = whole_number(seconds) or 0
                found.append(ExpiryRule(collection.ns, collection.uuid, index.name, whole))
    return found


def delete_expired(
    unit: WriteUnit,
    rule: ExpiryRule,
    now: int,
    limit: int = AT_ONCE,
    owns: Callable[[bytes], bool] = lambda _document: True,
) -> int:
    """Delete some expired documents and return how many; none if the rule no longer exists.

    Documents for which ``owns`` is false belong to another shard and stay.
    """
    collection = unit.catalog.by_uuid(rule.uuid)
    if collection is None:
        return 0
    if rule.index is None:
        records = _expired_by_id(unit, collection, rule, now)
    else:
        index = collection.index(rule.index)
        seconds = None if index is None else index.spec.get("expireAfterSeconds")
        if index is None or seconds is None or (whole_number(seconds) or 0) != rule.seconds:
            return 0
        records = _expired_by_index(unit, collection, index, rule.threshold(now))
    # Collected first: a scan must not run while its records are deleted.
    expired = dict(islice((record for record in records if owns(record[1])), limit))
    for key, document in expired.items():
        unit.delete(collection, key, document, grouped=True)
    return len(expired)


def _expired_by_index(
    unit: WriteUnit, collection: Collection, index: Index, threshold: int
) -> Iterator[Record]:
    """Documents with a date up to the threshold; of several dates in an array the earliest counts."""
    lower, upper = _DATES, _date_key(threshold)
    if is_descending(index.key[0][1]):
        lower, upper = upper.translate(INVERTED), lower.translate(INVERTED)
    seen: set[bytes] = set()
    for key, document in unit.index_records(collection, index, lower, upper):
        if key not in seen:
            seen.add(key)
            yield key, document


def _expired_by_id(unit: WriteUnit, collection: Collection, rule: ExpiryRule, now: int) -> Iterator[Record]:
    if collection.options.get("expireAfterSeconds") != rule.seconds:
        return
    threshold = rule.threshold(now)
    if "timeseries" in collection.options:
        yield from _expired_buckets(unit, collection, threshold)
        return
    last = _date_key(threshold)
    for key, document in unit.records(collection, _BEFORE_DATES):
        if key[: len(last)] > last:
            return
        yield key, document


def _expired_buckets(unit: WriteUnit, collection: Collection, threshold: int) -> Iterator[Record]:
    """Buckets whose measurements have all expired; buckets are sorted by their earliest times."""
    time_field = collection.options["timeseries"]["timeField"]
    for key, bucket in unit.records(collection):
        latest: Any = decode(bucket).get("control", {}).get("max", {}).get(time_field)
        if not isinstance(latest, DatetimeMS):
            continue
        if int(latest) <= threshold:
            yield key, bucket
        elif _bucket_start(bucket) > threshold:
            return


def _bucket_start(bucket: bytes) -> int:
    found = rawbson.field(bucket, b"_id")
    if found is None or found[0] != rawbson.OBJECT_ID:
        return 0
    return int.from_bytes(found[1][:4], "big") * _MILLISECONDS


def _date_key(milliseconds: int) -> bytes:
    bounded = min(max(milliseconds, -(2**63)), 2**63 - 1)
    return _DATES + (bounded + layout.DATE_OFFSET).to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class RemovedImages:
    """The number and the bytes of images that one job removed."""

    number: int
    size: int


def remove_expired_images(
    unit: WriteUnit, *, before_entry: int, before_date: int | None, limit: int = AT_ONCE
) -> RemovedImages:
    """Remove pre-images of entries before ``before_entry``, and those written before ``before_date``.

    The date is in milliseconds; None means no limit of age. The images of one collection are in the order of
    their entries: after the first that stays, the rest stays too.
    """
    number = size = 0
    with unit.state.transaction.cursor(db=unit.state.tables.preimages) as cursor:
        found = cursor.first()
        while found and number < limit:
            key, image = cursor.key(), cursor.value()
            ts = TIME.unpack_from(key, _UUID)[0]
            if ts < before_entry or (before_date is not None and _written(image) < before_date):
                number += 1
                size += len(image)
                cursor.delete()
                found = bool(cursor.key())  # empty after the last record
            else:
                found = cursor.set_range(after_prefix(key[:_UUID]))
    if number:
        unit.add_to_count(PRE_IMAGES_IDENT, -number, -size)
    return RemovedImages(number, size)


def _written(image: bytes) -> int:
    found = rawbson.field(image, b"operationTime")
    return 0 if found is None else int(rawbson.INT64_LE.unpack(found[1])[0])
