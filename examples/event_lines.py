"""Shared by the tours: print events as lines, run commands."""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from bson.json_util import JSONOptions, loads

_AS_DRIVER: Final = JSONOptions(tz_aware=False)
_NARROWEST: Final = 60


def run_tailrace(*arguments: object) -> int:
    """Print a command and run it; return its exit code."""
    words = [str(argument) for argument in arguments]
    print(f"$ tailrace {shlex.join(words)}", flush=True)
    return subprocess.run([sys.executable, "-m", "tailrace", *words], check=False).returncode


def parse_line(line: str) -> dict[str, Any]:
    """Decode a line of Extended JSON to the types that PyMongo returns."""
    event: dict[str, Any] = loads(line, json_options=_AS_DRIVER)
    return event


def event_line(event: Mapping[str, Any]) -> str:
    """One line about an event: its type, its namespace, its document.

    >>> event_line({"operationType": "drop", "ns": {"db": "shop", "coll": "orders"}})
    '  drop                        shop.orders'
    """
    namespace = ".".join(event.get("ns", {}).values())
    kind = event["operationType"] + (" (in a transaction)" if "txnNumber" in event else "")
    return shortened(f"  {kind:<27} {namespace:<16} {_detail(event)}")


def shortened(line: str) -> str:
    """Cut a line to the terminal's width, or to 110 characters in a pipe."""
    width = max(shutil.get_terminal_size((110, 24)).columns, _NARROWEST)
    return line.rstrip() if len(line) <= width else f"{line[: width - 3]}..."


def _detail(event: Mapping[str, Any]) -> str:
    for name in ("to", "updateDescription", "fullDocument", "documentKey", "operationDescription"):
        if name in event:
            shown = event[name]
            if name == "updateDescription":
                shown = {part: value for part, value in shown.items() if value}
                return f"_id {_text(event['documentKey']['_id'])}: {_text(shown)}"
            return f"{'to ' if name == 'to' else ''}{_text(shown)}"
    return ""


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
