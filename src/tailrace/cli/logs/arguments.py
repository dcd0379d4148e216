"""The options for the log."""

import argparse
from typing import Final

from tailrace.log_lines import LEVELS

JSON: Final = "json"
TEXT: Final = "text"
AUTO: Final = "auto"


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="lowest level that is logged to standard error; default: info",
    )
    parser.add_argument(
        "--log-format",
        choices=[AUTO, JSON, TEXT],
        default=AUTO,
        help="lines of JSON, which then an error at the end is, too, or lines for people; default: text on a "
        "terminal, else JSON",
    )
