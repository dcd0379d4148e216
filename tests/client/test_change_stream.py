"""The state machine: replies and errors in, commands and events out; no sockets.

Rules about other server versions are tested here, where the wire version is an argument.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo.collation import Collation

from tailrace.client.change_stream import ChangeStreamMachine, Phase, Verdict
from tailrace.client.errors import MissingResumeTokenError
from tailrace.client.options import Keywords, StreamOptions, Target
from tailrace.client.resumable import RESUMABLE_LABEL, CommandFailure

Document = dict[str, Any]

COLLECTION = Target("shop", "orders")
MODERN = 25
NETWORK = CommandFailure(from_server=False)
LABELLED = CommandFailure(
    from_server=True, code=11602, labels=frozenset({RESUMABLE_LABEL}), wire_version=MODERN
)
RECOVERING = CommandFailure(from_server=True, code=13436, wire_version=MODERN)


def machine_of(
    target: Target = COLLECTION,
    pipeline: list[Document] | None = None,
    merge_fragments: bool = False,
    **options: Any,
) -> ChangeStreamMachine:
    keywords: Keywords = options  # type: ignore[assignment]
    return ChangeStreamMachine(
        target, pipeline or [], StreamOptions.of(keywords), merge_fragments=merge_fragments
    )


def token(name: str) -> Document:
    return {"_data": name}


def event(name: str, **fields: Any) -> Document:
    return {"_id": token(name), **fields}


def reply(
    *events: Document,
    post: str | None = None,
    first: bool = False,
    cursor: int = 7,
    ns: str = "shop.orders",
    time: Timestamp | None = None,
) -> Document:
    fields: Document = {"firstBatch" if first else "nextBatch": list(events), "id": Int64(cursor), "ns": ns}
    if post is not None:
        fields["postBatchResumeToken"] = token(post)
    return {"cursor": fields, "ok": 1.0, "operationTime": time or Timestamp(5, 5)}


def opened(
    *events: Document, post: str | None = None, wire: int = MODERN, **options: Any
) -> ChangeStreamMachine:
    machine = machine_of(**options)
    machine.receive(reply(*events, post=post, first=True), wire)
    return machine


def stage(machine: ChangeStreamMachine, wire: int = MODERN) -> Mapping[str, Any]:
    """The `$changeStream` document of the next command, which must be an aggregate."""
    command = machine.next_command(wire)
    assert command.name == "aggregate"
    found: Mapping[str, Any] = command.body["pipeline"][0]["$changeStream"]
    return found


def resumed_stage(machine: ChangeStreamMachine, wire: int = MODERN) -> Mapping[str, Any]:
    """`stage` of the resume after a network error."""
    assert machine.fail(NETWORK) is Verdict.RESUME
    machine.release()
    return stage(machine, wire)


# -- commands ---------------------------------------------------------------------------------------------


def test_a_collection_is_watched_by_name() -> None:
    command = machine_of(pipeline=[{"$match": {"x": 1}}]).next_command(MODERN)
    assert command.database == "shop"
    assert list(command.body.items()) == [
        ("aggregate", "orders"),
        ("pipeline", [{"$changeStream": {}}, {"$match": {"x": 1}}]),
        ("cursor", {}),
    ]


def test_a_database_is_watched_by_one() -> None:
    command = machine_of(Target("shop")).next_command(MODERN)
    assert (command.database, command.body["aggregate"]) == ("shop", 1)


def test_the_cluster_is_watched_on_admin() -> None:
    machine = machine_of(Target.cluster())
    assert machine.next_command(MODERN).database == "admin"
    assert stage(machine) == {"allChangesForCluster": True}


def test_options_go_where_they_belong_and_only_those_given() -> None:
    machine = machine_of(
        full_document="anything",
        full_document_before_change="something",
        show_expanded_events=True,
        start_at_operation_time=Timestamp(1, 2),
        resume_after=token("a"),
        start_after=token("b"),
        batch_size=3,
        max_await_time_ms=40,
        comment={"why": 1},
        collation=Collation("de"),
        stage_options={"later": 1},
        command_options={"let": {"x": 1}},
    )
    command = machine.next_command(MODERN)
    assert stage(machine) == {
        "fullDocument": "anything",
        "fullDocumentBeforeChange": "something",
        "showExpandedEvents": True,
        "startAtOperationTime": Timestamp(1, 2),
        "resumeAfter": token("a"),
        "startAfter": token("b"),
        "later": 1,
    }
    assert command.body["cursor"] == {"batchSize": 3}
    assert command.body["collation"] == Collation("de").document
    assert command.body["comment"] == {"why": 1}
    assert command.body["let"] == {"x": 1}
    assert "maxTimeMS" not in command.body


def test_an_unknown_keyword_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="fulldocument"):
        machine_of(fulldocument="x")


def test_get_more_uses_the_namespace_of_the_reply() -> None:
    machine = machine_of(Target("shop"), batch_size=3, max_await_time_ms=40)
    machine.receive(reply(first=True, ns="shop.$cmd.aggregate", cursor=99), MODERN)
    command = machine.next_command(MODERN)
    assert command.database == "shop"
    assert dict(command.body) == {
        "getMore": 99, "collection": "$cmd.aggregate", "batchSize": 3, "maxTimeMS": 40
    }  # fmt: skip
    assert isinstance(command.body["getMore"], Int64)


def test_a_driver_that_limits_the_time_of_commands_does_not_change_how_long_a_get_more_waits() -> None:
    body = opened().next_command(MODERN).body
    body["maxTimeMS"] = 9
    body["lsid"] = 1
    assert dict(body) == {"getMore": 7, "collection": "orders", "lsid": 1}


@pytest.mark.parametrize(("wire", "is_sent"), [(8, False), (9, True)])
def test_a_comment_is_sent_with_get_more_from_4_4_on(wire: int, is_sent: bool) -> None:
    assert ("comment" in opened(comment="c").next_command(wire).body) is is_sent


# -- the cached token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "cached"),
    [
        ({}, None),
        ({"resume_after": token("r")}, token("r")),
        ({"start_after": token("s")}, token("s")),
        ({"start_after": token("s"), "resume_after": token("r")}, token("s")),
        ({"start_at_operation_time": Timestamp(1, 1)}, None),
    ],
)
def test_a_started_stream_caches_the_token_it_was_given(options: Document, cached: Document | None) -> None:
    assert machine_of(**options).resume_token == cached


def test_an_empty_batch_moves_the_token_to_the_post_batch_token() -> None:
    machine = opened(post="p1")
    assert machine.resume_token == token("p1")
    machine.receive(reply(post="p2"), MODERN)
    assert machine.resume_token == token("p2")
    machine.receive(reply(), MODERN)
    assert machine.resume_token == token("p2")


def test_a_batch_moves_the_token_event_by_event_and_at_its_end_to_the_post_batch_token() -> None:
    machine = opened(event("a"), event("b"), post="p", resume_after=token("r"))
    seen = [machine.resume_token]
    while (taken := machine.take()) is not None:
        seen += [taken["_id"], machine.resume_token]
    assert seen == [token("r"), token("a"), token("a"), token("b"), token("p")]


def test_without_post_batch_token_the_last_event_is_the_position() -> None:
    machine = opened(event("a"), event("b"))
    machine.take()
    machine.take()
    assert machine.resume_token == token("b")


def test_an_event_without_token_raises_and_ends_the_stream() -> None:
    machine = opened(event("a"), {"operationType": "insert"}, event("c"))
    machine.take()
    with pytest.raises(MissingResumeTokenError, match="resume token is missing"):
        machine.take()
    assert not machine.is_alive
    assert machine.take() is None
    assert machine.release() is not None


# -- resuming ---------------------------------------------------------------------------------------------


def test_the_cached_token_is_where_a_stream_resumes() -> None:
    machine = opened(event("a"), post="p", start_at_operation_time=Timestamp(1, 1), full_document="x")
    machine.take()
    assert resumed_stage(machine) == {"resumeAfter": token("p"), "fullDocument": "x"}


def test_start_after_stays_until_an_event_was_returned() -> None:
    machine = opened(post="p1", start_after=token("s"))
    assert resumed_stage(machine) == {"startAfter": token("p1")}
    machine.receive(reply(event("a"), post="p2", first=True), MODERN)
    machine.take()
    assert resumed_stage(machine) == {"resumeAfter": token("p2")}


def test_start_after_without_any_reply_is_the_token_that_was_given() -> None:
    machine = opened(event("a"), start_after=token("s"))
    assert resumed_stage(machine) == {"startAfter": token("s")}


@pytest.mark.parametrize("wire", [6, 7])
def test_an_operation_time_is_where_a_stream_without_token_resumes_from_4_0_on(wire: int) -> None:
    machine = opened(wire=wire)
    expected = {"startAtOperationTime": Timestamp(5, 5)} if wire >= 7 else {}
    assert resumed_stage(machine, wire) == expected


def test_the_operation_time_that_was_given_is_kept() -> None:
    machine = opened(start_at_operation_time=Timestamp(1, 1))
    assert resumed_stage(machine) == {"startAtOperationTime": Timestamp(1, 1)}


def test_a_saved_operation_time_is_that_of_the_first_aggregate() -> None:
    machine = opened()
    resumed_stage(machine)
    machine.receive(reply(first=True, time=Timestamp(9, 9)), MODERN)
    assert resumed_stage(machine) == {"startAtOperationTime": Timestamp(5, 5)}


@pytest.mark.parametrize(
    "opening",
    [{"post": "p"}, {"resume_after": token("p")}],
    ids=["post-batch token", "token"],
)
def test_no_operation_time_is_saved_where_there_is_a_token(opening: Document) -> None:
    assert resumed_stage(opened(**opening)) == {"resumeAfter": token("p")}


def test_no_operation_time_is_saved_if_the_first_batch_has_events() -> None:
    assert resumed_stage(opened(event("a"))) == {}


def test_consecutive_resumes_need_no_event_in_between() -> None:
    machine = opened(post="p")
    for _ in range(5):
        assert resumed_stage(machine) == {"resumeAfter": token("p")}
        machine.receive(reply(first=True), MODERN)
        assert not machine.needs_cursor


def test_a_resume_uses_the_initial_pipeline_and_options() -> None:
    machine = opened(post="p", pipeline=[{"$match": {}}], batch_size=2, comment="c", full_document="x")
    machine.fail(NETWORK)
    machine.release()
    body = machine.next_command(MODERN).body
    assert body["pipeline"] == [
        {"$changeStream": {"resumeAfter": token("p"), "fullDocument": "x"}},
        {"$match": {}},
    ]
    assert (body["cursor"], body["comment"]) == ({"batchSize": 2}, "c")


# -- failures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [NETWORK, LABELLED, CommandFailure(from_server=True, code=43)])
def test_an_error_of_the_first_aggregate_is_never_resumable(failure: CommandFailure) -> None:
    machine = machine_of()
    assert machine.fail(failure) is Verdict.RAISE
    assert not machine.is_alive


@pytest.mark.parametrize(
    "failure", [NETWORK, LABELLED, CommandFailure(from_server=True, code=43, wire_version=MODERN)]
)
def test_a_resumable_error_of_a_get_more_leads_to_an_aggregate(failure: CommandFailure) -> None:
    machine = opened(post="p")
    assert machine.fail(failure) is Verdict.RESUME
    assert machine.needs_cursor
    assert machine.next_command(MODERN).name == "aggregate"


def test_any_other_error_ends_the_stream() -> None:
    machine = opened(post="p")
    assert machine.fail(CommandFailure(from_server=True, code=280, wire_version=MODERN)) is Verdict.RAISE
    assert not machine.is_alive


def test_a_resume_that_the_server_refuses_ends_the_stream() -> None:
    machine = opened(post="p")
    machine.fail(NETWORK)
    refused = CommandFailure(from_server=True, code=286, wire_version=MODERN)
    assert machine.fail(refused) is Verdict.RAISE
    assert not machine.is_alive


@pytest.mark.parametrize("failure", [LABELLED, RECOVERING])
def test_a_resume_that_members_refuse_until_one_is_primary_can_be_tried_again(
    failure: CommandFailure,
) -> None:
    machine = opened(post="p")
    assert machine.fail(failure) is Verdict.RESUME
    assert machine.fail(failure) is Verdict.RAISE
    assert machine.is_alive
    assert stage(machine) == {"resumeAfter": token("p")}


def test_a_resume_that_did_not_reach_a_server_is_raised_and_can_be_tried_again() -> None:
    machine = opened(post="p")
    machine.fail(NETWORK)
    assert machine.fail(NETWORK) is Verdict.RAISE
    assert machine.is_alive
    assert stage(machine) == {"resumeAfter": token("p")}


def test_a_get_more_out_of_time_is_raised_and_the_next_call_resumes() -> None:
    machine = opened(post="p")
    expired = CommandFailure(from_server=True, code=50, wire_version=MODERN, timed_out=True)
    assert machine.fail(expired) is Verdict.RAISE
    assert machine.phase is Phase.INTERRUPTED
    assert stage(machine) == {"resumeAfter": token("p")}


def test_a_cursor_that_is_not_found_is_not_killed() -> None:
    machine = opened(post="p")
    machine.fail(CommandFailure(from_server=True, code=43, wire_version=MODERN))
    assert machine.release() is None


def test_a_cursor_is_killed_once() -> None:
    machine = opened(post="p")
    machine.fail(NETWORK)
    command = machine.release()
    assert command is not None
    assert command.body == {"killCursors": "orders", "cursors": [7]}
    assert machine.release() is None


# -- the end ----------------------------------------------------------------------------------------------


def test_a_cursor_with_an_empty_first_batch_stays_open() -> None:
    assert opened().is_alive


def test_a_cursor_that_the_server_closed_ends_the_stream_after_its_last_event() -> None:
    machine = opened()
    machine.receive(reply(event("drop"), event("invalidate"), post="invalidate", cursor=0), MODERN)
    alive = []
    while machine.take() is not None:
        alive.append(machine.is_alive)
    assert alive == [True, False]
    assert machine.resume_token == token("invalidate")
    assert machine.release() is None


def test_a_cursor_closed_with_an_empty_batch_ends_the_stream() -> None:
    machine = opened()
    machine.receive(reply(post="invalidate", cursor=0), MODERN)
    assert not machine.is_alive
    assert machine.resume_token == token("invalidate")


# -- fragments --------------------------------------------------------------------------------------------


def fragment(name: str, number: int, of: int, **fields: Any) -> Document:
    return event(name, splitEvent={"fragment": number, "of": of}, **fields)


def test_fragments_are_not_merged_by_default() -> None:
    machine = opened(fragment("1", 1, 2, a=1))
    assert machine.take() == fragment("1", 1, 2, a=1)


def test_fragments_become_one_event_over_batches_and_the_position_is_never_between_them() -> None:
    machine = opened(event("0"), fragment("1", 1, 3, a=1), post="1", merge_fragments=True)
    machine.take()
    assert machine.take() is None
    assert machine.resume_token == token("0")
    machine.receive(reply(post="1"), MODERN)
    assert machine.resume_token == token("0")
    machine.receive(reply(fragment("2", 2, 3, b=2), fragment("3", 3, 3, c=3), event("4")), MODERN)
    assert machine.take() == {"_id": token("3"), "a": 1, "b": 2, "c": 3}
    assert machine.resume_token == token("3")
    assert machine.take() == event("4")


def test_a_resume_between_fragments_starts_the_event_again() -> None:
    machine = opened(event("0"), fragment("1", 1, 2, a=1), post="1", merge_fragments=True)
    machine.take()
    machine.take()
    assert resumed_stage(machine) == {"resumeAfter": token("0")}
    machine.receive(reply(fragment("1", 1, 2, a=1), fragment("2", 2, 2, b=2), first=True), MODERN)
    assert machine.take() == {"_id": token("2"), "a": 1, "b": 2}
