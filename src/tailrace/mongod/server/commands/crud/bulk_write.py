"""`bulkWrite`: insert, update and delete documents of several collections in one command."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, right, text_of
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.generic_arguments import check_database_name
from tailrace.mongod.server.dispatch.kinds import as_whole
from tailrace.mongod.server.reads.listing import batch_size, results_reply
from tailrace.mongod.server.writes.batch import check_batch_size, read_statement_ids
from tailrace.mongod.server.writes.bulk import BulkOperation, BulkSpec, run_bulk
from tailrace.mongod.server.writes.namespaces import Namespace
from tailrace.mongod.server.writes.retries import is_retryable
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec, read_hint, read_update
from tailrace.pacing import with_ticks

_NAMESPACE: Final = "admin.$cmd.bulkWrite"
_PATH: Final = "bulkWrite.ops"


async def run(context: MemberContext) -> Reply:
    """The reply has a cursor over the results of the operations, and the sums."""
    raw_operations = context.documents("ops")
    check_batch_size(len(raw_operations))
    namespaces = read_namespaces(context.documents("nsInfo"))
    numbered = with_ticks(enumerate(raw_operations))
    operations = [read_operation(raw, position, namespaces) for position, raw in numbered]
    arguments = context.arguments()
    size = batch_size(arguments)
    spec = BulkSpec(
        operations,
        arguments.boolean("ordered", True),
        arguments.boolean("errorsOnly", False),
        arguments.boolean("bypassDocumentValidation", False),
        not arguments.boolean("bypassEmptyTsReplacement", False),
        read_statement_ids(context, arguments, len(operations)),
        arguments.document("let", None),
        arguments.boolean("rawData", False),
    )
    arguments.ignore("ops", "nsInfo")
    arguments.finish()
    if is_retryable(context) and any(_is_multi(operation) for operation in operations):
        raise CommandError(ErrorCode.InvalidOptions, "Cannot use retryable writes with multi=true")
    result = await run_bulk(context, spec)
    cursor = results_reply(context, _NAMESPACE, result.replies, size)
    sums: dict[str, Any] = result.summary()
    if result.retried:
        sums["retriedStmtIds"] = result.retried
    return rawbson.document(rawbson.body(cursor), rawbson.body(encode(sums)))


def read_namespaces(specs: list[bytes]) -> list[Namespace]:
    """The namespaces that the operations refer to by number."""
    found: list[Namespace] = []
    for spec in specs:
        arguments = Arguments("bulkWrite.nsInfo", decode(spec))
        namespace = Namespace.parse(arguments.text("ns"), collection_uuid(arguments))
        arguments.ignore("encryptionInformation", "isTimeseriesNamespace")
        arguments.finish()
        check_database_name(namespace.database)
        if any(str(namespace) == str(other) for other in found):
            reason = "BulkWriteCommandRequest: nsInfo entries must be unique; more than one is for "
            raise CommandError(ErrorCode.BadValue, f"{reason}'{namespace}'")
        found.append(namespace)
    return found


def read_operation(raw: bytes, position: int, namespaces: list[Namespace]) -> BulkOperation:
    """Read an operation."""
    kind = rawbson.first_name(raw)
    reader = _READERS.get(kind or b"")
    if reader is None:
        reason = f"BulkWrite ops entry {position} must be an insert, an update or a delete"
        raise CommandError(ErrorCode.FailedToParse, reason)
    name, read = reader
    arguments = Arguments(_PATH, decode(raw))
    number = arguments.integer(name)
    if not 0 <= number < len(namespaces):
        reason = f"BulkWrite ops entry {position} has an invalid nsInfo index."
        raise CommandError(ErrorCode.BadValue, reason)
    work = read(arguments, raw)
    arguments.finish()
    return BulkOperation(namespaces[number], work)


def _read_insert(arguments: Arguments, raw: bytes) -> bytes:
    arguments.document("document")
    document = rawbson.subdocument(raw, b"document")
    assert document is not None, "the argument was found to be an object"
    return document


def _read_update(arguments: Arguments, _raw: bytes) -> UpdateSpec:
    return read_update(arguments, query="filter", update="updateMods", constants="constants")


def _read_delete(arguments: Arguments, _raw: bytes) -> DeleteSpec:
    spec = DeleteSpec(
        query=arguments.document("filter"),
        multi=arguments.boolean("multi", False),
        collation=arguments.document("collation", None),
        hint=read_hint(arguments),
    )
    arguments.ignore("sampleId")
    return spec


_READERS: Final[Mapping[bytes, tuple[str, Callable[[Arguments, bytes], bytes | UpdateSpec | DeleteSpec]]]] = {
    b"insert": ("insert", _read_insert),
    b"update": ("update", _read_update),
    b"delete": ("delete", _read_delete),
}


def _is_multi(operation: BulkOperation) -> bool:
    return not isinstance(operation.work, bytes) and operation.work.multi


_ACTIONS: Final = {"insert": ("insert",), "update": ("update",), "delete": ("remove",)}


def _needs(context: MemberContext) -> Rights:
    """The rights of each statement on the namespace that it names by its number."""
    spaces, statements = (_documents(context, field) for field in ("nsInfo", "ops"))
    bypasses = ("bypassDocumentValidation",) if context.command.get("bypassDocumentValidation") else ()
    names = [text_of(space.get("ns")) for space in spaces]
    wanted: dict[str, set[str]] = {name: set() for name in names}
    for statement in statements:
        kind, given = next(iter(statement.items()), ("", None))
        number = as_whole(given)
        if kind not in _ACTIONS or number is None or not 0 <= number < len(names):
            continue  # the command is refused
        wanted[names[number]].update(_ACTIONS[kind])
        if statement.get("upsert"):
            wanted[names[number]].add("insert")
    for ns, actions in wanted.items():
        database, _, collection = ns.partition(".")
        yield right(namespace(database, collection), *sorted(actions), *bypasses)


def _documents(context: MemberContext, field: str) -> list[dict[str, Any]]:
    sequence = context.request.sequences.get(field)
    given = context.command.get(field) if sequence is None else [decode(each) for each in sequence]
    # What is no document keeps its place: statements name namespaces by their numbers.
    return [each if isinstance(each, dict) else {} for each in given] if isinstance(given, list) else []


COMMAND = Command(
    "bulkWrite",
    run,
    needs=_needs,
    help="Insert, update and delete documents of several collections.",
    admin_only=True,
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
