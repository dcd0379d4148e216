"""The error for a second document with the same key in a unique index."""

from collections.abc import Mapping
from typing import Any

from tailrace.bson import keystring, raw
from tailrace.bson.documents import decode
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import ID_INDEX_NAME, Collection, Index
from tailrace.mongod.store.indexes.index_keys import index_values
from tailrace.query.missing import MISSING


def duplicate_key(
    collection: Collection, spec: Mapping[str, Any], document: bytes, index_key: bytes | None = None
) -> CommandError:
    """DuplicateKey (11000), with the key pattern and the values as drivers read them.

    ``index_key`` is the key that exists already, for documents that have several.
    """
    place = f"collection: {collection.ns}"
    if collection.is_clustered and spec["name"] == ID_INDEX_NAME:
        shown = _record_key(document)
    else:
        shown = _index_key(spec, document, index_key)
        place += f" index: {spec['name']}"
    collation = {"collation": spec["collation"]} if "collation" in spec else {}
    if collation:
        place += f" collation: {shell(spec['collation'])}"
    error = CommandError(
        ErrorCode.DuplicateKey, f"E11000 duplicate key error {place} dup key: {shell(shown)}"
    )
    error.details = {"keyPattern": dict(spec["key"]), "keyValue": shown, **collation}
    return error


def _index_key(spec: Mapping[str, Any], document: bytes, index_key: bytes | None) -> dict[str, Any]:
    found: list[Any] = []
    for key, values in index_values(Index(0, spec), document):
        if not found or key == index_key:
            found = values
    return {
        path: None if value is MISSING else value for path, value in zip(spec["key"], found, strict=False)
    }


def _record_key(document: bytes) -> dict[str, Any]:
    """The key in a clustered collection, which has its records by `_id` and no index of it.

    A server shows the key of the record, which has no type bits: ``1.0`` is shown as ``1``, and a number that
    is no integer is a fault of the key, which raises `KeyStringError`.
    """
    found = raw.field(document, b"_id")
    assert found is not None, "every document of a clustered collection has an _id"
    key = keystring.encode(raw.document(raw.element(found[0], b"", found[1])))
    [(kind, value)] = keystring.decode(key.data)
    return dict(decode(raw.document(raw.element(kind, b"_id", value))))
