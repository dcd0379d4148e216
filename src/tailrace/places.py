"""Tell local paths from the URLs of object stores.

Text such as ``s3://bucket/prefix`` is never a local path: a folder called ``s3:`` would be created beside the
user, and the data would be on the wrong machine.
"""

import re
from os import PathLike, fspath
from typing import Final
from urllib.parse import unquote

from tailrace.errors import UsageError

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<slashes>/+)(?P<rest>.*)", re.DOTALL)
_THIS_HOST: Final = ("", "localhost")


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


def history_place(place: str | PathLike[str]) -> str:
    """The folder of a history; `UsageError` for a place that is not on this machine.

    >>> history_place("file:///var/history"), history_place("history")
    ('/var/history', 'history')
    """
    found = _URL.fullmatch(fspath(place))
    if found is None or found["scheme"].lower() == "file":
        return local_path(place)
    raise UsageError(f"a history cannot be in {fspath(place)}; use a folder of this machine")
