"""Events for the eye: one line each, as the tours print them."""

import json
import shutil
from collections.abc import Mapping
from typing import Any, Final

_NARROWEST: Final = 60


def event_line(event: Mapping[str, Any]) -> str:
    """What happened, where, to what.

    >>> event_line({"operationType": "drop", "ns": {"db": "shop", "coll": "orders"}})
    '  drop                        shop.orders'
    """
    namespace = ".".join(event.get("ns", {}).values())
    kind = event["operationType"] + (" (in a transaction)" if "txnNumber" in event else "")
    return shortened(f"  {kind:<27} {namespace:<16} {_detail(event)}")


def shortened(line: str) -> str:
    """Cut to the terminal's width; in a pipe, to a width that reads well."""
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
