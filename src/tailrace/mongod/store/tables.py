"""The LMDB environment: its tables and the layout of their keys.

All numbers in keys are big-endian, so that LMDB's byte order is the order of the numbers.

=========== =============================================== ==============================================
table       key                                             value
=========== =============================================== ==============================================
meta        a name                                          BSON or a number: format, term, identities
catalog     namespace                                       the collection's catalog document
records     ident (4), record key                           a document
index       ident (4), KeyString [, record key's mark]      record key
counts      ident (4)                                       number of records, their bytes
oplog       cluster time (8)                                an oplog entry
preimages   collection UUID (16), cluster time (8), index (8) ``{_id, operationTime, preImage}``
sessions    session id, user (16 each)                      a record of `config.transactions`
images      session id, user (16 each)                      a retryable findAndModify's image
prepared    session id, user (16 each)                      what a prepared transaction needs to end
garbage     table number (1), ident (4)                     nothing; records or index keys still to be removed
undo        ident (4), cluster time (8), number (4)         records before changes: `past/undo.py`
=========== =============================================== ==============================================

The record key of an ordinary collection counts up from 1 (8 bytes), so that natural order is the order of
insertion; that of a clustered collection is the KeyString of `_id`.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from struct import Struct
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import lmdb

from tailrace.errors import UsageError
from tailrace.mongod.store.files.page_file import DamagedPage, check_file

FORMAT: Final = 1
NAMES: Final = (
    "meta", "catalog", "records", "index", "counts", "oplog", "preimages", "sessions", "images",
    "prepared", "garbage", "undo",
)  # fmt: skip
DEFAULT_MAP_SIZE: Final = 64 << 30
"""Address space, not memory or disk: the most that one data directory can grow to."""

IDENT: Final = Struct(">I")
TIME: Final = Struct(">Q")
COUNT: Final = Struct(">qq")
pack_ident = IDENT.pack
pack_time = TIME.pack

# LMDB's keys have at most 511 bytes. A longer KeyString is stored as its beginning, so that it sorts near its
# place, and a digest, so that equal keys mean equal values. Readers of ranges check the documents in any
# case.
LONGEST_EXACT_KEY: Final = 440
_MAX_KEY: Final = LONGEST_EXACT_KEY + 32
_MAX_MARK: Final = 16
DATA_FILE: Final = "data.mdb"
"""LMDB's name for its file"""
_DAMAGES: Final = (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError)


def damaged(path: Path, reason: Exception) -> UsageError:
    """The error of a data directory that is not as it was written."""
    return UsageError(
        f"the data in {path / DATA_FILE} is damaged: {reason}; restore a copy, or name another directory"
    )


def holds_store(path: Path) -> bool:
    """Whether a folder is the data directory of a store."""
    return (path / DATA_FILE).exists()


def fit_key(key: bytes) -> bytes:
    """A KeyString that fits into an LMDB key."""
    if len(key) <= _MAX_KEY:
        return key
    return key[:LONGEST_EXACT_KEY] + hashlib.sha256(key).digest()


def lower_bound(key: bytes) -> bytes:
    """The lowest stored key of KeyStrings that are not below ``key``."""
    return key[:LONGEST_EXACT_KEY]


def upper_bound(key: bytes) -> bytes:
    """A key above all stored keys of KeyStrings that begin with or are below ``key``."""
    return key[:LONGEST_EXACT_KEY] + b"\xff" * 32 if len(key) > LONGEST_EXACT_KEY else key


def record_mark(record_key: bytes) -> bytes:
    """The suffix that makes keys of equal values unique in a non-unique index."""
    if len(record_key) <= _MAX_MARK:
        return record_key
    return hashlib.sha256(record_key).digest()[:_MAX_MARK]


def after_prefix(prefix: bytes) -> bytes:
    """The lowest key above all keys that begin with ``prefix``; empty if there is none.

    >>> after_prefix(bytes([1, 255])).hex(), after_prefix(b"")
    ('02', b'')
    """
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b""


Table: TypeAlias = Any
"""LMDB's handle of a table"""


class Cursor(AbstractContextManager["Cursor"], Protocol):
    """The part of LMDB's cursor that is used here. A move returns whether there is a record."""

    def first(self) -> bool: ...
    def last(self) -> bool: ...
    def next(self) -> bool: ...
    def prev(self) -> bool: ...
    def set_range(self, key: bytes) -> bool: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def delete(self) -> bool: ...
    def close(self) -> None: ...
    def iternext(self, *, keys: Literal[False]) -> Iterator[bytes]: ...
    def iterprev(self) -> Iterator[tuple[bytes, bytes]]: ...
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...


class Transaction(Protocol):
    """The part of LMDB's transaction that is used here; values are copies, never views of memory."""

    def get(self, key: bytes, *, db: Table) -> bytes | None: ...
    def put(
        self, key: bytes, value: bytes, *, overwrite: bool = True, append: bool = False, db: Table
    ) -> bool: ...
    def delete(self, key: bytes, *, db: Table) -> bool: ...
    def cursor(self, db: Table) -> Cursor: ...
    def stat(self, db: Table) -> dict[str, int]: ...
    def id(self) -> int: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...


class Tables:
    """An open LMDB environment. Attributes are LMDB's handles, named as in the table above."""

    def __init__(self, path: Path, *, map_size: int = DEFAULT_MAP_SIZE) -> None:
        self.path = path
        self.map_size = map_size
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if holds_store(path):
                check_file(path / DATA_FILE)
            self.environment = lmdb.open(
                str(path),
                mode=0o600,
                map_size=map_size,
                max_dbs=len(NAMES),
                max_readers=4096,
                metasync=True,
                sync=True,
            )
        except (DamagedPage, *_DAMAGES) as error:
            raise damaged(path, error) from None
        except (OSError, lmdb.Error) as error:
            raise UsageError(
                f"cannot open the data directory {path}: {error}; "
                "name a directory that can be written to and no other server uses"
            ) from error
        try:
            handles = {name: self.environment.open_db(name.encode()) for name in NAMES}
        except lmdb.Error as error:
            self.environment.close()
            raise damaged(path, error) from None
        self.meta = handles["meta"]
        self.catalog = handles["catalog"]
        self.records = handles["records"]
        self.index = handles["index"]
        self.counts = handles["counts"]
        self.oplog = handles["oplog"]
        self.preimages = handles["preimages"]
        self.sessions = handles["sessions"]
        self.images = handles["images"]
        self.prepared = handles["prepared"]
        self.garbage = handles["garbage"]
        self.undo = handles["undo"]
        self.by_name = handles

    def begin(self, *, write: bool = False) -> Transaction:
        """Begin a transaction; only one may write at a time, and its own thread must end it."""
        return cast("Transaction", self.environment.begin(write=write))

    def close(self) -> None:
        self.environment.close()
