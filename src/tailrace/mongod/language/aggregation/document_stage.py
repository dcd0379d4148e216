"""Stages that look at one document at a time, and their joining."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.stage import Stage

Step: TypeAlias = Callable[[Row], Row | None]
"""What becomes of a row: itself, another one, or nothing."""


class DocumentStage:
    """A stage, or several one after the other, that look at one document at a time."""

    __slots__ = ("_steps",)

    def __init__(self, *steps: Step) -> None:
        self._steps = steps

    def followed_by(self, other: "DocumentStage") -> "DocumentStage":
        """Both as one."""
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
    """The same stages; neighbours that look at single documents are one, as deep calls are few in Python."""
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
