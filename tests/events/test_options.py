"""`$changeStream` options: every option, every code, and which fault is reported first."""

from typing import Any

import pytest
from bson import Int64, Timestamp

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.errors import CommandError
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.events.stream_release import StreamRelease

COLLECTION = Scope.parse_ns("shop.orders")
DATABASE = Scope.parse_ns("shop")
CLUSTER = Scope.cluster()
TIME = 1700000000 << 32 | 5
UUID = bytes(range(16))

FLAGS = {
    "showExpandedEvents": "show_expanded_events",
    "showSystemEvents": "show_system_events",
    "showMigrationEvents": "show_migration_events",
    "showRawUpdateDescription": "show_raw_update_description",
    "showCommitTimestamp": "show_commit_timestamp",
    "allowToRunOnConfigDB": "allow_to_run_on_config_db",
    "allowToRunOnSystemNS": "allow_to_run_on_system_ns",
    "ignoreRemovedShards": "ignore_removed_shards",
}


def identifier(operation_type: str) -> bytes:
    return encode({"operationType": operation_type})


def document(token: ResumeToken) -> dict[str, Any]:
    return decode(token.to_bson())


DROP = ResumeToken(TIME, uuid=UUID, identifier=identifier("drop"))
INVALIDATE = ResumeToken(TIME, uuid=UUID, identifier=identifier("drop"), from_invalidate=True)
DROP_DATABASE = ResumeToken(TIME, identifier=identifier("dropDatabase"))
END_OF_TRANSACTION = ResumeToken(TIME, identifier=identifier("endOfTransaction"))
MARK = ResumeToken.high_water_mark(TIME)


def code_of(spec: Any, scope: Scope = COLLECTION, **where: Any) -> int:
    with pytest.raises(CommandError) as caught:
        ChangeStreamOptions.parse(spec, scope, **where)
    return caught.value.code


def test_defaults() -> None:
    options = ChangeStreamOptions.parse({}, COLLECTION)
    assert options == ChangeStreamOptions()
    assert options.resume_token is None
    assert options.token_version == 2
    assert options.to_spec() == {}


def test_every_option_is_parsed_and_written_back() -> None:
    spec = {
        **dict.fromkeys(FLAGS, True),
        "fullDocument": "updateLookup",
        "fullDocumentBeforeChange": "required",
        "matchCollectionUUIDForUpdateLookup": True,
        "allChangesForCluster": False,
        "version": "v2",
        "supportedEvents": ["a", "b"],
        "startAtOperationTime": Timestamp(1700000000, 5),
    }
    for given in (spec, encode(spec)):
        options = ChangeStreamOptions.parse(given, COLLECTION)
        assert all(getattr(options, attribute) is True for attribute in FLAGS.values())
        assert options.full_document == "updateLookup"
        assert options.full_document_before_change == "required"
        assert options.match_collection_uuid_for_update_lookup is True
        assert options.all_changes_for_cluster is False
        assert options.version == "v2"
        assert options.supported_events == ("a", "b")
        assert options.start_at_operation_time == TIME
        assert list(options.to_spec().items()) == list(spec.items())


@pytest.mark.parametrize("option", FLAGS)
def test_flags_one_by_one(option: str) -> None:
    options = ChangeStreamOptions.parse({option: True}, COLLECTION)
    set_flags = {name for name in FLAGS.values() if getattr(options, name)}
    assert set_flags == {FLAGS[option]}


@pytest.mark.parametrize("value", ["default", "updateLookup", "whenAvailable", "required"])
def test_full_document_values(value: str) -> None:
    assert ChangeStreamOptions.parse({"fullDocument": value}, COLLECTION).full_document == value


@pytest.mark.parametrize(
    ("spec", "token"),
    [
        ({"startAtOperationTime": Timestamp(1700000000, 5)}, MARK),
        ({"resumeAfter": document(DROP)}, DROP),
        ({"startAfter": document(DROP)}, DROP),
        ({"startAfter": document(INVALIDATE)}, INVALIDATE),
        ({"resumeAfter": document(MARK)}, MARK),
        ({"startAfter": document(MARK)}, MARK),
        ({"resumeAfter": document(END_OF_TRANSACTION)}, END_OF_TRANSACTION),
        ({"resumeAfter": {**document(DROP), "extra": 1}}, DROP),
    ],
)
def test_start_points(spec: dict[str, Any], token: ResumeToken) -> None:
    assert ChangeStreamOptions.parse(spec, COLLECTION).resume_token == token


def test_token_version_is_never_below_two() -> None:
    old = ResumeToken(TIME, 1, uuid=UUID, identifier=encode({"_id": 1}))
    options = ChangeStreamOptions.parse({"resumeAfter": document(old)}, COLLECTION)
    assert options.resume_token == old
    assert options.token_version == 2


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (None, 6188500),
        ("text", 6188500),
        ([], 6188500),
        ({"unknown": 1}, 40415),
        ({"resumeafter": {}}, 40415),
        *(({option: value}, 14) for option in FLAGS for value in (1, Int64(1), "true", None)),
        ({"allChangesForCluster": 1}, 14),
        ({"matchCollectionUUIDForUpdateLookup": 1}, 14),
        ({"fullDocument": "other"}, 2),
        ({"fullDocument": ""}, 2),
        ({"fullDocument": "off"}, 2),
        ({"fullDocument": True}, 14),
        ({"fullDocumentBeforeChange": "default"}, 2),
        ({"fullDocumentBeforeChange": 1}, 14),
        ({"version": "v3"}, 2),
        ({"version": 2}, 14),
        ({"startAtOperationTime": 5}, 14),
        ({"resumeAfter": "82"}, 14),
        ({"startAfter": [document(MARK)]}, 14),
        ({"supportedEvents": "a"}, 14),
        ({"supportedEvents": ["a", 1]}, 14),
        ({"supportedEvents": ["a", "a"]}, 10498500),
        ({"supportedEvents": [""]}, 10498500),
        ({"resumeAfter": {}}, 40647),
        ({"resumeAfter": {"_data": b"\x82"}}, 40647),
        ({"resumeAfter": {"_data": "82", "_typeBits": 1}}, 40648),
        ({"startAfter": {"_data": "xx"}}, 9),
        ({"startAfter": {"_data": ""}}, 40649),
        ({"matchCollectionUUIDForUpdateLookup": True}, 12888201),
        ({"matchCollectionUUIDForUpdateLookup": True, "fullDocument": "required"}, 12888201),
        ({"resumeAfter": document(DROP), "startAfter": document(DROP)}, 50865),
        ({"resumeAfter": document(DROP), "startAtOperationTime": Timestamp(1, 1)}, 40674),
        ({"startAfter": document(MARK), "startAtOperationTime": Timestamp(1, 1)}, 40674),
        ({"resumeAfter": document(INVALIDATE)}, 260),
        ({"resumeAfter": document(DROP_DATABASE)}, 260),
        ({"startAfter": document(DROP_DATABASE)}, 260),
    ],
)
def test_options_that_are_refused_on_a_collection(spec: Any, code: int) -> None:
    assert code_of(spec) == code


def test_repeated_fields_in_raw_bson_are_refused() -> None:
    flag = rawbson.element(rawbson.BOOL, b"showExpandedEvents", b"\1")
    assert code_of(rawbson.document(flag, flag)) == 40413


@pytest.mark.parametrize(
    ("spec", "scope", "code"),
    [
        ({"allChangesForCluster": True}, DATABASE, 72),
        ({"allChangesForCluster": True}, COLLECTION, 72),
        ({"allChangesForCluster": True}, Scope.parse_ns("admin.x"), 72),
        ({}, Scope.parse_ns("admin"), 73),
        ({}, Scope.parse_ns("admin.x"), 73),
        ({"allChangesForCluster": False}, CLUSTER, 73),
        ({}, Scope.parse_ns("local"), 73),
        ({"allowToRunOnConfigDB": True}, Scope.parse_ns("local.oplog"), 73),
        ({}, Scope.parse_ns("config.shards"), 73),
        ({}, Scope.parse_ns("shop.system.views"), 73),
        ({}, Scope.parse_ns("shop.system."), 73),
    ],
)
def test_scopes_that_refuse_a_stream(spec: dict[str, Any], scope: Scope, code: int) -> None:
    assert code_of(spec, scope) == code


@pytest.mark.parametrize(
    ("spec", "scope"),
    [
        ({"allChangesForCluster": True}, CLUSTER),
        ({}, CLUSTER),
        ({"allowToRunOnConfigDB": True}, Scope.parse_ns("config.shards")),
        ({"allowToRunOnSystemNS": True}, Scope.parse_ns("shop.system.views")),
        ({}, Scope.parse_ns("shop.systematic")),
        ({"resumeAfter": document(DROP_DATABASE)}, DATABASE),
        ({"resumeAfter": document(DROP_DATABASE), "allChangesForCluster": True}, CLUSTER),
    ],
)
def test_scopes_that_accept_a_stream(spec: dict[str, Any], scope: Scope) -> None:
    assert ChangeStreamOptions.parse(spec, scope).to_spec() == spec


def test_a_cluster_scope_sets_all_changes_for_cluster() -> None:
    assert ChangeStreamOptions.parse({}, CLUSTER).all_changes_for_cluster is True


def test_options_that_a_router_refuses() -> None:
    assert code_of({"showMigrationEvents": True}, on_router=True) == 31123
    assert code_of({"supportedEvents": ["a"]}, on_router=True) == 10498501
    system = Scope.parse_ns("shop.system.views")
    assert code_of({"allowToRunOnSystemNS": True}, system, on_router=True) == 73
    options = ChangeStreamOptions.parse({"showMigrationEvents": False}, COLLECTION, on_router=True)
    assert options.show_migration_events is False


def test_a_standalone_server_has_no_streams() -> None:
    assert code_of({}, is_replica_set=False) == 40573
    assert ChangeStreamOptions.parse({}, COLLECTION, is_replica_set=False, on_router=True).to_spec() == {}


def test_an_older_release_takes_the_option_of_lookups_without_one() -> None:
    spec = {"matchCollectionUUIDForUpdateLookup": True}
    release = StreamRelease.parse("6.0.27")
    assert ChangeStreamOptions.parse(spec, COLLECTION, release=release).full_document == "default"


def test_null_is_as_if_not_given() -> None:
    nulls = dict.fromkeys(
        ("resumeAfter", "startAfter", "startAtOperationTime", "fullDocument", "fullDocumentBeforeChange")
    )
    options = ChangeStreamOptions.parse(nulls, COLLECTION)
    assert options == ChangeStreamOptions.parse({}, COLLECTION)
    assert options.resume_token is None


def test_the_types_in_a_token_are_checked_with_the_options_in_their_order() -> None:
    assert code_of({"resumeAfter": {}, "unknown": 1}) == 40647
    assert code_of({"resumeAfter": {"_data": "82", "_typeBits": 1}, "unknown": 1}) == 40648
    assert code_of({"resumeAfter": {"_data": "zz"}, "unknown": 1}) == 40415


def test_the_first_fault_in_the_servers_order_is_reported() -> None:
    # Each spec has its fault and all faults that the server checks later.
    faults: list[tuple[dict[str, Any], int]] = [
        ({"showExpandedEvents": 1}, 14),
        ({"allChangesForCluster": True}, 72),
        ({"allChangesForCluster": False}, 73),
    ]
    rest: dict[str, Any] = {
        "matchCollectionUUIDForUpdateLookup": True,
        "resumeAfter": {"_data": "xx"},
        "startAfter": {"_data": ""},
        "startAtOperationTime": Timestamp(1, 1),
        "showMigrationEvents": True,
    }
    scope = Scope.parse_ns("local.system.x")
    for spec, code in faults:
        assert code_of({**rest, **spec}, scope, on_router=True) == code
    assert code_of({**rest, "showExpandedEvents": 1}, scope, is_replica_set=False) == 14
    assert code_of(rest, scope, is_replica_set=False) == 40573
    assert code_of(rest, Scope.parse_ns("shop.system.x"), on_router=True) == 73
    assert code_of(rest, COLLECTION, on_router=True) == 31123
    assert code_of(rest) == 12888201
    rest["fullDocument"] = "updateLookup"
    assert code_of(rest) == 50865
    del rest["startAfter"]
    assert code_of(rest) == 9
    rest["resumeAfter"] = document(INVALIDATE)
    assert code_of(rest) == 40674
    del rest["startAtOperationTime"]
    assert code_of(rest) == 260
