"""`validate`: check the data of a collection."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Binary, Decimal128

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import old_command
from tailrace.mongod.server.dispatch.kinds import OLD_COLLECTION
from tailrace.mongod.server.emulation.release import VALIDATED_SPECS
from tailrace.mongod.store.catalog import Catalog, Collection
from tailrace.mongod.store.ddl.collection_options import is_true
from tailrace.mongod.store.ddl.drop import index_count
from tailrace.mongod.store.validation import Validation
from tailrace.pacing import with_ticks

_OPTIONS: Final = ("full", "background", "metadata", "repair", "enforceFastCount")
_NOT_TOGETHER: Final = (("background", "full"), ("background", "enforceFastCount"))


async def run(context: MemberContext) -> dict[str, Any]:
    """Check every record, every index key and every counter of a collection."""
    name = context.collection_name(wrong_type=ErrorCode.InvalidNamespace)
    options = _options(context.command)
    with context.node.store.snapshot() as snapshot:
        collection = _collection(snapshot.catalog, context.database, name)
        validation = Validation(snapshot, collection)
        if "metadata" not in options:
            for _ in with_ticks(validation.steps()):
                pass
        read_at = snapshot.newest_time()
    shows_specs = context.node.release.has(VALIDATED_SPECS)
    reply = _described(collection, validation, metadata_only="metadata" in options, shows_specs=shows_specs)
    if "background" in options:
        reply["readTimestamp"] = to_timestamp(read_at)
    return reply | _faults(validation)


def _options(command: Mapping[str, Any]) -> set[str]:
    """The options that are on. Values of any type count by their truth, and unknown options are ignored."""
    given = {option for option in _OPTIONS if _counts(command.get(option))}
    for pair in _NOT_TOGETHER:
        if given.issuperset(pair):
            shown = " and ".join(f"{{ {option}: true }}" for option in pair)
            raise CommandError(
                ErrorCode.InvalidOptions, f"Running the validate command with both {shown} is not supported."
            )
    if "metadata" in given and len(given) > 1:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "Running the validate command with { metadata: true } is not supported with any other options",
        )
    if "repair" in given:
        raise CommandError(
            ErrorCode.InvalidOptions,
            "Running the validate command with { repair: true } is not supported here.",
        )
    return given


def _counts(value: Any) -> bool:
    """Whether an option is on: as in queries, only false, null and zero are not."""
    return is_true(value) if isinstance(value, bool | int | float | Decimal128) else value is not None


def _collection(catalog: Catalog, database: str, name: str) -> Collection:
    ns = f"{database}.{name}"
    if catalog.view(ns) is not None:
        raise CommandError(ErrorCode.CommandNotSupportedOnView, "Cannot validate a view")
    collection = catalog.collection(ns)
    if collection is None:
        raise CommandError(ErrorCode.NamespaceNotFound, f"Collection '{ns}' does not exist to validate.")
    return collection


def _described(
    collection: Collection, validation: Validation, *, metadata_only: bool, shows_specs: bool
) -> dict[str, Any]:
    reply: dict[str, Any] = {"ns": collection.ns}
    if shows_specs:
        reply["uuid"] = Binary(collection.uuid, 4)
    if not metadata_only:
        reply |= {
            "nInvalidDocuments": validation.invalid_documents,
            "nNonCompliantDocuments": 0,
            "nrecords": validation.records,
            "nIndexes": index_count(collection),
            "keysPerIndex": dict(sorted(validation.keys_per_index.items())),
            "indexDetails": {
                index.name: {
                    "valid": index.name not in validation.broken_indexes,
                    **({"spec": dict(index.spec)} if shows_specs else {}),
                }
                for index in sorted(collection.indexes, key=lambda index: index.name)
            },
        }
    return {**reply, "valid": validation.valid, "repaired": False}


def _faults(validation: Validation) -> dict[str, Any]:
    return {
        "warnings": [],
        "errors": validation.errors,
        "extraIndexEntries": validation.extra_entries,
        "missingIndexEntries": validation.missing_entries,
        "corruptRecords": [Binary(key) for key in validation.corrupt_records],
    }


_FIELDS = old_command({"validate": OLD_COLLECTION})

COMMAND = Command(
    "validate",
    run,
    needs=on_collection("validate"),
    help="Check a collection and its indexes for damage.",
    fields=_FIELDS,
    is_read=True,
)
