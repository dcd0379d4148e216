"""The console script `tailrace`: the place where errors become sentences.

A command (`commands.py`) raises what it cannot handle; `main` turns the error into one line on standard error
and an exit code:

==== ====================================================================================================
0    success; also a stream that ended because it was invalidated
1    a file is damaged, or the stream failed after it was opened; the output before that was written
2    the command line, a file given to it, or the stream's options are wrong; nothing was written
130  interrupted from the keyboard
141  the reader of the output has gone (as if ended by SIGPIPE)
==== ====================================================================================================
"""

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tailrace
from tailrace.cli.commands import COMMANDS, all_option_names, command_named, parser_of
from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.cli.logs.arguments import JSON
from tailrace.cli.settings.option import nearest
from tailrace.cli.settings.parser import Parser
from tailrace.cli.spark_needs import PACKAGES
from tailrace.errors import CommandError, TailraceError, UsageError, missing_package
from tailrace.log_lines import ENDED, LineFormatter, fields

FAILED: Final = 1
USED_WRONGLY: Final = 2
INTERRUPTED: Final = 130
NO_READER: Final = 141
_LOGGER: Final = "tailrace.control"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    reporter = _Reporter()
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv), reporter)
        if sys.stdout is not None:  # it is None for a process started with its output closed
            with writing_to(STANDARD_OUTPUT):
                sys.stdout.flush()
    except (UsageError, CommandError) as error:
        return reporter.report(error, USED_WRONGLY)
    except TailraceError as error:
        return reporter.report(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return NO_READER
    except OSError as error:
        _abandon_output()
        place = f" {error.filename}" if error.filename else ""
        return reporter.report(f"cannot read or write{place}: {error.strerror or error}", FAILED)
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            return reporter.report(_internal(error), FAILED)
        return reporter.report(missing_package("this command", error), USED_WRONGLY)
    except Exception as error:
        return reporter.report(_internal(error), FAILED)
    return code


def _run(argv: list[str], reporter: "_Reporter") -> int:
    try:
        return _dispatch(argv, reporter)
    except SystemExit as end:  # argparse ends like this after --help and --version
        return int(end.code or 0)


def _dispatch(argv: list[str], reporter: "_Reporter") -> int:
    for text in argv:
        # argparse reads this as the end of the options, and the option gets no value.
        if text.startswith("--") and text.endswith("=--"):
            raise UsageError(f"{text.removesuffix('=--')} has no value; see `tailrace --help`")
    if argv and argv[0] in COMMANDS:
        arguments = parser_of(argv[0]).read(argv[1:], os.environ, COMMANDS, all_option_names)
        reporter.as_json = getattr(arguments, "log_format", None) == JSON
        return command_named(argv[0]).run(arguments)
    if argv and not argv[0].startswith("-"):
        hint = nearest(argv[0], list(COMMANDS)) or f"; there are: {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command {argv[0]}{hint}")
    _overview(with_commands="-h" in argv or "--help" in argv).parse_args(argv)
    raise UsageError("no command was given; see `tailrace --help`")


def _overview(*, with_commands: bool) -> argparse.ArgumentParser:
    """The parser of a command line that names no command."""
    parser = Parser(
        prog="tailrace",
        usage="tailrace COMMAND ...",
        description="MongoDB change streams in Python: oplogs in, change streams out.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tailrace {tailrace.__version__}")
    if with_commands:
        lines = [f"  {name:<12}{command_named(name).HELP}" for name in COMMANDS]
        parser.epilog = "\n".join(
            ["commands:", *lines, "", "`tailrace COMMAND --help` lists the options of a command."]
        )
    return parser


def _abandon_output() -> None:
    """Redirect standard output: Python flushes it again at exit, which must not fail a second time."""
    if sys.stdout is None:
        return
    with suppress(OSError):  # a caller may have replaced standard output by an object without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(slots=True)
class _Reporter:
    """Print an error as one line, if standard error is open."""

    as_json: bool = False
    """As a line of the log, for a command whose log is JSON."""

    def report(self, error: Exception | str, code: int) -> int:
        """Return the exit code."""
        sentence = " ".join(str(error).split())
        if self.as_json:
            extra = fields(error=sentence, exitCode=code)
            record = logging.makeLogRecord({"name": _LOGGER, "levelno": logging.ERROR, "msg": ENDED, **extra})
            line = LineFormatter().format(record)
        else:
            line = f"tailrace: {sentence}"
        if sys.stderr is not None:
            with suppress(OSError):
                print(line, file=sys.stderr)
        return code


def _internal(error: Exception) -> str:
    """The sentence for a fault in Tailrace: what happened and where."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"internal error, please report it: {type(error).__name__}: {error} "
        f"(at {Path(frame.filename).name}:{frame.lineno})"
    )
