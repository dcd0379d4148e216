"""Which entries a stream shows: by scope, by name, and by options."""

from typing import Any

import pytest
from bson import Int64

from tests.events.stages.streams import UUID, command, entry, insert, stream, types

SYSTEM = {"showSystemEvents": True}
EXPANDED = {"showExpandedEvents": True}
BOTH = {**SYSTEM, **EXPANDED}
MIGRATIONS = {"showMigrationEvents": True}
SCOPES = ["shop.orders", "shop", None]


def is_shown(
    oplog: bytes, spec: dict[str, Any] | None = None, ns: str | None = "shop", **options: Any
) -> bool:
    return bool(stream([oplog], spec, ns=ns, **options))


@pytest.mark.parametrize(
    ("name", "always", "with_system_events"),
    [
        ("orders", True, True),
        ("Orders", True, True),
        ("system", True, True),
        ("systems.js", True, True),
        ("a.system.users", True, True),
        ("system.js", False, True),
        ("system.jsx", False, False),
        ("system.js.x", False, False),
        ("system.buckets.m", False, True),
        ("system.buckets", False, False),
        ("system.resharding.0f", False, True),
        ("system.users", False, False),
        ("system.profile", False, False),
        ("system.", False, False),
        ("$cmd", False, False),
        ("$x", False, False),
    ],
)
@pytest.mark.parametrize("ns", ["shop", None])
def test_collection_names(name: str, always: bool, with_system_events: bool, ns: str | None) -> None:
    for oplog in (
        insert(1, 1, ns=f"shop.{name}"),
        command(1, {"create": name}),
        command(1, {"drop": name}),
        command(1, {"createIndexes": name, "v": 2, "key": {"a": 1}, "name": "a_1"}),
        command(1, {"collMod": name}, o2={"collectionOptions_old": {}}),
        command(1, {"renameCollection": f"shop.{name}", "to": "shop.system.users"}),
        command(1, {"renameCollection": "shop.system.users", "to": f"shop.{name}"}),
    ):
        assert is_shown(oplog, EXPANDED, ns) is always
        assert is_shown(oplog, BOTH, ns) is with_system_events


@pytest.mark.parametrize(
    ("database", "visible"),
    [
        ("admin", False),
        ("config", False),
        ("local", False),
        ("adminx", True),
        ("config2", True),
        ("Local", True),
    ],
)
def test_databases_of_a_cluster_stream(database: str, visible: bool) -> None:
    for oplog in (
        insert(1, 1, ns=f"{database}.c"),
        command(1, {"drop": "c"}, ns=f"{database}.$cmd"),
        command(1, {"dropDatabase": 1}, ns=f"{database}.$cmd", ui=None),
        insert(1, f"{database}.v", ns=f"{database}.system.views", viewOn="c", pipeline=[]),
        entry(1, "n", {}, o2={"shardCollection": f"{database}.c"}, ns=f"{database}.c"),
    ):
        assert is_shown(oplog, EXPANDED, ns=None) is visible


@pytest.mark.parametrize("ns", ["shop.orders", "shop"])
@pytest.mark.parametrize("other", ["shop2.orders", "Shop.orders", "sho.p.orders", "orders.shop"])
def test_other_databases_are_not_shown(ns: str, other: str) -> None:
    database, _, collection = other.partition(".")
    assert not is_shown(insert(1, 1, ns=other), ns=ns)
    assert not is_shown(command(1, {"drop": collection}, ns=f"{database}.$cmd"), ns=ns)


@pytest.mark.parametrize("ns", SCOPES)
def test_retryable_writes_are_shown_like_others(ns: str | None) -> None:
    retryable: dict[str, Any] = {"lsid": {"id": UUID}, "txnNumber": Int64(1), "stmtId": 0}
    for name in ("shop.orders", "shop.items", "other.orders", "admin.orders", "shop.system.js"):
        assert is_shown(entry(1, "i", {"_id": 1}, ns=name, **retryable), ns=ns) is is_shown(
            insert(1, 1, ns=name), ns=ns
        )
    view = {"_id": "shop.v", "viewOn": "orders", "pipeline": []}
    assert is_shown(entry(1, "i", view, ns="shop.system.views", **retryable), EXPANDED, ns) is (
        ns != "shop.orders"
    )
    assert not is_shown(entry(1, "i", view, ns="shop.system.views", **retryable), ns=ns)


@pytest.mark.parametrize(
    ("o", "by_collection", "by_database"),
    [
        ({"renameCollection": "shop.orders", "to": "shop.x"}, True, True),
        ({"renameCollection": "shop.x", "to": "shop.orders"}, True, True),
        ({"renameCollection": "shop.x", "to": "shop.y"}, False, True),
        ({"renameCollection": "shop.orders2", "to": "shop.myorders"}, False, True),
        ({"renameCollection": "other.x", "to": "other.y"}, False, False),
    ],
)
def test_renames(o: dict[str, Any], by_collection: bool, by_database: bool) -> None:
    for ns, visible in zip(SCOPES, (by_collection, by_database, True), strict=True):
        assert is_shown(command(1, o), ns=ns) is visible
        assert is_shown(command(1, o, ns="other.$cmd"), ns=ns) is (ns is None)


@pytest.mark.parametrize("ns", ["shop", None])
@pytest.mark.parametrize("name", ["drop", "create", "collMod", "renameCollection"])
def test_a_command_without_a_collection_is_not_shown(name: str, ns: str | None) -> None:
    assert not is_shown(command(1, {name: 5, "to": 5}), EXPANDED, ns)
    assert not is_shown(command(1, {"renameCollection": "shop.system.x", "to": 5}), EXPANDED, ns)


MOVED = {"fromMigrate": True}
CREATE = command(1, {"create": "orders"}, **MOVED)
CREATE_INDEX = command(1, {"createIndexes": "orders", "key": {"a": 1}}, **MOVED)


@pytest.mark.parametrize(
    ("oplog", "with_system_events"),
    [
        (CREATE, True),
        (CREATE_INDEX, True),
        (command(1, {"create": "system.users"}, **MOVED), False),
        (command(1, {"drop": "orders"}, **MOVED), False),
        (command(1, {"dropIndexes": "orders"}, o2={"name": "a_1"}, **MOVED), False),
        (entry(1, "i", {"_id": 1}, **MOVED), False),
        (entry(1, "n", {}, o2={"reshardBegin": "shop.orders", "reshardingUUID": UUID}, **MOVED), False),
    ],
)
def test_entries_of_migrations(oplog: bytes, with_system_events: bool) -> None:
    is_watched = b"system.users" not in oplog
    for ns in SCOPES:
        assert not is_shown(oplog, EXPANDED, ns)
        assert is_shown(oplog, BOTH, ns) is with_system_events
        assert is_shown(oplog, {**EXPANDED, **MIGRATIONS}, ns) is is_watched
    assert not is_shown(CREATE, BOTH, "shop.items")


def test_the_field_from_migrate_needs_its_option_and_parameter() -> None:
    shown = [
        "fromMigrate" in event
        for spec, parameters in (
            (BOTH, {}),
            ({**EXPANDED, **MIGRATIONS}, {}),
            ({**EXPANDED, **MIGRATIONS}, {"changeStreamsEmitFromMigrate": False}),
        )
        for event in stream([CREATE], spec, parameters=parameters)
    ]
    assert shown == [False, True, False]
    retryable = entry(2, "i", {"_id": 2}, lsid={"id": UUID}, txnNumber=Int64(1))
    assert all("fromMigrate" not in event for event in stream([insert(1, 1), retryable], MIGRATIONS))


@pytest.mark.parametrize(
    "oplog",
    [
        entry(1, "i", {"_id": 1}, isTimeseries=True),
        command(1, {"drop": "orders"}, isTimeseries=True),
        command(
            1, {"applyOps": [{"op": "d", "ns": "shop.orders", "ui": UUID, "o": {}, "isTimeseries": True}]}
        ),
    ],
)
@pytest.mark.parametrize("ns", SCOPES)
def test_time_series_entries_need_raw_data(oplog: bytes, ns: str | None) -> None:
    assert not is_shown(oplog, BOTH, ns)
    assert is_shown(oplog, {}, ns, raw_data=True)


def test_streams_on_internal_collections_show_plain_inserts() -> None:
    for ns, spec in (
        ("shop.system.views", {"allowToRunOnSystemNS": True, **EXPANDED}),
        ("shop.system.buckets.m", {"allowToRunOnSystemNS": True}),
        ("config.shards", {"allowToRunOnConfigDB": True}),
    ):
        (event,) = stream([insert(1, "a", ns=ns), insert(2, "b", ns=ns + "x")], spec, ns=ns)
        assert (event["operationType"], event["documentKey"]) == ("insert", {"_id": "a"})
    assert types(stream([insert(1, 1, ns="config.x")], {"allowToRunOnConfigDB": True}, ns="config")) == [
        "insert"
    ]


def test_a_view_in_a_transaction_is_shown_only_with_system_events() -> None:
    view = {"_id": "shop.v", "viewOn": "orders", "pipeline": []}
    oplog = command(
        1, {"applyOps": [{"op": "i", "ns": "shop.system.views", "ui": UUID, "o": view, "o2": {}}]}
    )
    assert not is_shown(oplog, EXPANDED)
    assert types(stream([oplog], BOTH, ns="shop")) == ["create"]


@pytest.mark.parametrize("is_upgrade", [True, False])
@pytest.mark.parametrize("watched", ["m", "system.buckets.m"])
def test_an_upgraded_time_series_invalidates_streams_on_both_names(is_upgrade: bool, watched: str) -> None:
    oplog = command(1, {"upgradeDowngradeViewlessTimeseries": "m", "isUpgrade": is_upgrade})
    spec = {"allowToRunOnSystemNS": True}
    rename, invalidate = stream([oplog], spec, ns=f"shop.{watched}")
    assert invalidate["operationType"] == "invalidate"
    names = ["system.buckets.m", "m"]
    assert [rename["ns"]["coll"], rename["to"]["coll"]] == (names if is_upgrade else names[::-1])
    assert not is_shown(oplog, ns="shop.other")
    assert types(stream([oplog], ns=None)) == ["rename"]


def test_index_builds_in_progress_need_both_options() -> None:
    for name in ("startIndexBuild", "abortIndexBuild"):
        oplog = command(1, {name: "orders", "indexes": [{"name": "a_1"}]})
        visible = [is_shown(oplog, spec, ns) for spec in (BOTH, EXPANDED, SYSTEM) for ns in SCOPES]
        assert visible == [True] * 3 + [False] * 6


@pytest.mark.parametrize("name", ["importCollection", "truncateRange", "dbCheck", "setMultikeyMetadata"])
def test_other_commands_are_never_shown(name: str) -> None:
    for ns in SCOPES:
        for target in ("orders", "shop.orders"):
            assert not is_shown(command(1, {name: target}), {**BOTH, **MIGRATIONS}, ns)
