"""A filter on oplog entries, decided by as little of an entry as possible.

Most entries that a selective filter drops are dropped without being decoded. What its head shows, `op` and
`ns`, is put into the filter once for all entries with that head; so is whether it has an `o._id` and an
`o2`, which tell replacements from updates. Of what is left, the bytes of the entry often show that it cannot
match (`query/match/needles.py`). Only an entry that may match is decoded.

>>> filter = {"$or": [{"op": "d"}, {"op": "i", "o.size": {"$gt": 5}}]}
>>> [partly(filter, {"op": op}) for op in "dui"]
[True, False, {'$or': [{'o.size': {'$gt': 5}}]}]
"""

from collections.abc import Mapping
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
        left = partly(self._conditions, facts)
        return left if isinstance(left, bool) else _Rest(left)


class _Rest:
    """What has to be looked up in each entry."""

    def __init__(self, conditions: Filter) -> None:
        self._matches = compile_match(conditions)

    def __call__(self, raw: bytes) -> bool:
        return self._matches.may_match(raw) and self._matches(decode(raw))
