"""The user's first `$match`, rewritten onto oplog entries.

A filter on events that also holds for the entries they come from lets the scan drop entries before they
are unwound and transformed, and lets a real MongoDB drop them before they are sent. The rewrite is a filter
document on entries. It may let more through than the original (which is applied afterwards), never less.
`None` means that nothing is known: everything passes.

Three forms are needed: for whole entries, for entries that commit a transaction (only what events take from
the committing entry), and for the operations inside (without that).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson import Regex

from tailrace.events.stages.rewrites.entry_test import EntryTest
from tailrace.query.match import compile_match

_EXISTS: Final = {"$exists": True}
_ABSENT: Final = {"$exists": False}

# Which entries each type of event comes from.
_TYPES: Final[dict[str, list[dict[str, Any]]]] = {
    "insert": [{"op": "i"}],
    "update": [{"op": "u", "o._id": _ABSENT}],
    "replace": [{"op": "u", "o._id": _EXISTS}],
    "delete": [{"op": "d"}],
    "drop": [{"op": "c", "o.drop": _EXISTS}],
    "rename": [
        {"op": "c", "o.renameCollection": _EXISTS},
        {"op": "c", "o.upgradeDowngradeViewlessTimeseries": _EXISTS},
    ],
    "dropDatabase": [{"op": "c", "o.dropDatabase": _EXISTS}],
    "create": [{"op": "c", "o.create": _EXISTS}],
    "createIndexes": [{"op": "c", "o.createIndexes": _EXISTS}, {"op": "c", "o.commitIndexBuild": _EXISTS}],
    "startIndexBuild": [{"op": "c", "o.startIndexBuild": _EXISTS}],
    "abortIndexBuild": [{"op": "c", "o.abortIndexBuild": _EXISTS}],
    "dropIndexes": [{"op": "c", "o.dropIndexes": _EXISTS}],
    "modify": [{"op": "c", "o.collMod": _EXISTS}],
}
_COMMANDS_ON_COLLECTION: Final = (
    "drop", "create", "createIndexes", "commitIndexBuild", "startIndexBuild", "abortIndexBuild",
    "dropIndexes", "collMod",
)  # fmt: skip
_FROM_COMMITTING_ENTRY: Final = frozenset({"clusterTime", "lsid", "txnNumber"})
_NOT_INSIDE: Final = frozenset({"clusterTime", "lsid", "txnNumber", "wallTime"})


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A filter on entries; exact when it passes just the entries whose events the original passes."""

    filter: dict[str, Any]
    exact: bool


@dataclass(frozen=True, slots=True)
class PushedMatch:
    """The three forms as predicates, and the first as a document for explain and for remote scans."""

    operation: EntryTest | None = None
    transaction: EntryTest | None = None
    inner: EntryTest | None = None
    document: dict[str, Any] | None = None
    ops: frozenset[str] | None = None
    """The `op` codes of document changes that can pass; None if all can."""


def push_down(user_filter: Mapping[str, Any]) -> PushedMatch:
    """Rewrite a filter that directly follows the change-stream stages.

    >>> push_down({"operationType": "delete", "fullDocument.x": 1}).document
    {'$and': [{'$or': [{'op': 'd'}]}, {'$or': [{'op': 'u', 'o._id': {'$exists': False}}, ...]}]}
    """
    operation = _Rewriter(lambda head: head not in ("lsid", "txnNumber")).rewrite(user_filter)
    transaction = _Rewriter(lambda head: head in _FROM_COMMITTING_ENTRY, outer=True).rewrite(user_filter)
    inner = _Rewriter(lambda head: head not in _NOT_INSIDE).rewrite(user_filter)
    return PushedMatch(
        operation=_test(operation),
        transaction=_test(transaction),
        inner=_test(inner),
        document=None if operation is None else operation.filter,
        ops=None if inner is None else _possible_ops(inner.filter),
    )


def _test(rewrite: Rewrite | None) -> EntryTest | None:
    return None if rewrite is None else EntryTest(rewrite.filter)


def _possible_ops(rewritten: Mapping[str, Any]) -> frozenset[str] | None:
    """The `op` codes that can pass, where the filter shows it: no entry is decoded for others."""
    for name, value in rewritten.items():
        if name == "op" and isinstance(value, str):
            return frozenset({value})
        if name == "$and":
            known = [ops for ops in map(_possible_ops, value) if ops is not None]
            if known:
                return frozenset.intersection(*known)
        if name == "$or":
            branches = [_possible_ops(branch) for branch in value]
            if branches and all(ops is not None for ops in branches):
                return frozenset().union(*(ops for ops in branches if ops is not None))
    return None


def _all_of(rewrites: list[Rewrite], *, exact: bool) -> Rewrite | None:
    if not rewrites:
        return None
    if len(rewrites) == 1:
        return Rewrite(rewrites[0].filter, exact and rewrites[0].exact)
    return Rewrite({"$and": [r.filter for r in rewrites]}, exact and all(r.exact for r in rewrites))


def _any_of(branches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A filter that passes what one of the branches passes; no branch passes nothing."""
    found = [dict(branch) for branch in branches]
    return {"$or": found} if found else {"op": {"$in": []}}


class _Rewriter:
    def __init__(self, allows: Callable[[str], bool], *, outer: bool = False) -> None:
        self._allows = allows
        self._outer = outer

    def rewrite(self, user_filter: Mapping[str, Any]) -> Rewrite | None:
        rewrites: list[Rewrite] = []
        exact = True
        for name, condition in user_filter.items():
            rewritten = self._clause(name, condition)
            if rewritten is None:
                exact = False
            else:
                rewrites.append(rewritten)
        return _all_of(rewrites, exact=exact)

    def _clause(self, name: str, condition: Any) -> Rewrite | None:
        if name == "$and":
            children = [self.rewrite(child) for child in condition]
            known = [child for child in children if child is not None]
            return _all_of(known, exact=len(known) == len(children))
        if name in ("$or", "$nor"):
            children = [self.rewrite(child) for child in condition]
            known = [child for child in children if child is not None]
            exact = all(child.exact for child in known)
            if len(known) < len(children) or (name == "$nor" and not exact):
                return None
            return Rewrite({name: [child.filter for child in known]}, exact)
        if name == "$expr":
            return self._expression(condition)
        if name.startswith("$"):
            return None
        head = name.partition(".")[0]
        return self._path(head, name, condition) if self._allows(head) else None

    def _expression(self, spec: Any) -> Rewrite | None:
        """Comparisons of one path with constants, and conjunctions and disjunctions of them."""
        if not isinstance(spec, dict) or len(spec) != 1:
            return None
        ((operator, operands),) = spec.items()
        if not isinstance(operands, list):
            return None
        if operator in ("$and", "$or"):
            found = self._clause(operator, [{"$expr": operand} for operand in operands])
            return None if found is None else Rewrite(found.filter, exact=False)
        if operator not in ("$eq", "$in") or len(operands) != 2:
            return None
        path, value = operands
        if operator == "$eq" and not (isinstance(path, str) and path.startswith("$")):
            path, value = value, path
        if not isinstance(path, str) or not path.startswith("$") or path.startswith("$$"):
            return None
        values = value if operator == "$in" else [value]
        if not isinstance(values, list) or not all(_is_constant(item) for item in values):
            return None
        head = path[1:].partition(".")[0]
        if head not in ("operationType", "documentKey", "ns", "to") or not self._allows(head):
            return None
        found = self._path(head, path[1:], {"$in": values})
        return None if found is None else Rewrite(found.filter, exact=False)

    def _path(self, head: str, path: str, condition: Any) -> Rewrite | None:
        if self._outer and head in ("lsid", "txnNumber"):
            # Batches of retryable writes have a session that their events do not show.
            return Rewrite({"$or": [{path: condition}, {"multiOpType": _EXISTS}]}, exact=False)
        rename = {"clusterTime": "ts", "wallTime": "wall"}.get(path)
        if rename is not None:
            return Rewrite({rename: condition}, exact=True)
        rewriter = _PATHS.get(head)
        return None if rewriter is None else rewriter(path, condition)


def _is_constant(value: Any) -> bool:
    return not isinstance(value, dict | list) and not (isinstance(value, str) and value.startswith("$"))


def _accepts_missing(path: str, condition: Any) -> bool:
    return compile_match({path: condition})({})


def _operation_type(path: str, condition: Any) -> Rewrite | None:
    if path != "operationType":
        return None
    matches = compile_match({path: condition})
    shapes = [shape for name, found in _TYPES.items() if matches({path: name}) for shape in found]
    return Rewrite(_any_of(shapes), exact=True)


def _patterns(condition: Any) -> list[str] | None:
    """The strings a condition asks for, as patterns without anchors; None if it asks for anything else."""
    if isinstance(condition, dict):
        if list(condition) == ["$eq"]:
            return _patterns(condition["$eq"]) if not isinstance(condition["$eq"], dict | Regex) else None
        if list(condition) == ["$in"] and all(isinstance(item, str) for item in condition["$in"]):
            return [re.escape(item) for item in condition["$in"]]
        return None
    return [re.escape(condition)] if isinstance(condition, str) else None


def _regex(pattern: str) -> dict[str, Any]:
    return {"$regex": pattern}


def _namespace(path: str, condition: Any) -> Rewrite | None:
    _, _, part = path.partition(".")
    if part == "" and isinstance(condition, dict) and list(condition) in (["db", "coll"], ["db"]):
        parts = [_namespace(f"ns.{name}", value) for name, value in condition.items()]
        return _all_of([found for found in parts if found is not None], exact=False)
    names = _patterns(condition)
    if part not in ("db", "coll") or names is None:
        return None
    any_name = "|".join(names)
    if part == "db":
        return Rewrite(_any_of([{"ns": _regex(rf"^(?:{any_name})\.")}] if names else []), exact=True)
    if not names:
        return Rewrite(_any_of([]), exact=True)
    on_collection = [
        {"op": "c", f"o.{name}": _regex(f"^(?:{any_name})$")} for name in _COMMANDS_ON_COLLECTION
    ]
    return Rewrite(
        _any_of([
            {"op": {"$in": ["i", "u", "d"]}, "ns": _regex(rf"^[^.]+\.(?:{any_name})$")},
            *on_collection,
            {"op": "c", "o.renameCollection": _regex(rf"^[^.]+\.(?:{any_name})$")},
            {"op": "c", "o.upgradeDowngradeViewlessTimeseries": _EXISTS},
        ]),
        exact=False,
    )  # fmt: skip


def _rename_target(path: str, condition: Any) -> Rewrite | None:
    _, _, part = path.partition(".")
    names = _patterns(condition)
    if part not in ("db", "coll") or names is None:
        return None
    any_name = "|".join(names)
    pattern = rf"^(?:{any_name})\." if part == "db" else rf"^[^.]+\.(?:{any_name})$"
    return Rewrite(
        _any_of([
            {"op": "c", "o.to": _regex(pattern)},
            {"op": "c", "o.upgradeDowngradeViewlessTimeseries": _EXISTS},
        ]),
        exact=False,
    )  # fmt: skip


def _document_key(path: str, condition: Any) -> Rewrite | None:
    _, dot, rest = path.partition(".")
    missing = _accepts_missing(path, condition)
    branches: list[dict[str, Any]] = [
        {"op": {"$in": ["i", "u"]}, "o2": _EXISTS, f"o2{dot}{rest}": condition},
        {"op": "d", f"o{dot}{rest}": condition},
    ]
    if not dot:
        branches.append({"op": "i", "o2": _ABSENT})
    elif rest == "_id" or rest.startswith("_id."):
        branches.append({"op": "i", "o2": _ABSENT, f"o.{rest}": condition})
    elif missing:
        branches.append({"op": "i", "o2": _ABSENT})
    if missing:
        branches.append({"op": "c"})
    return Rewrite(_any_of(branches), exact=bool(dot))


def _full_document(path: str, condition: Any) -> Rewrite | None:
    _, dot, rest = path.partition(".")
    branches: list[dict[str, Any]] = [
        {"op": "u", "o._id": _ABSENT},
        {"op": "u", "o._id": _EXISTS, f"o{dot}{rest}": condition},
        {"op": "i", f"o{dot}{rest}": condition},
    ]
    if _accepts_missing(path, condition):
        branches.append({"op": {"$in": ["d", "c"]}})
    return Rewrite(_any_of(branches), exact=False)


def _before_change(path: str, condition: Any) -> Rewrite | None:
    if _accepts_missing(path, condition) or compile_match({path: condition})({path.partition(".")[0]: None}):
        return None
    _, _, rest = path.partition(".")
    if rest != "_id":
        return Rewrite({"op": {"$in": ["u", "d"]}}, exact=False)
    return Rewrite(_any_of([{"op": "u", "o2._id": condition}, {"op": "d", "o._id": condition}]), exact=False)


def _update_description(path: str, condition: Any) -> Rewrite | None:
    if _accepts_missing(path, condition):
        return None
    delta = {"op": "u", "o._id": _ABSENT}
    _, _, rest = path.partition(".")
    section, _, name = rest.partition(".")
    if section == "updatedFields" and name and "." not in name and not name.startswith("$"):
        found = [{f"o.diff.{part}.{name}": condition} for part in ("u", "i")]
        return Rewrite({**delta, "$or": [*found, {"o.diff.b": _EXISTS}]}, exact=False)
    if section == "removedFields" and not name:
        removed = _removed_names(condition)
        if removed:
            return Rewrite(
                {**delta, "$or": [{f"o.diff.d.{field}": _EXISTS} for field in removed]}, exact=False
            )
    return Rewrite(delta, exact=False)


def _removed_names(condition: Any) -> list[str] | None:
    """The undotted names that a condition on `removedFields` asks for."""
    names: Any = [condition]
    if isinstance(condition, dict):
        if list(condition) not in (["$eq"], ["$in"]):
            return None
        names = condition["$in"] if "$in" in condition else [condition["$eq"]]
    if all(isinstance(name, str) and name and "." not in name and not name.startswith("$") for name in names):
        return list(names)
    return None


_PATHS: Final[dict[str, Callable[[str, Any], Rewrite | None]]] = {
    "operationType": _operation_type,
    "ns": _namespace,
    "to": _rename_target,
    "documentKey": _document_key,
    "fullDocument": _full_document,
    "fullDocumentBeforeChange": _before_change,
    "updateDescription": _update_description,
}
