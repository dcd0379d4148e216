"""`collMod`: change the options of a collection, an index or a view."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bson import Binary, Int64

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.ddl.coll_mod_index import IndexChange, change_index
from tailrace.mongod.store.ddl.collection_options import (
    check_capped_max,
    check_capped_size,
    check_expire_after_seconds,
    check_images,
    check_kind_of_images,
    check_recorded_images,
    check_validation_action,
    check_validation_level,
    check_validator,
    in_catalog_order,
    invalid,
    stored_size,
)
from tailrace.mongod.store.ddl.lookup import check_writable
from tailrace.mongod.store.ddl.timeseries import update_definition
from tailrace.mongod.store.ddl.timeseries_options import MAX_SPAN_BY_GRANULARITY, bucketing
from tailrace.mongod.store.ddl.views import modify_view
from tailrace.mongod.store.write_unit import WriteUnit

OFF: Final = "off"
_CHECKS: Final[Mapping[str, Callable[[str, str, Any], Any]]] = {
    "validator": check_validator,
    "validationLevel": check_validation_level,
    "validationAction": check_validation_action,
    "recordPreImages": check_recorded_images,
    "changeStreamPreAndPostImages": check_images,
}
_OF_VALIDATION: Final = frozenset({"validator", "validationLevel", "validationAction"})
_VALIDATION_DEFAULTS: Final[Mapping[str, Any]] = {"validationLevel": "strict", "validationAction": "error"}
"""Stored by any change of a validator, its level or its action"""


@dataclass(frozen=True, slots=True)
class CollectionChanges:
    """The options of collMod; None means no change."""

    index: IndexChange | None = None
    view_on: str | None = None
    pipeline: list[Any] | None = None
    expire_after_seconds: int | str | None = None
    """A number, or `off`"""
    capped_size: int | None = None
    capped_max: int | None = None
    timeseries: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """validator, validationLevel, validationAction, recordPreImages, changeStreamPreAndPostImages"""
    dry_run: bool = False
    """Whether an index is only checked for whether it can become unique"""

    def given(self) -> list[str]:
        """The names of the given options that only collections have."""
        named = {
            "index": self.index,
            "expireAfterSeconds": self.expire_after_seconds,
            "cappedSize": self.capped_size,
            "cappedMax": self.capped_max,
            "timeseries": self.timeseries,
        }
        return [*(name for name, value in named.items() if value is not None), *self.options]


def coll_mod(unit: WriteUnit, database: str, name: str, changes: CollectionChanges) -> dict[str, Any]:
    """Change a collection or a view; returns the fields of the reply."""
    ns = f"{database}.{name}"
    view = unit.catalog.view(ns)
    if view is not None:
        if changes.index is not None and changes.index.unique:
            raise CommandError(
                ErrorCode.CommandNotSupportedOnView, f"Namespace {ns} is a view, not a collection"
            )
        for option in changes.given():
            raise invalid(f"option not supported on a view: {option}")
        modify_view(unit, view, changes.view_on, changes.pipeline)
        return {}
    collection = unit.catalog.collection(ns)
    if collection is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"ns does not exist: {ns}")
    if changes.view_on == "":
        raise CommandError(ErrorCode.BadValue, "'viewOn' cannot be empty")
    if changes.view_on is not None or changes.pipeline is not None:
        raise invalid("'viewOn' and 'pipeline' are only supported on a view")
    if changes.dry_run and (changes.index is None or not changes.index.unique):
        raise invalid("dry run mode requires an valid index modification.")
    check_writable(collection)
    if collection.is_timeseries and changes.options:
        raise invalid(f"option not supported on a time-series collection: {next(iter(changes.options))}")
    if changes.index is not None and changes.index.expire_after_seconds is not None:
        if collection.is_timeseries:
            raise invalid("TTL indexes are not supported for time-series collections.")
        if collection.is_capped and not unit.rules.ttl_on_capped:
            raise invalid("TTL indexes are not supported for capped collections.")
    unit.check_unused(collection)
    return _modify(unit, collection, changes)


def _modify(unit: WriteUnit, collection: Collection, changes: CollectionChanges) -> dict[str, Any]:
    before = {"uuid": Binary(collection.uuid, 4), **collection.options}
    logged, options = _changed_options(collection, changes, unit.rules)
    o: dict[str, Any] = {"collMod": collection.name}
    o2: dict[str, Any] = {"collectionOptions_old": before}
    reply: dict[str, Any] = {}
    changed = collection.with_changes(options=options)
    if changes.index is not None:
        outcome = change_index(unit, changed, changes.index)
        if changes.dry_run:
            return {}
        changed = outcome.collection
        if outcome.logged:
            o["index"] = outcome.logged
            o2["indexOptions_old"] = outcome.before
        reply = outcome.reply
    if changes.timeseries is not None:
        update_definition(unit, changed)
        unit.end_group()
    unit.put_collection(changed)
    if collection.is_logged:
        unit.log(
            command(
                collection.database,
                {**o, **logged},
                uuid=collection.uuid,
                o2=documents.encode(o2),
            )
        )
    return reply


def _changed_options(
    collection: Collection, changes: CollectionChanges, rules: CatalogRules
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options as logged, and the collection's options after the change."""
    logged: dict[str, Any] = {}
    options = dict(collection.options)
    check_kind_of_images(changes.options)
    for option, value in changes.options.items():
        checked = _CHECKS[option](collection.database, collection.name, value)
        logged[option] = value
        _put(options, option, checked)
    if changes.options.get("changeStreamPreAndPostImages", {}).get("enabled"):
        options.pop("recordPreImages", None)
    if changes.options.get("recordPreImages"):
        options.pop("changeStreamPreAndPostImages", None)
    if changes.options.keys() & _OF_VALIDATION:
        options = {**_VALIDATION_DEFAULTS, **options}
    is_capped_change = changes.capped_size is not None or changes.capped_max is not None
    if is_capped_change and not collection.is_timeseries:  # which ignores it, as on the server
        _change_capped(collection, changes, logged, options, rules)
    if changes.expire_after_seconds is not None:
        _change_expiry(collection, changes.expire_after_seconds, logged, options)
    if changes.timeseries is not None:
        logged["timeseries"] = dict(changes.timeseries)
        options["timeseries"] = _changed_bucketing(collection, changes.timeseries)
    return logged, in_catalog_order(options)


def _change_capped(
    collection: Collection,
    changes: CollectionChanges,
    logged: dict[str, Any],
    options: dict[str, Any],
    rules: CatalogRules,
) -> None:
    if not collection.is_capped:
        raise invalid("Collection must be capped.")
    where = (collection.database, collection.name)
    if changes.capped_size is not None:
        logged["cappedSize"] = Int64(changes.capped_size)
        options["size"] = stored_size(check_capped_size(*where, changes.capped_size), rules)
    if changes.capped_max is not None:
        logged["cappedMax"] = Int64(changes.capped_max)
        options["max"] = check_capped_max(*where, changes.capped_max)


def _change_expiry(
    collection: Collection, seconds: int | str, logged: dict[str, Any], options: dict[str, Any]
) -> None:
    if not collection.is_clustered:
        raise invalid("'expireAfterSeconds' option is only supported on collections clustered by _id")
    if isinstance(seconds, str):
        if seconds != OFF:
            raise invalid(f"the string value of 'expireAfterSeconds' must be 'off', not '{seconds}'")
        logged["expireAfterSeconds"] = OFF
        options.pop("expireAfterSeconds", None)
        return
    checked = check_expire_after_seconds(collection.database, collection.name, seconds)
    logged["expireAfterSeconds"] = options["expireAfterSeconds"] = checked


def _changed_bucketing(collection: Collection, given: Mapping[str, Any]) -> dict[str, Any]:
    if not collection.is_timeseries:
        raise invalid("option only supported on a time-series collection: timeseries")
    old = collection.options["timeseries"]
    if not given:
        return dict(old)
    new = bucketing(given)
    if new["bucketMaxSpanSeconds"] < old["bucketMaxSpanSeconds"]:
        raise invalid(
            "Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes' "
            f"or 'minutes' to 'hours': {sorted(MAX_SPAN_BY_GRANULARITY)}"
        )
    kept = {name: old[name] for name in ("timeField", "metaField") if name in old}
    return {**kept, **new}


def _put(options: dict[str, Any], option: str, value: Any) -> None:
    if value is None:
        options.pop(option, None)
    else:
        options[option] = value
