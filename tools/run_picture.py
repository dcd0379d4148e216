"""``python -m tools.run_picture``: run the tour of `make run`, and draw what it prints as docs/images/run.svg.

Takes about a minute. The command lines are bold, the resume tokens grey. The picture loads nothing from elsewhere.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.text import Text

TARGET: Final = Path(__file__).parents[1] / "docs" / "images" / "run.svg"
COLUMNS: Final = 100
_FORMAT: Final = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="make run">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_TOKEN: Final = re.compile(r" {4}[0-9A-F]{40}")


def output() -> list[str]:
    """What the tour prints, with short names of its folder."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "examples.demo", folder],
            env=os.environ | {"COLUMNS": str(COLUMNS)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout.replace(f"{folder}/", "").splitlines()


def draw(lines: Sequence[str]) -> str:
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, legacy_windows=False)
        for line in ["$ make run", *lines]:
            style = "bold" if line.startswith("$ ") else "dim" if _TOKEN.match(line) else ""
            console.print(Text(line, style), overflow="ellipsis", no_wrap=True)
        return console.export_svg(title="Tailrace", code_format=_FORMAT)


if __name__ == "__main__":
    TARGET.write_text(draw(output()))
