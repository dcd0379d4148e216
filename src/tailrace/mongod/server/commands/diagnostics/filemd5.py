"""`filemd5`: the MD5 sum of a file in GridFS."""

import hashlib
from typing import Any, Final

from tailrace.bson.compare import sort_key
from tailrace.bson.documents import decode
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, right, text_of
from tailrace.mongod.server.access.privileges import namespace
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.reader import Reader
from tailrace.pacing import with_ticks
from tailrace.query.match import compile_match

_OUT_OF_ORDER: Final = 10040
_NO_BINARY: Final = 50849
_DEFAULT_ROOT: Final = "fs"


async def run(context: MemberContext) -> Reply:
    root = context.command.get("root", _DEFAULT_ROOT)
    if not is_string(root):
        raise CommandError(ErrorCode.InvalidNamespace, "'root' must be of type String")
    if "md5state" in context.command or context.command.get("partialOk"):
        raise CommandError(ErrorCode.IllegalOperation, "filemd5 cannot be continued from a state here")
    digest = hashlib.md5()
    number = 0
    with context.reader() as reader:
        collection = reader.catalog.collection(f"{context.database}.{root or _DEFAULT_ROOT}.chunks")
        if collection is not None:
            for chunk in _chunks(reader, collection, context.command[context.name]):
                if chunk.get("n") != number:
                    raise CommandError(_OUT_OF_ORDER, "chunks out of order")
                if not isinstance(chunk.get("data"), bytes):
                    raise CommandError(_NO_BINARY, "the data of a chunk must be binary")
                digest.update(chunk["data"])
                number += 1
    return {"numChunks": number, "md5": digest.hexdigest()}


def _chunks(reader: Reader, collection: Collection, file_id: Any) -> list[dict[str, Any]]:
    """The chunks of a file in their order; as a real server, it needs the drivers' index for that."""
    if not any(index.key == (("files_id", 1), ("n", 1)) for index in collection.indexes):
        reason = "No indexed plans available, and running with 'notablescan'"
        raise CommandError(ErrorCode.NoQueryExecutionPlans, reason)
    is_chunk = compile_match({"files_id": {"$eq": file_id}, "n": {"$gte": 0}})
    found = []
    for _, document in with_ticks(reader.records(collection)):
        chunk = decode(document)
        if is_chunk(chunk):
            found.append(chunk)
    return sorted(found, key=lambda chunk: sort_key(chunk["n"]))


def _needs(context: MemberContext) -> Rights:
    root = text_of(context.command.get("root")) or "fs"
    return (right(namespace(context.database, f"{root}.chunks"), "find"),)


COMMAND = Command("filemd5", run, needs=_needs, help="The MD5 sum of a file in GridFS.", is_read=True)
