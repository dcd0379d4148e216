"""Make random modifier updates that fit a document: `$set`, `$inc`, `$push` and others.

An update uses paths that the document has, so that most updates change something. The update compiler refuses
those that MongoDB would refuse; the caller then does something else.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from bson import Decimal128, Int64

from tests.support.documents import DocumentMaker

Path = tuple[str, Any]
"""Dotted path, and the value there."""


class ModifierMaker:
    def __init__(self, rng: random.Random, documents: DocumentMaker, *, repeatable: bool = False) -> None:
        """A ``repeatable`` update has the same effect at any time: none uses the current date."""
        self._rng = rng
        self._documents = documents
        self._kinds: tuple[Callable[[list[Path]], dict[str, Any] | None], ...] = (
            self._set, self._set, self._set_new, self._set_new, self._unset, self._unset, self._number,
            self._number, self._push, self._push, self._pull, self._rename, self._minimum, self._bits,
            self._minimum if repeatable else self._current_date, self._beyond_the_end,
        )  # fmt: skip

    def make(self, document: dict[str, Any]) -> dict[str, Any]:
        """An update of one to three modifiers on different top-level fields."""
        rng = self._rng
        paths = list(_paths(document, ""))
        spec: dict[str, Any] = {}
        used: set[str] = set()
        for _ in range(rng.randrange(1, 4)):
            made = rng.choice(self._kinds)(paths) or self._set_new(paths)
            for operator, arguments in made.items():
                for path, argument in arguments.items():
                    heads = {path.split(".")[0]}
                    if operator == "$rename":
                        heads.add(argument.split(".")[0])
                    if heads & used:
                        continue
                    used |= heads
                    spec.setdefault(operator, {})[path] = argument
        return spec

    def _pick(self, paths: list[Path], kind: type | tuple[type, ...] = object) -> Path | None:
        fitting = [path for path in paths if isinstance(path[1], kind) and not isinstance(path[1], bool)]
        return self._rng.choice(fitting) if fitting else None

    def _set(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths)
        return {"$set": {found[0]: self._documents.value(1)}} if found else None

    def _set_new(self, paths: list[Path]) -> dict[str, Any]:
        rng = self._rng
        parent = self._pick(paths, dict) if rng.random() < 0.5 else None
        name = f"n{rng.randrange(9)}"
        if rng.random() < 0.3:
            name = f"{name}.{rng.choice(('x', '0', 'x.y'))}"
        return {"$set": {f"{parent[0]}.{name}" if parent else name: self._documents.value(1)}}

    def _unset(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths)
        return {"$unset": {found[0]: ""}} if found else None

    def _number(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths, (int, float, Decimal128))
        if not found:
            return None
        amount = self._rng.choice((1, 2, -1, Int64(3), 0.5, Decimal128("1.5")))
        return {self._rng.choice(("$inc", "$mul")): {found[0]: amount}}

    def _push(self, paths: list[Path]) -> dict[str, Any] | None:
        rng = self._rng
        found = self._pick(paths, list)
        if not found:
            return None
        value = self._documents.value(1)
        if rng.random() < 0.3:
            return {"$addToSet": {found[0]: value}}
        if rng.random() < 0.5:
            return {"$push": {found[0]: value}}
        each: dict[str, Any] = {"$each": [value, rng.randrange(5)]}
        each |= rng.choice(({}, {"$position": 0}, {"$slice": 2}, {"$sort": -1}, {"$slice": -2, "$sort": 1}))
        return {"$push": {found[0]: each}}

    def _pull(self, paths: list[Path]) -> dict[str, Any] | None:
        rng = self._rng
        found = self._pick(paths, list)
        if not found:
            return None
        if rng.random() < 0.5:
            return {"$pop": {found[0]: rng.choice((1, -1))}}
        return {"$pull": {found[0]: {"$gte": rng.randrange(4)}}}

    def _rename(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths)
        if not found or any(part.isdigit() for part in found[0].split(".")):
            return None
        return {"$rename": {found[0]: f"r{self._rng.randrange(4)}"}}

    def _minimum(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths)
        operator = self._rng.choice(("$min", "$max"))
        return {operator: {found[0]: self._documents.scalar()}} if found else None

    def _bits(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths, int)
        operation = self._rng.choice(("and", "or", "xor"))
        return {"$bit": {found[0]: {operation: 6}}} if found else None

    def _current_date(self, _paths: list[Path]) -> dict[str, Any]:
        kind = self._rng.choice((True, {"$type": "date"}, {"$type": "timestamp"}))
        return {"$currentDate": {f"at{self._rng.randrange(3)}": kind}}

    def _beyond_the_end(self, paths: list[Path]) -> dict[str, Any] | None:
        found = self._pick(paths, list)
        if not found:
            return None
        return {"$set": {f"{found[0]}.{len(found[1]) + self._rng.randrange(3)}": self._documents.scalar()}}


def _paths(value: Any, prefix: str, depth: int = 0) -> Iterator[Path]:
    """Every path below ``value`` that a dotted name can reach, without `_id`."""
    if depth > 4:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in items:
        text = str(name)
        if not text or "." in text or text.startswith("$") or (not depth and text == "_id"):
            continue
        path = f"{prefix}{text}"
        yield path, inner
        if isinstance(inner, dict | list):
            yield from _paths(inner, f"{path}.", depth + 1)
