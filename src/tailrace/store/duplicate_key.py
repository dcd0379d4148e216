"""The error of a second document with the same key in a unique index."""

from collections.abc import Mapping
from typing import Any

from tailrace.bsonio import documents
from tailrace.bsonio.extjson import dumps_canonical
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.store.catalog import Collection


def duplicate_key(collection: Collection, spec: Mapping[str, Any], document: bytes) -> CommandError:
    """DuplicateKey (11000), with the key pattern and the values as drivers read them."""
    found = documents.decode(document)
    values: dict[str, Any] = {}
    for path in spec["key"]:
        value: Any = found
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        values[path] = value
    shown = dumps_canonical(documents.encode(values))
    error = CommandError(
        ErrorCode.DuplicateKey,
        f"E11000 duplicate key error collection: {collection.ns} index: {spec['name']} dup key: {shown}",
    )
    error.details = {"keyPattern": dict(spec["key"]), "keyValue": values}
    return error
