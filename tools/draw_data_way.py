"""Draw `docs/images/data-way.svg`: the way of a change from a write to every kind of reader.

`python tools/draw_data_way.py` writes the picture, with `-` to standard output.
Boxes are folders of `src/tailrace`, arrows are data.
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

TARGET: Final = Path(__file__).parents[1] / "docs" / "images" / "data-way.svg"
WIDTH, HEIGHT = 1040, 600
HEART, EMULATED, OUTSIDE = "heart", "emulated", "outside"
STYLE: Final = """
  text { font-family: ui-sans-serif, system-ui, sans-serif; font-size: 13px; fill: #1f2937 }
  .title { font-weight: 600; font-size: 14px }
  .small { font-size: 11.5px; fill: #4b5563 }
  rect { rx: 8px; stroke-width: 1.5px }
  .heart { fill: #e0f2fe; stroke: #0284c7 }
  .emulated { fill: #f3f4f6; stroke: #9ca3af }
  .outside { fill: #fff7ed; stroke: #ea580c }
  .band { fill: none; stroke: #cbd5e1; stroke-dasharray: 5 4 }
  path { stroke: #475569; stroke-width: 1.6px; fill: none; marker-end: url(#head) }
""".strip("\n")


class Box(NamedTuple):
    """A rectangle with a title and lines of small text."""

    x: int
    y: int
    width: int
    height: int
    kind: str
    title: str
    lines: tuple[str, ...] = ()

    def svg(self) -> str:
        middle = self.x + self.width / 2
        parts = [
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"/>',
            f'<text class="title" text-anchor="middle" x="{middle:g}" y="{self.y + 22}">{escape(self.title)}</text>',
        ]
        parts += [
            f'<text class="small" text-anchor="middle" x="{middle:g}" y="{self.y + 40 + 16 * number}">{escape(line)}</text>'
            for number, line in enumerate(self.lines)
        ]
        return "\n".join(parts)


class Arrow(NamedTuple):
    """A path of straight lines, with a label beside its middle."""

    points: tuple[tuple[int, int], ...]
    label: str = ""
    label_at: tuple[int, int] = (0, 0)

    def svg(self) -> str:
        path = " L ".join(f"{x} {y}" for x, y in self.points)
        text = (
            f'<text class="small" x="{self.label_at[0]}" y="{self.label_at[1]}">{escape(self.label)}</text>'
        )
        return f'<path d="M {path}"/>' + (f"\n{text}" if self.label else "")


BOXES: Final = (
    Box(20, 60, 190, 64, OUTSIDE, "any MongoDB driver", ("writes, transactions, watch",)),
    Box(20, 190, 190, 64, OUTSIDE, "a real deployment", ("replica set, sharded cluster",)),
    Box(20, 400, 190, 64, OUTSIDE, "archived oplogs", (".bson, gzip, Extended JSON",)),
    Box(250, 52, 200, 80, EMULATED, "mongod/server, cluster", ("dispatch, commands, sessions", "mongod/wire: the protocol")),
    Box(250, 176, 200, 80, EMULATED, "mongod/store", ("documents, indexes, pre-images", "and the oplog, one commit")),
    Box(250, 392, 200, 80, HEART, "sources", ("deployments/, archives/", "raw entries by cluster time")),
    Box(490, 370, 240, 124, HEART, "pipeline, spark", ("events/stages, the shared part:", "unwind, transform, pre-images,", "one order over all shards", "bulk rows (lake/bulk)")),
    Box(770, 370, 250, 124, HEART, "lake", ("the history: a Delta table of", "every canonical event, in order,", "committed exactly once")),
    Box(490, 176, 240, 80, HEART, "log: head", ("newest entries, in memory", "the same shared part")),
    Box(770, 176, 250, 80, HEART, "log: history + head", ("one sequence of events,", "addressed by resume token")),
    Box(490, 52, 530, 80, HEART, "log/stream: events/stages, the view part, one for each stream", ("scope, invalidate, resume check, images, user stages, split", "query: $match, expressions, reshaping")),
    Box(770, 520, 250, 60, OUTSIDE, "DuckDB, Polars, Spark SQL", ("read the table as it is",)),
    Box(490, 520, 240, 60, OUTSIDE, "Spark DataFrames", ('format("tailrace"), replay',)),
)  # fmt: skip
ARROWS: Final = (
    Arrow(((210, 82), (248, 82))),
    Arrow(((250, 104), (212, 104))),
    Arrow(((350, 132), (350, 174)), "job", (358, 162)),
    Arrow(((450, 222), (488, 222)), "entries", (452, 214)),
    Arrow(((210, 222), (228, 222), (228, 420), (248, 420)), "oplog", (180, 330)),
    Arrow(((210, 432), (248, 432))),
    Arrow(((350, 256), (350, 390)), "oplog", (358, 330)),
    Arrow(((450, 432), (488, 432))),
    Arrow(((730, 432), (768, 432)), "rows", (735, 424)),
    Arrow(((730, 222), (768, 222)), "items", (732, 214)),
    Arrow(((895, 370), (895, 258)), "any event, however old", (903, 324)),
    Arrow(((895, 176), (895, 134)), "canonical events", (903, 164)),
    Arrow(((490, 92), (452, 92)), "events", (452, 84)),
    Arrow(((895, 494), (895, 518))),
    Arrow(((610, 494), (610, 518)), "view part by interval", (618, 511)),
)


def drawing() -> str:
    """The picture as text."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="The way of a change through Tailrace">',
        f"<style>\n{STYLE}\n</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z" style="fill: #475569; stroke: none; marker-end: none"/></marker></defs>',
        f'<rect x="0" y="0" width="{WIDTH}" height="{HEIGHT}" style="fill: #ffffff; stroke: none; rx: 0"/>',
        '<text class="title" x="20" y="26">One change, from its write to every reader</text>',
        '<text class="small" x="490" y="26">blue: the heart · grey: the emulated MongoDB · orange: outside</text>',
        *(box.svg() for box in BOXES),
        *(arrow.svg() for arrow in ARROWS),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(drawing())
    else:
        TARGET.write_text(drawing())
