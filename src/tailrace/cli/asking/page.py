"""What the page of a `tailrace serve` or a `tailrace pipeline` shows, asked for by HTTP."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tailrace.cli.asking.deployment import Deployment
from tailrace.cli.asking.history import HistoryFacts
from tailrace.cli.asking.oplog import ShardOplog
from tailrace.cli.asking.streams import OpenStream
from tailrace.errors import SourceUnavailableError, UsageError
from tailrace.sources.log_window import LogWindow

_SCHEMES: Final = ("http://", "https://")
_SECONDS: Final = 30.0
_WHOLE_DEPLOYMENT, _DATABASE = "deployment", "database"

State = Mapping[str, Any]
"""The answer of `/api/state`, or a part of it."""


def is_page(place: str) -> bool:
    return place.startswith(_SCHEMES)


def user_of_page(url: str) -> str | None:
    """The user that an address names, as in ``http://operator@127.0.0.1:27080``."""
    parts = _split(url)
    if parts.password is not None:
        raise UsageError("leave the password out of the address of the page, and use --password-file FILE")
    return None if parts.username is None else unquote(parts.username)


def _split(url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port  # which is checked now
    except ValueError as error:
        raise UsageError(f"{url} is not the address of a page: {error}") from None
    return parts


def ask_page(url: str, login: tuple[str, str] | None, now: float) -> Deployment:
    """Raises `SourceUnavailableError` if nobody answers, `UsageError` if it is no page of Tailrace.

    ``login`` are the name and the password of a user, who is in the database `admin`.
    """
    state = _state(url, login)
    try:
        return _described(state, now)
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{url} is not the page of a tailrace serve or pipeline") from None


def _state(url: str, login: tuple[str, str] | None) -> Any:
    parts = _split(url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    request = urllib.request.Request(f"{place}/api/state")
    if login is not None:
        text = base64.b64encode(":".join(login).encode()).decode()
        request.add_header("Authorization", f"Basic {text}")
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(place, error, login) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise SourceUnavailableError(
            f"the page at {place} cannot be reached: {reason}; is it running, and is the address right?"
        ) from None


def _refusal(place: str, error: urllib.error.HTTPError, login: tuple[str, str] | None) -> UsageError:
    if error.code in (401, 403) and login is not None:
        need = "its password is right" if error.code == 401 else "it has the role clusterMonitor"
        return UsageError(f"the page at {place} refuses the user {login[0]}; see whether {need}")
    if error.code in (401, 403):
        return UsageError(
            f"the page at {place} asks for a user with the role clusterMonitor; name one in the address, as "
            "in http://USER@HOST:PORT, and use --password-file FILE"
        )
    return UsageError(f"{place} answers with {error.code}; is it the page of a tailrace serve or pipeline?")


def _described(state: State, now: float) -> Deployment:
    shown = state["deployment"]
    nodes = shown["nodes"]
    newest = max((node["oplog"]["newest"] for node in nodes if node["oplog"] is not None), default=0.0)
    named = f"{shown['kind']} {shown['name']}".strip()
    version = f"MongoDB {shown['version']}" if shown["version"] else "the deployment"
    return Deployment(
        name=f"tailrace {state['command']} of {version}" if nodes else f"tailrace {state['command']}",
        kind=named,
        uptime=float(shown["uptime"]),
        is_ours=state["command"] == "serve",
        error=shown["error"],
        members=[(node["address"], _node_state(node)) for node in nodes],
        oplogs=[_oplog(node) for node in nodes if node["oplog"] is not None],
        streams=[_stream(stream, newest, now) for stream in state["streams"]["shown"]],
        groups=None,
        pipeline=state["pipeline"],
        history=_history(state["history"]),
        has_history=state["history"] is not None,
    )


def _node_state(node: State) -> str:
    if node["error"]:
        return "unreachable"
    return "SHARD" if node["shard"] else str(node["role"]).upper()


def _oplog(node: State) -> ShardOplog:
    names = {field.name for field in fields(LogWindow)}
    window = LogWindow(**{name: value for name, value in node["oplog"].items() if name in names})
    return ShardOplog(node["shard"] or "", int(window.oldest) << 32, None, window)


def _stream(shown: State, newest: float, now: float) -> OpenStream:
    names = {_WHOLE_DEPLOYMENT: "everything", _DATABASE: f"{shown['ns']}.*"}
    asked = min(float(shown["asked"]), now)
    position = asked if shown["position"] is None else float(shown["position"])
    lag = max(newest - position, 0.0) if shown["lag"] is None else float(shown["lag"])
    return OpenStream(
        names.get(shown["scope"], str(shown["ns"])),
        shown["client"] or None,
        shown["events"],
        asked=asked,
        position=position,
        is_exact=shown["position"] is not None,
        lag_seconds=lag,
        stays_seconds=shown["oplog_left"],
        resumed=None,
    )


def _history(shown: State | None) -> HistoryFacts | None:
    if shown is None or not shown["exists"]:
        return None
    return HistoryFacts(
        shown["place"],
        int(shown["begins"]) << 32,
        int(shown["through"]) << 32,
        shown["events"],
        shown["files"],
        shown["bytes"],
        float(shown.get("lagSeconds", 0)),
    )
