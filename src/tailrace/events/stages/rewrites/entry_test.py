"""A filter on oplog entries, decided by as little of an entry as possible.

Most entries that a selective filter drops are dropped without being decoded. What its head shows, `op` and
`ns`, is put into the filter once for all entries with that head; so is whether it has an `o._id` and an
`o2`, which tell replacements from updates. Of what is left, the bytes of the entry often show that it cannot
match (`query/match/needles.py`). Only an entry that may match is decoded.

>>> filter = {"$or": [{"op": "d"}, {"op": "i", "o.size": {"$gt": 5}}]}
>>> [partly(filter, {"op": op}) for op in "dui"]
[True, False, {'$or': [{'o.size': {'$gt': 5}}]}]
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import Head, OplogEntry
from tailrace.query.match import compile_match

Filter: TypeAlias = Mapping[str, Any]
Facts: TypeAlias = dict[str, Any]
"""Values of top-level fields; a fact about a path below `o` is about `$exists` only."""

_EXISTENCE: Final = ({"$exists": True}, {"$exists": False})
_ID: Final = "o._id"
_KEY: Final = "o2"
_DOCUMENT_CHANGES: Final = "iud"
_VIEWS: Final = b".system.views\0"


def partly(conditions: Filter, facts: Facts) -> bool | dict[str, Any]:
    """Return what is left of a filter on entries with these facts: a decision, or another filter."""
    left: dict[str, Any] = {}
    for name, condition in conditions.items():
        if name in ("$and", "$or", "$nor"):
            found = _combined(name, condition, facts)
        elif name in facts and name in ("op", "ns"):
            found = compile_match({name: condition})({name: facts[name]})
        elif name in facts and condition in _EXISTENCE:
            found = facts[name] is condition["$exists"]
        else:
            found = {name: condition}
        if found is False:
            return False
        if found is not True:
            left.update(found)
    return left or True


def _combined(name: str, branches: list[Filter], facts: Facts) -> bool | dict[str, Any]:
    """The same for a combination of filters."""
    parts = [partly(branch, facts) for branch in branches]
    decisive = name != "$and"
    if decisive in parts:
        return name == "$or"
    left = [part for part in parts if not isinstance(part, bool)]
    return {name: left} if left else name != "$or"


class EntryTest:
    """Whether an entry passes a filter."""

    def __init__(self, conditions: Filter) -> None:
        self._conditions = conditions
        self._by_head: dict[Head, bool | None] = {}
        self._rests: dict[tuple[str, str, bool, bool], _Rest | bool] = {}

    def of_head(self, head: Head) -> bool | None:
        """Decide for all entries with this head; None if it does not decide."""
        if head in self._by_head:
            return self._by_head[head]
        found = True if head.holds_views else partly(self._conditions, {"op": head.op, "ns": head.ns})
        return remember(self._by_head, head, found if isinstance(found, bool) else None)

    @cached_property
    def _by_op(self) -> "dict[int, _Rest | bool]":
        return {ord(op): _Rest.of(partly(self._conditions, {"op": op})) for op in _DOCUMENT_CHANGES}

    @cached_property
    def _needles(self) -> frozenset[bytes] | None:
        return _needles_of_all(self._by_op.values())

    def places(self, raw: bytes) -> list[int] | None:
        """Where in some document changes the bytes are that each one that passes contains, in order.

        None if that is not known.
        """
        if self._needles is None:
            return None
        places: list[int] = []
        for needle in self._needles:
            place = raw.find(needle)
            while place >= 0:
                places.append(place)
                place = raw.find(needle, place + 1)
        places.sort()
        return places

    @cached_property
    def knows_bytes(self) -> bool:
        """Whether `may_pass` can be False."""
        return any(rest is False or (rest is not True and rest.needles) for rest in self._by_op.values())

    def may_pass(self, raw: bytes, op: int) -> bool:
        """Decide by the bytes of an entry with this `op`: False only if it certainly does not pass."""
        rest = self._by_op.get(op, True)
        if rest is True or (rest is not False and rest.may_match(raw)):
            return True
        # Entries of views become other types of events than they suggest.
        return _VIEWS in raw

    def __call__(self, entry: OplogEntry) -> bool:
        head = entry.head
        # Entries of views become other types of events than they suggest.
        decision = self.of_head(head)
        if decision is not None:
            return decision
        has_id = head.op == "u" and rawbson.find(entry.o, b"_id") is not None
        key = head.op, head.ns, has_id, entry.o2 is not None
        rest = self._rests.get(key)
        if rest is None:
            rest = remember(self._rests, key, self._rest(*key))
        return rest if isinstance(rest, bool) else rest(entry.raw)

    def _rest(self, op: str, ns: str, has_id: bool, has_key: bool) -> "_Rest | bool":
        facts: Facts = {"op": op, "ns": ns}
        if op == "u":
            facts[_ID] = has_id
        if has_key:  # one that is no document is not read, but exists
            facts[_KEY] = True
        return _Rest.of(partly(self._conditions, facts))


class _Rest:
    """What has to be looked up in each entry."""

    def __init__(self, conditions: Filter) -> None:
        self._matches = compile_match(conditions)
        self.needles = self._matches.needles
        self.may_match = self._matches.may_match

    @staticmethod
    def of(left: bool | dict[str, Any]) -> "_Rest | bool":
        return left if isinstance(left, bool) else _Rest(left)

    def __call__(self, raw: bytes) -> bool:
        return self.may_match(raw) and self._matches(decode(raw))


def _needles_of_all(rests: "Iterable[_Rest | bool]") -> frozenset[bytes] | None:
    """Bytes of which every document change that passes contains one; None if there may be others."""
    found = {_VIEWS}
    for rest in rests:
        if rest is True or (rest is not False and not rest.needles):
            return None
        if rest is not False:
            found.update(rest.needles[0])
    return frozenset(found)
