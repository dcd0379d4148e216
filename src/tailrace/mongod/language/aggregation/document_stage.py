"""Stages that process one document at a time, and how neighbours are joined."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.stage import Stage

Step: TypeAlias = Callable[[Row], Row | None]
"""From a row to the same row, another one, or None to drop it"""


class DocumentStage:
    """One or several consecutive stages that process one document at a time."""

    __slots__ = ("_steps",)

    def __init__(self, *steps: Step) -> None:
        self._steps = steps

    def followed_by(self, other: "DocumentStage") -> "DocumentStage":
        return DocumentStage(*self._steps, *other._steps)

    def __call__(self, rows: Rows) -> Rows:
        steps = self._steps
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            for step in steps:
                changed = step(row)
                if changed is None:
                    break
                row = changed
            else:
                yield row


def joined(stages: Iterable[Stage]) -> Iterator[Stage]:
    """The stages, with consecutive `DocumentStage`s joined into one: nested generators are slow in Python."""
    held: DocumentStage | None = None
    for stage in stages:
        if isinstance(stage, DocumentStage):
            held = stage if held is None else held.followed_by(stage)
            continue
        if held is not None:
            yield held
            held = None
        yield stage
    if held is not None:
        yield held
