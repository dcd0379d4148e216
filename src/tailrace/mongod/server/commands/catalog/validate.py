"""`validate`: check the data of a collection."""

from typing import Any

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.pacing import paced
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.drop import index_count
from tailrace.mongod.store.validation import Validation


async def run(context: MemberContext) -> dict[str, Any]:
    """Check every record, every index key and every counter of a collection."""
    name = context.collection_name()
    arguments = context.arguments()
    metadata_only = _options(arguments)
    arguments.finish()
    with context.node.store.snapshot() as snapshot:
        collection = _collection(snapshot.catalog, context.database, name)
        validation = Validation(snapshot, collection)
        if not metadata_only:
            async for _ in paced(context, validation.steps()):
                pass
    return _described(collection, validation)


def _options(arguments: Arguments) -> bool:
    """Whether to check only the catalog; all other options have no effect."""
    full = arguments.boolean("full", False)
    background = arguments.boolean("background", False)
    metadata = arguments.boolean("metadata", False)
    if full and background:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "Running the validate command with { background: true } and { full: true } is not supported.",
        )
    if metadata and (full or background or arguments.boolean("repair", False)):
        raise CommandError(
            ErrorCode.InvalidOptions,
            "Running the validate command with { metadata: true } is not supported with any other options",
        )
    if arguments.boolean("repair", False):
        raise CommandError(
            ErrorCode.InvalidOptions,
            "Running the validate command with { repair: true } is not supported here.",
        )
    arguments.ignore("enforceFastCount", "checkBSONConformance", "fixMultikey", "collHash", "rawData")
    return metadata


def _collection(catalog: Catalog, database: str, name: str) -> Collection:
    ns = f"{database}.{name}"
    if catalog.view(ns) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, "Cannot validate a view")
    collection = catalog.collection(ns)
    if collection is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"Collection '{ns}' does not exist to validate.")
    return collection


def _described(collection: Collection, validation: Validation) -> dict[str, Any]:
    details = {
        index.name: {"valid": index.name not in validation.broken_indexes, "spec": dict(index.spec)}
        for index in collection.indexes
    }
    return {
        "ns": collection.ns,
        "uuid": Binary(collection.uuid, 4),
        "nInvalidDocuments": validation.invalid_documents,
        "nNonCompliantDocuments": 0,
        "nrecords": validation.records,
        "nIndexes": index_count(collection),
        "keysPerIndex": validation.keys_per_index,
        "indexDetails": details,
        "valid": validation.valid,
        "repaired": False,
        "warnings": [],
        "errors": validation.errors,
        "extraIndexEntries": validation.extra_entries,
        "missingIndexEntries": validation.missing_entries,
        "corruptRecords": [Binary(key) for key in validation.corrupt_records],
    }


COMMAND = Command("validate", run, help="Check a collection and its indexes for damage.", is_read=True)
