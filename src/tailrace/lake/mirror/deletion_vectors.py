"""Delta's deletion vectors: which rows of a file do not count any more.

A small vector is in the log itself, as text. Larger ones of one commit are together in a file beside the data
files. A vector never changes: a file that gets more dead rows is added to the table again, with a new one.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4
from zlib import crc32

import numpy as np

from tailrace.errors import HistoryError
from tailrace.lake.mirror.roaring import Rows, decoded, encoded
from tailrace.lake.storage.log_store import LogStore

FEATURE: Final = "deletionVectors"
"""The name of the feature in a table's protocol"""
ENABLED: Final = "delta.enableDeletionVectors"
"""The entry of a table's configuration that lets writers make vectors"""
PROTOCOL: Final[Mapping[str, Any]] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": [FEATURE],
    # The other two are those that every table has whose protocol names no features.
    "writerFeatures": ["appendOnly", FEATURE, "invariants"],
}
"""The protocol of a table with vectors"""
_INLINE: Final = "i"
_FILE: Final = "u"
_INLINE_BYTES: Final = 512
"""A vector up to this size is in the log: reading a file for it costs more"""
_FORMAT: Final = b"\x01"
_UUID_CHARACTERS: Final = 20
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_GROUP: Final = 4
_GROUP_DIGITS: Final = 5


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where a vector is, as the log has it. Can be pickled."""

    storage: str
    place: str
    """The vector itself as text, or the text of the UUID that its file is named by"""
    size: int
    """Of its bytes"""
    rows: int
    """How many rows are dead"""
    offset: int | None = None
    """Where it begins in its file"""

    @property
    def identity(self) -> str:
        """What differs between two vectors of one data file."""
        start = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage}{self.place}{start}"

    @property
    def file(self) -> str | None:
        """The name of its file, if it has one."""
        return None if self.storage == _INLINE else _file_name(UUID(bytes=from_text(self.place, 16)))

    @property
    def descriptor(self) -> dict[str, Any]:
        """As `add` and `remove` have it."""
        offset = {} if self.offset is None else {"offset": self.offset}
        return {
            "storageType": self.storage,
            "pathOrInlineDv": self.place,
            **offset,
            "sizeInBytes": self.size,
            "cardinality": self.rows,
        }

    @classmethod
    def of(cls, descriptor: Mapping[str, Any] | None) -> "DeletionVector | None":
        """From an action; `KeyError` or `ValueError` for one that Tailrace does not write."""
        if descriptor is None:
            return None
        storage, place = descriptor["storageType"], descriptor["pathOrInlineDv"]
        if storage != _INLINE and (storage, len(place)) != (_FILE, _UUID_CHARACTERS):
            raise ValueError(f"a deletion vector is stored in the way {storage!r}")
        rows, offset = descriptor["cardinality"], descriptor.get("offset")
        return cls(storage, place, descriptor["sizeInBytes"], rows, offset)


def read_vectors(store: LogStore, vectors: Iterable[DeletionVector]) -> dict[DeletionVector, Rows]:
    """The dead rows of each vector. A file that has several is read once."""
    contents: dict[str, bytes] = {}
    found: dict[DeletionVector, Rows] = {}
    for vector in vectors:
        name = vector.file
        try:
            if name is None:
                data = from_text(vector.place, vector.size)
            else:
                if name not in contents:
                    contents[name] = store.read(name)
                data = _part(contents[name], vector.offset or 0, vector.size)
            rows = decoded(data)
            if len(rows) != vector.rows:
                raise ValueError("the number of rows is another one")
        except (ValueError, FileNotFoundError) as error:
            raise HistoryError(
                f"a deletion vector of the table in {store.place} is damaged or missing ({error}); copy the "
                "collection again with --recopy"
            ) from None
        found[vector] = rows
    return found


def dead_rows(store: LogStore, vector: DeletionVector | None) -> Rows:
    """The dead rows of a file with a vector, or without one."""
    return np.empty(0, np.int64) if vector is None else read_vectors(store, [vector])[vector]


def write_vectors(store: LogStore, dead: Mapping[str, Rows]) -> dict[str, DeletionVector]:
    """Store the dead rows of some files; return the vector of each. Their names are not durable yet."""
    found: dict[str, DeletionVector] = {}
    unique = uuid4()
    name, content = to_text(unique.bytes), bytearray(_FORMAT)
    for path, rows in dead.items():
        data = encoded(rows)
        if len(data) <= _INLINE_BYTES:
            found[path] = DeletionVector(_INLINE, to_text(data), len(data), len(rows))
        else:
            found[path] = DeletionVector(_FILE, name, len(data), len(rows), len(content))
            content += struct.pack(">I", len(data)) + data + struct.pack(">I", crc32(data))
    if len(content) > len(_FORMAT):
        file = store.new_file(_file_name(unique))
        try:
            file.content.write(content)
            file.place(_file_name(unique))
        finally:
            file.discard()
    return found


def _part(content: bytes, offset: int, size: int) -> bytes:
    """The vector in a file's content; raises `ValueError` if it is not there as it was written."""
    data = content[offset + 4 : offset + 4 + size]
    check = content[offset + 4 + size : offset + 8 + size]
    if content[offset : offset + 4] != struct.pack(">I", size) or check != struct.pack(">I", crc32(data)):
        raise ValueError("its checksum is wrong")
    return data


def _file_name(unique: UUID) -> str:
    return f"deletion_vector_{unique}.bin"


def to_text(data: bytes) -> str:
    """Bytes in the base-85 form of ZeroMQ (Z85), with zeros up to a multiple of four.

    >>> to_text(bytes.fromhex("864FD26FB559F75B"))
    'HelloWorld'
    """
    padded = data + bytes(-len(data) % _GROUP)
    digits: list[str] = []
    for (number,) in struct.iter_unpack(">I", padded):
        digits += (_DIGITS[number // 85**power % 85] for power in reversed(range(_GROUP_DIGITS)))
    return "".join(digits)


def from_text(text: str, size: int) -> bytes:
    """Read ``size`` bytes of what `to_text` wrote; `ValueError` for other text."""
    data = bytearray()
    for start in range(0, len(text), _GROUP_DIGITS):
        number = 0
        for digit in text[start : start + _GROUP_DIGITS]:
            number = number * 85 + _VALUES.get(digit, 1 << 32)
        if number >> 32:
            raise ValueError(f"{text[start : start + _GROUP_DIGITS]!r} is no part of a text in Z85")
        data += struct.pack(">I", number)
    if not size <= len(data) < size + _GROUP or len(text) % _GROUP_DIGITS:
        raise ValueError(f"the text has {len(data)} bytes instead of {size}")
    return bytes(data[:size])
