"""What is wrong with a sink: counts of faults by kind, and the smallest example of each."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tailrace.bson import documents
from tailrace.bson.extjson import dumps_canonical


class FaultKind(StrEnum):
    MISSING = "missing"
    """The source has it, and the sink has not."""
    UNEXPECTED = "unexpected"
    """The sink has it, and the source has not."""
    DOUBLED = "doubled"
    """The sink has it more than once."""
    REORDERED = "reordered"
    """The sink has it before something that precedes it."""
    DIFFERENT = "different"
    """The sink has it with another content."""


@dataclass(frozen=True, slots=True)
class Example:
    """One fault."""

    name: str
    """The token of an event, or the `_id` of a document as Extended JSON."""
    expected: bytes | None
    found: bytes | None
    path: str | None = None
    """The first field that differs."""
    before: tuple[bytes, ...] = ()
    """The events that led to it, oldest first."""

    @property
    def size(self) -> int:
        return len(self.expected or b"") + len(self.found or b"")


@dataclass(slots=True)
class Report:
    """The result of a comparison."""

    compared: int = 0
    """Events or documents of the source."""
    counts: dict[FaultKind, int] = field(default_factory=dict)
    examples: dict[FaultKind, Example] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return not self.counts

    def add(self, kind: FaultKind, example: Example) -> None:
        """Count a fault; the smallest example of a kind stays."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        known = self.examples.get(kind)
        if known is None or example.size < known.size:
            self.examples[kind] = example

    def as_json(self) -> dict[str, Any]:
        return {
            "compared": self.compared,
            "faults": {kind.value: count for kind, count in self.counts.items()},
            "examples": {
                kind.value: {
                    "of": example.name,
                    "expected": _text(example.expected),
                    "found": _text(example.found),
                    "path": example.path,
                    "before": [_text(raw) for raw in example.before],
                }
                for kind, example in self.examples.items()
            },
        }


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else dumps_canonical(raw)


def first_difference(expected: bytes, found: bytes) -> str | None:
    """The path of the first field that differs; the order of fields counts, and so do types.

    >>> first_difference(documents.encode({"a": {"b": 1, "c": 2}}), documents.encode({"a": {"b": 1, "c": 3}}))
    'a.c'
    >>> first_difference(documents.encode({"a": 1}), documents.encode({"a": 1, "b": 2}))
    'b'
    """
    return _difference(documents.decode(expected), documents.decode(found), "")


def _difference(expected: Any, found: Any, path: str) -> str | None:
    if isinstance(expected, list) and isinstance(found, list):
        expected, found = dict(enumerate(expected)), dict(enumerate(found))
    if not isinstance(expected, dict) or not isinstance(found, dict):
        one, other = (documents.encode({"": value}) for value in (expected, found))
        return None if one == other else path
    for (name, value), (other_name, other_value) in zip(expected.items(), found.items(), strict=False):
        inner = f"{path}.{name}".lstrip(".")
        if name != other_name:
            return inner
        if (difference := _difference(value, other_value, inner)) is not None:
            return difference
    longer = expected if len(expected) > len(found) else found
    left = list(longer)[min(len(expected), len(found)) :]
    return f"{path}.{left[0]}".lstrip(".") if left else None
