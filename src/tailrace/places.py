"""Tell local paths from the URLs of object stores.

Text such as ``s3://bucket/prefix`` is never a local path: a folder called ``s3:`` would be created beside the
user, and the data would be on the wrong machine.
"""

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tailrace.errors import UsageError

OBJECT_STORES: Final = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""The schemes of object stores that a history can be in"""
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<slashes>/+)(?P<rest>.*)", re.DOTALL)
_OTHERS: Final = {
    "WiredTiger": "a MongoDB server",
    "storage.bson": "a MongoDB server",
    "mongod.lock": "a MongoDB server",
    "PG_VERSION": "PostgreSQL",
    "ibdata1": "MySQL",
}
"""Files by which the data of other products is known."""
_THIS_HOST: Final = ("", "localhost")


def is_object_store(place: str | PathLike[str]) -> bool:
    """Whether a place is in an object store.

    >>> is_object_store("s3://bucket/history"), is_object_store("history")
    (True, False)
    """
    found = _URL.fullmatch(fspath(place))
    return found is not None and found["scheme"].lower() in OBJECT_STORES and found["slashes"] == "//"


def local_path(place: str | PathLike[str], what: str = "a path") -> str:
    """The path of a place on this machine; `UsageError`, which calls it ``what``, if it is elsewhere.

    >>> local_path("file:///var/history"), local_path("history")
    ('/var/history', 'history')
    """
    text = fspath(place)
    found = _URL.fullmatch(text)
    if found is None:
        return text
    if found["scheme"].lower() != "file":
        raise UsageError(f"{what} has to be a local path, not {text}; copy it to a folder of this machine")
    host, _, rest = found["rest"].partition("/") if found["slashes"] == "//" else ("", "", found["rest"])
    if host not in _THIS_HOST:
        raise UsageError(f"{text} names the host {host}; write file:///PATH for a path on this machine")
    return "/" + unquote(rest)


def archive_place(place: str | PathLike[str], what: str = "a path") -> str:
    """The place of an archived file or folder: a local path or the URL of an object store.

    >>> archive_place("file:///var/oplog.bson"), archive_place("s3://bucket/oplog.bson")
    ('/var/oplog.bson', 's3://bucket/oplog.bson')
    """
    return fspath(place) if is_object_store(place) else local_path(place, what)


def history_place(place: str | PathLike[str]) -> str:
    """The place of a history: a local path or the URL of an object store; `UsageError` for another scheme.

    >>> history_place("file:///var/history"), history_place("s3://bucket/history/")
    ('/var/history', 's3://bucket/history')
    """
    text = fspath(place)
    found = _URL.fullmatch(text)
    if found is None or found["scheme"].lower() == "file":
        return local_path(text)
    if is_object_store(text):
        bucket, _, prefix = found["rest"].partition("/")
        if not bucket or not prefix.strip("/"):
            raise UsageError(f"{text} names no folder of a bucket; write {found['scheme']}://BUCKET/FOLDER")
        return text.rstrip("/")
    known = ", ".join(f"{scheme}://" for scheme in ("file", *OBJECT_STORES))
    if found["scheme"].lower() in OBJECT_STORES:
        raise UsageError(f"{text} is no URL; write {found['scheme']}://BUCKET/FOLDER, as text")
    raise UsageError(f"a history cannot be in {text}; use a local folder, or one of {known}")


def refuse_data_of_others(folder: Path, what: str) -> None:
    """Raise `UsageError`, which calls the folder ``what``, for the data of another product."""
    for name, product in _OTHERS.items():
        if (folder / name).exists():
            raise UsageError(
                f"{what} {folder} has the file {name}, so it is that of {product}; name another directory"
            )
