"""Removing what is too old: documents that say when they expire, and pre-images nobody can ask for any more.

Each function is part of a job of the writer and removes a limited number, so that other writes are not held
up; it tells how many, and is called again as long as there are more. Documents are deleted as a client would
do it, with entries in the oplog; pre-images are no one's documents and leave no trace.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from bson import DatetimeMS

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode
from tailrace.bson.keystring import layout
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.indexes.index_keys import INVERTED, is_descending
from tailrace.mongod.store.reader import Record
from tailrace.mongod.store.table_writer import PRE_IMAGES_IDENT
from tailrace.mongod.store.tables import TIME, after_prefix
from tailrace.mongod.store.write_unit import WriteUnit

AT_ONCE: Final = 500
"""What one job removes at most: as many deletes as fit into one entry of the oplog"""
_UUID: Final = 16
_MILLISECONDS: Final = 1000
_BEFORE_DATES: Final = bytes([layout.DATE - 1])
_DATES: Final = bytes([layout.DATE])


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """A collection some of whose documents may expire: by an index, or by the time in their `_id`."""

    ns: str
    uuid: bytes
    index: str | None
    seconds: int

    def threshold(self, now: int) -> int:
        """The time, in milliseconds, of the youngest documents that have expired now."""
        return now - self.seconds * _MILLISECONDS


def expiry_rules(catalog: Catalog) -> list[ExpiryRule]:
    """Everything that expires, as the catalog has it."""
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
                found.append(ExpiryRule(collection.ns, collection.uuid, index.name, int(seconds)))
    return found


def delete_expired(
    unit: WriteUnit,
    rule: ExpiryRule,
    now: int,
    limit: int = AT_ONCE,
    owns: Callable[[bytes], bool] = lambda _document: True,
) -> int:
    """Delete some documents that have expired; how many. The rule is looked up anew: it may be gone.

    ``owns`` says whether a document is the server's own.
    """
    collection = unit.catalog.by_uuid(rule.uuid)
    if collection is None:
        return 0
    if rule.index is None:
        records = _expired_by_id(unit, collection, rule, now)
    else:
        index = collection.index(rule.index)
        if index is None or index.spec.get("expireAfterSeconds") != rule.seconds:
            return 0
        records = _expired_by_index(unit, collection, index, rule.threshold(now))
    # Collected first: a scan does not go on over what is being deleted under it.
    doomed = dict(islice((record for record in records if owns(record[1])), limit))
    for key, document in doomed.items():
        unit.delete(collection, key, document, grouped=True)
    return len(doomed)


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
    if collection.is_timeseries:
        yield from _expired_buckets(unit, collection, threshold)
        return
    last = _date_key(threshold)
    for key, document in unit.records(collection, _BEFORE_DATES):
        if key[: len(last)] > last:
            return
        yield key, document


def _expired_buckets(unit: WriteUnit, collection: Collection, threshold: int) -> Iterator[Record]:
    """Buckets all of whose measurements have expired; they stand in the order of their earliest times."""
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
    """What one job removed."""

    number: int
    size: int


def remove_expired_images(
    unit: WriteUnit, *, before_entry: int, before_date: int | None, limit: int = AT_ONCE
) -> RemovedImages:
    """Remove pre-images of entries older than ``before_entry``, and those written before a date.

    The date is in milliseconds; None is no limit of age. The images of one collection stand in the order of
    their entries: behind the first that stays, the rest stays too.
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
                found = bool(cursor.key())  # behind the last one the cursor is nowhere
            else:
                found = cursor.set_range(after_prefix(key[:_UUID]))
    if number:
        unit.add_to_count(PRE_IMAGES_IDENT, -number, -size)
    return RemovedImages(number, size)


def _written(image: bytes) -> int:
    found = rawbson.field(image, b"operationTime")
    return 0 if found is None else int(rawbson.INT64_LE.unpack(found[1])[0])
