"""Find the document of a file that is not valid BSON, or not an oplog entry.

The pipeline copies documents without decoding them. Damage shows only when an event is decoded or written,
and then it is not known where the document came from. These functions find the place. They read every value,
so they are for the case that an error has occurred already.
"""

from collections.abc import Callable, Iterable

from tailrace.bson.documents import decode
from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import CommandError, DamagedInputError
from tailrace.events.oplog_entry import parse_entry
from tailrace.sources.archives.documents import read_documents


def check_sound(raw: bytes) -> None:
    """Read every value of a document; raises `BsonError` if it is damaged."""
    dumps_canonical(raw)
    decode(raw)  # stricter about booleans


def check_entry(raw: bytes) -> None:
    """Do the same for an oplog entry, which also has to have the fields of one."""
    check_sound(raw)
    parse_entry(raw)


def damage_among(
    path: str,
    documents: Iterable[bytes],
    offsets: Iterable[int],
    check: Callable[[bytes], None] = check_sound,
) -> DamagedInputError | None:
    """Return the error of the first document that does not pass the check.

    >>> print(damage_among("a.bson", [bytes.fromhex("0500000000"), bytes.fromhex("060000000000")], [0, 5]))
    a.bson is damaged at byte 5: a value runs past the end of its document, or a string is not UTF-8
    """
    for raw, offset in zip(documents, offsets, strict=True):
        try:
            check(raw)
        except CommandError as error:
            return DamagedInputError(path, offset, error.message)
    return None


def damage_in_file(path: str) -> DamagedInputError | None:
    """Read a file again; return the error of its first document that is damaged."""
    try:
        for batch in read_documents(path):
            damage = damage_among(path, batch.documents, batch.offsets)
            if damage is not None:
                return damage
    except DamagedInputError as damage:
        return damage
    return None
