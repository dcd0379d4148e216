"""Leave out the rows of namespaces that a history does not keep."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson import documents
from tailrace.namespaces import NamespaceChoice

_RENAME: Final = "rename"


def kept_rows(rows: pa.RecordBatch, choice: NamespaceChoice) -> pa.RecordBatch:
    """The rows of namespaces that are kept, and those that name none.

    A rename is kept if one of its names is.
    """
    if choice.is_free:
        return rows
    codes, names = _namespaces(rows)
    wanted = np.array([_keeps(choice, database, collection) for database, collection in names])
    if wanted.all():
        return rows
    mask = wanted[codes]
    operations = rows.column("operation").cast(pa.string())
    renames = pc.fill_null(pc.equal(operations, _RENAME), False).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(renames & ~mask).tolist():
        to = documents.decode(rows.column("event")[row].as_py()).get("to", {})
        mask[row] = _keeps(choice, to.get("db"), to.get("coll"))
    return _with_used_values(rows.filter(pa.array(mask)))


def _with_used_values(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows; no dictionary has the name of what was left out."""
    columns = [
        column.dictionary_decode().dictionary_encode() if isinstance(column, pa.DictionaryArray) else column
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _keeps(choice: NamespaceChoice, database: str | None, collection: str | None) -> bool:
    return database is None or choice.keeps(database, collection)


def _namespaces(rows: pa.RecordBatch) -> tuple[np.ndarray, list[tuple[str | None, str | None]]]:
    """A number for each row, and the names that the numbers mean."""
    columns = [_encoded(rows.column(name)) for name in ("db", "coll")]
    databases, collections = ([*column.dictionary.to_pylist(), None] for column in columns)
    db, coll = (column.indices.fill_null(len(column.dictionary)).to_numpy() for column in columns)
    found, codes = np.unique(db.astype(np.int64) * len(collections) + coll, return_inverse=True)
    pairs = (divmod(int(code), len(collections)) for code in found)
    return codes, [(databases[one], collections[other]) for one, other in pairs]


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
