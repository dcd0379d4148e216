"""`hello`: describe the server; sent first on every connection, and repeatedly by drivers' monitors.

A client that has the current topology version can wait for the next one, and can have every further one sent
without another request. So drivers notice a step-down at once.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from bson import DatetimeMS, Int64, ObjectId, Timestamp

from tailrace.bson.raw import MAX_USER_SIZE
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.access import login
from tailrace.mongod.server.access.needs import OPEN
from tailrace.mongod.server.access.principals import Principal, principals
from tailrace.mongod.server.access.scram import MECHANISMS, ScramError
from tailrace.mongod.server.access.x509 import MECHANISM, log_in_by_certificate
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import Fields, old_command
from tailrace.mongod.server.dispatch.kinds import (
    FLAG,
    GIVEN_OBJECT,
    LONG,
    LOOSE_FLAG,
    NUMBER,
    OBJECT,
    OBJECT_ID,
    TEXT,
    Kind,
    array_of,
    at_least,
    is_given,
    struct,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import CONNECTION_IDS, STREAMING_HELLO
from tailrace.mongod.server.replica_set.member import Member
from tailrace.mongod.server.replica_set.replica_set_config import CONFIG_VERSION
from tailrace.mongod.server.replica_set.replication import Replication
from tailrace.mongod.wire import MAX_MESSAGE_SIZE, negotiate
from tailrace.mongod.wire.compression import OFFERED

MAX_WRITE_BATCH_SIZE: Final = 100_000
_LEAST_REPETITION_MS: Final = 500
"""The shortest time between replies that are sent without a request and have no news; a driver's monitor asks
for seconds."""
_LEGACY_NAMES: Final = frozenset({"isMaster", "ismaster"})


async def run(context: Context) -> Reply:
    """Reply at once, or when the topology version differs from the client's."""
    arguments = context.arguments()
    metadata = arguments.document("client", None)
    compressors = arguments.array("compression", None)
    knows_hello = arguments.boolean("helloOk", False)
    known, max_await_ms = _awaited(context, arguments)
    replication = context.node.replication
    if metadata is not None:
        context.client.set_metadata(metadata)
    if known is not None and max_await_ms is not None:
        if context.is_repetition:
            max_await_ms = max(max_await_ms, _LEAST_REPETITION_MS)
        await _wait_for_news(replication, known, max_await_ms)
        if replication.is_shutting_down:
            raise CommandError(ErrorCode.ShutdownInProgress, "the server is shutting down")
    reply = _describe(context, knows_hello=knows_hello)
    if compressors is not None:
        names = [name for name in compressors if is_given(name)]
        if agreed := negotiate(names, OFFERED):
            reply = {"compression": agreed, **reply}
    reply |= _about_login(context, arguments)
    if known is not None:
        context.repeat({"topologyVersion": reply["topologyVersion"]})
    return reply


def _about_login(context: Context, arguments: Arguments) -> dict[str, Any]:
    """How a user can log in, and the answer to the first message of a log-in that comes with the hello."""
    found: dict[str, Any] = {}
    asked = arguments.value("saslSupportedMechs", None)
    if asked is not None:
        user = context.node.access.user(asked_user(asked))
        if user is not None:
            found["saslSupportedMechs"] = [name for name in login.mechanisms_of(user) if name in MECHANISMS]
    given = arguments.document("speculativeAuthenticate", None)
    if given is not None:
        # A client whose attempt fails begins again with a command of its own, and gets the error then.
        with suppress(CommandError, ScramError, KeyError):
            answer = _speculative(context, given)
            if answer is not None:
                found["speculativeAuthenticate"] = answer
    return found


def _speculative(context: Context, given: Mapping[str, Any]) -> dict[str, Any] | None:
    database, user = given.get("db"), given.get("user")
    if type(database) is not str:
        database = context.database
    if "saslStart" in given:
        return login.begin(context, given, database)
    if "authenticate" in given and given.get("mechanism") == MECHANISM:
        return log_in_by_certificate(context, user if type(user) is str else None, database)
    return None


def asked_user(asked: Any) -> Principal:
    """The user of `saslSupportedMechs`; raises `CommandError` if it names none."""
    if type(asked) is not str:
        return principals(asked, "user", "admin", strict=True)[0]
    database, dot, name = asked.partition(".")
    if not dot:
        reason = "UserName must contain a '.' separated database.user pair"
        raise CommandError(ErrorCode.BadValue, reason)
    return Principal(name, database)


def _awaited(context: Context, arguments: Arguments) -> tuple[tuple[ObjectId, int] | None, int | None]:
    """The client's topology version, and for how many milliseconds it waits for another one."""
    if not context.node.release.has(STREAMING_HELLO):
        arguments.ignore("topologyVersion", "maxAwaitTimeMS")
        return None, None
    known = _known_topology(arguments)
    max_await_ms = arguments.integer("maxAwaitTimeMS", None)
    _check_awaitable(context, known, max_await_ms)
    return known, max_await_ms


def _known_topology(arguments: Arguments) -> tuple[ObjectId, int] | None:
    fields = arguments.nested("topologyVersion")
    if fields is None:
        return None
    return fields.value("processId"), int(fields.value("counter"))


def _check_awaitable(context: Context, known: tuple[ObjectId, int] | None, max_await_ms: int | None) -> None:
    if known is None and max_await_ms is None:
        return
    if known is None:
        raise CommandError(31368, "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'")
    if max_await_ms is None:
        raise CommandError(31368, "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'")
    process_id, counter = known
    if counter < 0:
        raise CommandError(31372, "topologyVersion must have a non-negative counter")
    if max_await_ms < 0:
        raise CommandError(31373, "maxAwaitTimeMS must be a non-negative integer")
    current = context.node.replication
    if process_id == current.process_id and counter > current.counter:
        reason = (
            f"Received a topology version with counter: {counter} "
            f"which is greater than the server topology version counter: {current.counter}"
        )
        raise CommandError(31382, reason)


async def _wait_for_news(replication: Replication, known: tuple[ObjectId, int], max_await_ms: int) -> None:
    process_id, counter = known
    if process_id == replication.process_id:
        await replication.wait_for_change(counter, max_await_ms / 1000)


def _describe(context: Context, *, knows_hello: bool) -> dict[str, Any]:
    node = context.node
    replication = node.replication
    release = node.release
    reply: dict[str, Any] = {"helloOk": True} if knows_hello and release.has_command("hello") else {}
    writable = "ismaster" if context.name in _LEGACY_NAMES else "isWritablePrimary"
    if release.has(STREAMING_HELLO):
        reply["topologyVersion"] = replication.topology_version()
    if isinstance(node, Member) and replication.is_replica_set:
        reply |= _describe_member(node, writable)
    elif node.is_router:
        reply |= {writable: True, "msg": "isdbgrid"}
    else:
        reply[writable] = True
    connection = {"connectionId": context.client.id} if release.has(CONNECTION_IDS) else {}
    return reply | {
        "maxBsonObjectSize": MAX_USER_SIZE,
        "maxMessageSizeBytes": MAX_MESSAGE_SIZE,
        "maxWriteBatchSize": MAX_WRITE_BATCH_SIZE,
        "localTime": DatetimeMS(node.wall.milliseconds()),
        "logicalSessionTimeoutMinutes": node.sessions.timeout_minutes,
        **connection,
        "minWireVersion": 0,
        "maxWireVersion": release.wire_version,
        "readOnly": False,
    }


def _describe_member(node: Member, writable: str) -> Mapping[str, Any]:
    replication = node.replication
    primary = node.primary
    member: dict[str, Any] = {
        "hosts": [other.address for other in node.members],
        "setName": replication.set_name,
        "setVersion": CONFIG_VERSION,
        writable: replication.is_primary,
        "secondary": not replication.is_primary,
    }
    if primary is not None:
        member["primary"] = primary.address
    member["me"] = node.address
    if replication.is_primary:
        member["electionId"] = replication.election_id()
    return member | {
        "lastWrite": _last_write(node.last_write_time(), node.last_write_date(), replication.term)
    }


def _last_write(cluster_time: int, date: int, term: int) -> dict[str, Any]:
    position: dict[str, Timestamp | Int64] = {"ts": to_timestamp(cluster_time), "t": Int64(term)}
    return {
        "opTime": position,
        "lastWriteDate": DatetimeMS(date),
        "majorityOpTime": position,
        "majorityWriteDate": DatetimeMS(date),
    }


_USER = Kind(
    lambda value: is_string(value) or isinstance(value, dict),
    "[string, object]",
    null_code=ErrorCode.TypeMismatch,
)
_FIELDS: Final = old_command(
    {
        "client": GIVEN_OBJECT, "compression": array_of(TEXT), "helloOk": LOOSE_FLAG, "forShell": LOOSE_FLAG,
        "hangUpOnStepDown": LOOSE_FLAG, "loadBalanced": FLAG, "hostInfo": TEXT, "saslSupportedMechs": _USER,
        "internalClient": struct(
            Fields({"minWireVersion": NUMBER, "maxWireVersion": NUMBER}, required=("maxWireVersion",))
        ),
        "topologyVersion": struct(
            Fields({"processId": OBJECT_ID, "counter": LONG}, required=("processId", "counter"))
        ),
        "maxAwaitTimeMS": at_least(0),
        "speculativeAuthenticate": OBJECT,
    }
)  # fmt: skip

COMMAND = Command(
    "hello",
    run,
    needs=OPEN,
    help="Describe this server; with a topology version, wait until it changes.",
    fields=_FIELDS,
    has_no_session=True,
    aliases=("isMaster", "ismaster"),
    is_always_allowed=True,
    same_on_router=True,
)
