"""Standard error as a log: every line of this process, of its libraries and of its children has one form.

Java, Spark's workers and libraries write text to file descriptor 2. While the log is JSON, that descriptor is
a pipe, and a thread turns what arrives into lines of the log; the log's own lines do not take that way.
"""

import logging
import os
import re
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from tailrace.cli.logs.arguments import AUTO, TEXT
from tailrace.log_lines import LEVELS, LineHandler, TextFormatter, fields, parse_line

_DESCRIPTOR: Final = 2
_CHUNK: Final = 1 << 16
_SECONDS_TO_DRAIN: Final = 0.5
_SECONDS_BETWEEN: Final = 0.02
"""Text that follows within this time belongs to the same line of the log, as the lines of a traceback."""
_OURS: Final = "tailrace"
_FOREIGN: Final = "tailrace.spark"
_SEVERITY: Final = re.compile(r"\b(DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b")
_LEVEL_OF: Final = {"DEBUG": "debug", "INFO": "info", "WARN": "warning", "WARNING": "warning"}
_CHATTER: Final = re.compile(
    r"Using incubator modules|Setting default log level|To adjust logging level"
    r"|daemon\.py\", line(?:(?!\n  File ).)*?\n(?:BrokenPipeError|ConnectionResetError)"
    r"|exception while executing the Python Proxy",
    re.DOTALL,
)
"""What Java and Spark write at every start; a worker of Spark whose reader has ended, where the last frame is
that of PySpark's daemon; and that a function which Spark called has failed: the query ends with that, and
says why"""
_ERROR: Final = re.compile(r"Traceback|Exception|Error\b")


@contextmanager
def log_output(form: str, level: str) -> Iterator[logging.Handler]:
    """Yield a handler that writes to standard error until the block ends.

    ``level`` is the lowest of lines that were not logged, but written by others.
    """
    stream = sys.stderr
    is_terminal = stream is not None and stream.isatty()
    if form == TEXT or (form == AUTO and is_terminal):
        text = LineHandler(stream, TextFormatter())
        with _others_to(text):
            yield text
    elif stream is None or not _is_descriptor(stream):
        yield LineHandler(stream)
    else:
        with _only_lines(level) as handler, _others_to(handler):
            yield handler


def _is_descriptor(stream: TextIO) -> bool:
    try:
        return stream.fileno() == _DESCRIPTOR
    except (OSError, ValueError):
        return False


@contextmanager
def _others_to(handler: logging.Handler) -> Iterator[None]:
    """Pass what other packages log to the handler; our loggers have handlers of their own."""
    others = _Others(handler)
    root = logging.getLogger()
    root.addHandler(others)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(others)


class _AboveLevel(logging.Handler):
    """Passes records from a level on."""

    def __init__(self, handler: logging.Handler, level: str) -> None:
        super().__init__(LEVELS[level])
        self._handler = handler

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= self.level:
            self._handler.handle(record)


class _Others(logging.Handler):
    def __init__(self, handler: logging.Handler) -> None:
        super().__init__(logging.WARNING)
        self._handler = handler

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != _OURS and not _CHATTER.search(record.getMessage()):
            self._handler.handle(record)


@contextmanager
def _only_lines(level: str) -> Iterator[logging.Handler]:
    sys.stderr.flush()
    original = os.dup(_DESCRIPTOR)
    reading, writing = os.pipe()
    os.dup2(writing, _DESCRIPTOR)
    os.close(writing)
    out = os.fdopen(original, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    handler = LineHandler(out)
    pump = threading.Thread(
        target=_pump, args=(reading, _AboveLevel(handler, level)), name="tailrace-log", daemon=True
    )
    pump.start()
    try:
        yield handler
    finally:
        sys.stderr.flush()
        os.dup2(original, _DESCRIPTOR)
        # A child that is still ending has the pipe open, so there may be no end of it.
        pump.join(_SECONDS_TO_DRAIN)


def _pump(reading: int, handler: logging.Handler) -> None:
    rest = b""
    while chunk := os.read(reading, _CHUNK):
        while len(chunk) < _CHUNK and select.select([reading], [], [], _SECONDS_BETWEEN)[0]:
            more = os.read(reading, _CHUNK)
            if not more:
                break
            chunk += more
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        _log(lines, handler)
    _log([rest], handler)


def _log(lines: list[bytes], handler: logging.Handler) -> None:
    """Log text; the lines of a traceback are one record. What is a line of a log keeps its fields."""
    text: list[str] = []
    for line in [line.decode(errors="replace").rstrip() for line in lines]:
        parsed = parse_line(line)
        if parsed is not None:
            extra = fields(parsed.context, parsed.component, **parsed.attributes)
            _emit(handler, parsed.level, parsed.message, extra)
        elif text and _continues(line, text):
            text.append(line)
        elif line:
            _emit_text(handler, text)
            text = [line]
    _emit_text(handler, text)


def _continues(line: str, text: list[str]) -> bool:
    """Whether a line belongs to the text before it: it is indented, or ends a traceback of Python's."""
    ends_traceback = text[0].startswith("Traceback") and text[-1].startswith((" ", "Traceback"))
    return line.startswith((" ", "\t", "Caused by")) or ends_traceback


def _emit_text(handler: logging.Handler, text: list[str]) -> None:
    if text:
        further = fields(text="\n".join(text[1:])) if len(text) > 1 else fields()
        _emit(handler, _level_of("\n".join(text)), text[0], further)


def _level_of(text: str) -> str:
    if _CHATTER.search(text):
        return "debug"
    found = _SEVERITY.search(text.partition("\n")[0])
    if found is not None:
        return _LEVEL_OF.get(found[1], "error")
    return "error" if _ERROR.search(text) else "info"


def _emit(handler: logging.Handler, level: str, message: str, extra: dict[str, object]) -> None:
    record = logging.makeLogRecord(
        {"name": _FOREIGN, "levelno": LEVELS[level], "msg": message, "args": (), **extra}
    )
    handler.handle(record)
