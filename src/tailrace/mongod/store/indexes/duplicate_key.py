"""The error for a second document with the same key in a unique index."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.index_keys import index_values
from tailrace.query.missing import MISSING


def duplicate_key(
    collection: Collection, spec: Mapping[str, Any], document: bytes, index_key: bytes | None = None
) -> CommandError:
    """DuplicateKey (11000), with the key pattern and the values as drivers read them.

    ``index_key`` is the key that exists already, for documents that have several.
    """
    found: list[Any] = []
    for key, values in index_values(Index(0, spec), document):
        if not found or key == index_key:
            found = values
    shown = {
        path: None if value is MISSING else value for path, value in zip(spec["key"], found, strict=False)
    }
    place = f"collection: {collection.ns} index: {spec['name']}"
    collation = {"collation": spec["collation"]} if "collation" in spec else {}
    if collation:
        place += f" collation: {shell(spec['collation'])}"
    error = CommandError(
        ErrorCode.DuplicateKey, f"E11000 duplicate key error {place} dup key: {shell(shown)}"
    )
    error.details = {"keyPattern": dict(spec["key"]), "keyValue": shown, **collation}
    return error
