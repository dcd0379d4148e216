"""Write log records as MongoDB's log does: one JSON object per line.

Everything logs through the standard `logging` module, to loggers below ``tailrace``. The component of a line
is the last part of the logger's name, its further fields come from `fields`:

>>> import io
>>> out = io.StringIO()
>>> handler = LineHandler(out)
>>> log = logging.Logger("tailrace.pipeline", LEVELS["info"])
>>> log.addHandler(handler)
>>> log.info("Progress", extra=fields(rows=7))
>>> line = parse_line(out.getvalue())
>>> line.level, line.component, line.message, line.attributes
('info', 'PIPELINE', 'Progress', {'rows': 7})

Tools that read a mongod's log read these lines. `TextFormatter` writes lines for people.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_SEVERITIES: Final = {"debug": "D1", "info": "I", "warning": "W", "error": "E"}
_LEVELS_BY_LETTER: Final = {severity[0]: level for level, severity in _SEVERITIES.items()}
_NO_CONTEXT: Final = "-"
ENDED: Final = "Ended with an error"
"""The message of the last line of a process that failed; its field `error` is the sentence."""


def fields(context: str = _NO_CONTEXT, component: str | None = None, /, **attributes: Any) -> dict[str, Any]:
    """The ``extra`` of a record: attributes of its line, and the thread or connection it is about.

    ``component`` replaces the one that the logger's name gives.
    """
    return {"context": context, "component": component, "attributes": attributes}


class LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        component = getattr(record, "component", None) or record.name.rpartition(".")[2].upper()
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "t": {"$date": moment.isoformat(timespec="milliseconds")},
            "s": _SEVERITIES[_level_of(record.levelno)],
            "c": component,
            "ctx": getattr(record, "context", _NO_CONTEXT),
            "msg": record.getMessage(),
        }
        attributes = getattr(record, "attributes", None)
        if attributes:
            line["attr"] = attributes
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Lines for a terminal: time of day, severity, component, message, fields."""

    def format(self, record: logging.LogRecord) -> str:
        component = getattr(record, "component", None) or record.name.rpartition(".")[2].upper()
        moment = datetime.fromtimestamp(record.created).astimezone()
        severity = _level_of(record.levelno).upper()
        attributes = getattr(record, "attributes", None) or {}
        shown = "".join(f"  {name}={_short(value)}" for name, value in attributes.items())
        return f"{moment:%H:%M:%S} {severity:<7} {component:<9} {record.getMessage()}{shown}"


def _short(value: Any) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, default=str)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream. A stream that nobody reads any more is no reason to stop working."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter | None = None) -> None:
        """Lines are JSON, unless another ``formatter`` is given."""
        super().__init__(stream)
        self.setFormatter(formatter or LineFormatter())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in `logging`
        pass


@contextmanager
def logging_to(handler: logging.Handler, level: str) -> Iterator[None]:
    """Pass what Tailrace logs from a level on to a handler, and nowhere else, until the block ends."""
    log = logging.getLogger("tailrace")
    before = log.level, log.propagate
    log.setLevel(LEVELS[level])
    log.propagate = False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


@dataclass(frozen=True, slots=True)
class LogLine:
    level: str
    component: str
    message: str
    context: str
    attributes: dict[str, Any]


def parse_line(text: str) -> LogLine | None:
    """Read a line that `LineFormatter` or a mongod wrote; None for any other text."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or not {"s", "c", "msg"} <= found.keys():
        return None
    attributes = found.get("attr", {})
    if not isinstance(attributes, dict):
        return None
    level = _LEVELS_BY_LETTER.get(str(found["s"])[:1], "info")
    return LogLine(level, found["c"], found["msg"], found.get("ctx", _NO_CONTEXT), attributes)


def _level_of(number: int) -> str:
    """The name of the highest level that is not above a number."""
    return next((name for name in reversed(LEVELS) if LEVELS[name] <= number), "debug")
