"""A leading `$match` as a server tests it on oplog entries, where that shows.

A server rewrites the user's first filter, as far as it can, so that it is tested on entries; the filter is
tested on the event as well, so this stage only drops more, or earlier. It shows in these places:

* A retryable write has the fields `lsid` and `txnNumber` in its entry, which its event does not show:
  `{txnNumber: {$exists: false}}` drops it.
* An event that is dropped here requires no image, also where the filter itself could only run after images.
* With `showRawUpdateDescription`, an update has no `updateDescription`, but for the filter it does.
* A comparison of `updateDescription` by order with MinKey or MaxKey drops updates.
* A name with a null byte cannot be found in entries, and the filter is refused.
* A condition that drops an event here is tested before an expression that would fail.
* With `showSystemEvents` alone, the entry that removes a view is a deletion in `system.views` for the filter.

The rewritten form of a condition is exact, or it lets too much through; one that lets too much through cannot
be negated. A conjunction leaves out what cannot be rewritten. A disjunction with such a part is not tested at
all, nor is a filter with a collation. A rewritten condition is tested here on the event with the session of
its entry, with the same result.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from bson import Int64, MaxKey, MinKey, Regex

from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout.fields import Shape, shape_of
from tailrace.events.stages.render import render
from tailrace.events.stages.rewrites.reordering import read_paths
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.transform.document import Transform
from tailrace.query.match import compile_match
from tailrace.query.match.scope import is_operator_document

Document: TypeAlias = dict[str, Any]
Test: TypeAlias = Callable[[Document], bool]
SESSION_FIELDS: Final = ("lsid", "txnNumber")
_OF_COMMIT: Final = frozenset({*SESSION_FIELDS, "clusterTime"})
"""Fields that operations of a transaction have from the entry that commits it."""
_NEGATED: Final = {"$ne": "$eq", "$nin": "$in"}
_ALWAYS_THERE: Final = frozenset({
    "updateDescription", "updateDescription.updatedFields", "updateDescription.removedFields",
    "updateDescription.truncatedArrays",
})  # fmt: skip
_NAMES: Final = frozenset({"ns.db", "ns.coll", "to.db", "to.coll"})
_OF_EQUALITY: Final = frozenset({"$and", "$or", "$nor", "$not", "$eq", "$ne", "$in", "$nin", "$all"})
_COMPARISONS: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte"})


def mentions_sessions(value: Any) -> bool:
    """Whether a filter may test `lsid` or `txnNumber`."""
    if isinstance(value, Mapping):
        return any(_is_session(name) or mentions_sessions(part) for name, part in value.items())
    if isinstance(value, list):
        return any(map(mentions_sessions, value))
    if not isinstance(value, str) or not value.startswith("$"):
        return False
    return _is_session(value.removeprefix("$$CURRENT.").removeprefix("$$ROOT.").removeprefix("$"))


def compares_with_limits(value: Any, path: str = "") -> bool:
    """Whether a filter compares the description of an update with MinKey or MaxKey."""
    if isinstance(value, Mapping):
        return any(
            compares_with_limits(part, path if name.startswith("$") else name) for name, part in value.items()
        )
    if isinstance(value, list):
        return any(compares_with_limits(part, path) for part in value)
    return path in _ALWAYS_THERE and _is_limit(value)


def refuse_null_bytes(value: Any, path: str = "") -> None:
    """Refuse names with a null byte: a server looks for names in entries with regular expressions."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name == "$expr":
                _refuse_null_bytes_in_expression(part)
            elif name in _OF_EQUALITY or not name.startswith("$"):
                refuse_null_bytes(part, path if name.startswith("$") else name)
    elif isinstance(value, list):
        for part in value:
            refuse_null_bytes(part, path)
    elif path in _NAMES and isinstance(value, str) and "\0" in value:
        raise CommandError(
            ErrorCode.BadValue,
            f"the filter compares {path} with a name that has a null byte",
        )


def _refuse_null_bytes_in_expression(expression: Any) -> None:
    if isinstance(expression, list):
        for part in expression:
            _refuse_null_bytes_in_expression(part)
    elif (compared := _comparison(expression)) is not None:
        path, operator, value = compared
        if operator == "$eq":
            refuse_null_bytes(value, path)
    elif isinstance(expression, Mapping):
        for name in ("$and", "$or"):
            _refuse_null_bytes_in_expression(expression.get(name))


def _is_limit(value: Any) -> bool:
    return isinstance(value, MinKey | MaxKey)


def _is_session(path: str) -> bool:
    return path.partition(".")[0] in SESSION_FIELDS


class EntryMatch:
    """Drops events by what their entries show."""

    def __init__(self, user_filter: Mapping[str, Any], shape: Shape, variables: Mapping[str, Any]) -> None:
        def compiled(condition: Mapping[str, Any]) -> Test:
            return compile_match(condition, variables=variables, dialect=shape.release.dialect)

        # Entries have the description of an update, whatever the stream shows of it.
        self._shape = shape_of(
            expanded=shape.expanded,
            raw_update=False,
            commit_timestamp=shape.commit_timestamp,
            from_migrate=shape.from_migrate,
            release=shape.release,
        )
        self._plain = Transform(maps_views=False)

        def rewritten(can_be_tested: Callable[[str], bool]) -> Test | None:
            return _Rewriter(compiled, can_be_tested).filter(user_filter, allow_inexact=True)

        self._test = rewritten(lambda _: True)
        self._of_commit = rewritten(lambda field: field in _OF_COMMIT)
        self._inner = rewritten(lambda field: field not in _OF_COMMIT)

    def __call__(self, batch: Batch[ChangeEvent]) -> Batch[ChangeEvent]:
        passed: list[ChangeEvent] = []
        try:
            for event in batch.items:
                if self._passes(event):
                    passed.append(event)  # noqa: PERF401 - those before an error count
        except CommandError as error:
            return batch.having(passed, error)
        return batch.having(passed)

    def _passes(self, event: ChangeEvent) -> bool:
        extras = event.entry.extras
        tests = (self._of_commit, self._inner) if extras.in_apply_ops else (self._test,)
        if not any(tests):
            return True
        if event.ddl is not None:
            if self._shape.expanded or not event.entry.head.holds_views:
                return True
            event = self._plain.transform(event.entry)
        document = decode(render(event, self._shape, self._shape.release.token_version))
        if not extras.in_apply_ops:
            if extras.lsid is not None:
                document["lsid"] = decode(extras.lsid)
            if extras.txn_number is not None:
                document["txnNumber"] = Int64(extras.txn_number)
        return all(test is None or test(document) for test in tests)


class _Rewriter:
    """Turns filters into tests of what can be rewritten; None for what cannot."""

    def __init__(
        self, compiled: Callable[[Mapping[str, Any]], Test], can_be_tested: Callable[[str], bool]
    ) -> None:
        """Conditions on fields that cannot be tested, by their first names, are not rewritten."""
        self._compiled = compiled
        self._can_be_tested = can_be_tested

    def filter(self, conditions: Mapping[str, Any], *, allow_inexact: bool) -> Test | None:
        tests = [
            test
            for name, value in conditions.items()
            for test in self._tests(name, value, allow_inexact=allow_inexact)
        ]
        return self._all(tests, allow_inexact=allow_inexact)

    def _tests(self, name: str, value: Any, *, allow_inexact: bool) -> list[Test | None]:
        """The tests of one field of a filter, which all have to hold."""
        if name == "$and":
            return [self.filter(part, allow_inexact=allow_inexact) for part in value]
        if name == "$or":
            return [self._any(value, allow_inexact=allow_inexact)]
        if name == "$nor":
            return [self._none(value, allow_inexact=allow_inexact)]
        if name == "$expr":
            return [self._expression(value, allow_inexact=allow_inexact)]
        if name == "$comment":
            return []
        if name == "$jsonSchema":
            return [self._schema(value)]
        if name.startswith("$"):
            return [None]
        if not is_operator_document(value):
            operator = "$regex" if isinstance(value, Regex) else "$eq"
            return [self._leaf(name, operator, value, allow_inexact=allow_inexact)]
        return [
            self._operator(name, operator, value, allow_inexact=allow_inexact)
            for operator in value
            if operator != "$options"
        ]

    def _schema(self, schema: Mapping[str, Any]) -> Test | None:
        """A condition on properties that entries have as they are."""
        paths = schema.get("properties", {}) if schema.keys() == {"properties"} else {}
        is_known = bool(paths) and all(path in _OF_COMMIT and self._can_be_tested(path) for path in paths)
        return self._compiled({"$jsonSchema": schema}) if is_known else None

    def _all(self, tests: Sequence[Test | None], *, allow_inexact: bool) -> Test | None:
        if len(tests) == 1:
            return tests[0]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests) and not allow_inexact:
            return None
        return lambda document: all(test(document) for test in known)

    def _any(self, branches: Sequence[Mapping[str, Any]], *, allow_inexact: bool) -> Test | None:
        tests = [self.filter(branch, allow_inexact=allow_inexact) for branch in branches]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests):
            return None
        return lambda document: any(test(document) for test in known)

    def _none(self, branches: Sequence[Mapping[str, Any]], *, allow_inexact: bool) -> Test | None:
        tests = [self.filter(branch, allow_inexact=False) for branch in branches]
        known = [test for test in tests if test is not None]
        if len(known) < len(tests) and (not allow_inexact or len(tests) == 1):
            return None
        return lambda document: not any(test(document) for test in known)

    def _operator(
        self, path: str, operator: str, of: Mapping[str, Any], *, allow_inexact: bool
    ) -> Test | None:
        value = of[operator]
        if operator == "$not":
            inner = {path: value}
            return self._none([inner], allow_inexact=False)
        if operator in _NEGATED:
            return self._none([{path: {_NEGATED[operator]: value}}], allow_inexact=False)
        if operator == "$exists" and not value:
            return self._none([{path: {"$exists": True}}], allow_inexact=False)
        if operator == "$all" and value == []:
            return None  # nothing passes it, and it is not rewritten
        if operator == "$all" and isinstance(value, list) and not any(map(is_operator_document, value)):
            equal = [self.filter({path: item}, allow_inexact=allow_inexact) for item in value]
            return self._all(equal, allow_inexact=allow_inexact)
        if operator == "$regex" and "$options" in of:
            return self._leaf(path, operator, value, allow_inexact=allow_inexact, options=of["$options"])
        return self._leaf(path, operator, value, allow_inexact=allow_inexact)

    # -- conditions on one path -----------------------------------------------------------------------

    def _leaf(
        self, path: str, operator: str, value: Any, *, allow_inexact: bool, options: Any = None
    ) -> Test | None:
        condition = {operator: value} if options is None else {operator: value, "$options": options}
        return self._rewritten(
            path, operator, value, self._compiled({path: condition}), allow_inexact=allow_inexact
        )

    def _rewritten(
        self,
        path: str,
        operator: str,
        value: Any,
        test: Test,
        *,
        allow_inexact: bool,
        in_expression: bool = False,
    ) -> Test | None:
        """A test of an event, as far as the entry decides it."""
        head, _, rest = path.partition(".")
        if not self._can_be_tested(head):
            return None
        if head in (*SESSION_FIELDS, "clusterTime"):
            return test
        if head == "operationType":
            is_known = bool(rest) or operator == "$eq" or (operator == "$in" and not _has_regex(value))
            return test if is_known else None
        if head in ("ns", "to"):
            return test if _is_name(operator, value) else None
        if head == "documentKey":
            inserted = test if rest else self._inserted_key(operator, value)
            return _document_key(rest, test, inserted, allow_inexact=allow_inexact)
        if head == "updateDescription":
            if not in_expression and path in _ALWAYS_THERE and operator in _COMPARISONS and _is_limit(value):
                # A server takes it for a condition that only a missing field meets.
                return lambda document: document["operationType"] != "update" and test(document)
            return _update_description(path, operator, value, test, allow_inexact=allow_inexact)
        if head == "fullDocument" and allow_inexact:
            return lambda document: document["operationType"] == "update" or test(document)
        return None

    def _inserted_key(self, operator: str, value: Any) -> Test | None:
        """The condition on a whole document key for inserts; None if all pass."""
        if operator not in ("$eq", "$in"):
            return None
        wanted = [
            {f"documentKey.{name}": {"$eq": part} for name, part in key.items()}
            for key in (value if operator == "$in" else [value])
            if isinstance(key, Mapping) and "_id" in key
        ]
        return self._compiled({"$or": wanted}) if wanted else lambda _: False

    # -- expressions ----------------------------------------------------------------------------------

    def _expression(self, spec: Any, *, allow_inexact: bool) -> Test | None:
        if isinstance(spec, Mapping) and len(spec) == 1:
            ((operator, operands),) = spec.items()
            if operator in ("$and", "$or") and isinstance(operands, list):
                tests = [self._expression(operand, allow_inexact=allow_inexact) for operand in operands]
                if operator == "$and":
                    return self._all(tests, allow_inexact=allow_inexact)
                known = [test for test in tests if test is not None]
                if len(known) < len(tests):
                    return None
                return lambda document: any(test(document) for test in known)
            if operator == "$not":
                operand = operands[0] if isinstance(operands, list) and len(operands) == 1 else operands
                inner = self._expression(operand, allow_inexact=False)
                return None if inner is None else lambda document: not inner(document)
        test = self._compiled({"$expr": spec})
        whole = test if self._can_rewrite(spec) else None
        compared = _comparison(spec)
        if compared is None:
            return whole
        # Such an expression is also tested like the condition of a filter.
        condition = self._rewritten(*compared, test, allow_inexact=allow_inexact, in_expression=True)
        return self._all([condition, whole], allow_inexact=allow_inexact)

    def _can_rewrite(self, expression: Any) -> bool:
        """Whether an expression reads only fields that an entry shows as well."""
        return all(_is_in_entry(path) and self._can_be_tested(_head(path)) for path in read_paths(expression))


def _head(path: str) -> str:
    return path.partition(".")[0]


def _is_in_entry(path: str) -> bool:
    head, _, rest = path.partition(".")
    if head == "documentKey":
        return _head(rest) == "_id"
    return head in (*SESSION_FIELDS, "clusterTime", "operationType", "ns", "to")


def _has_regex(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Regex) for item in value)


def _is_name(operator: str, value: Any) -> bool:
    """Whether a condition on a namespace asks for names."""
    if operator == "$in" and isinstance(value, list):
        return all(isinstance(item, str | Mapping | Regex) for item in value)
    return operator == "$regex" or (operator == "$eq" and isinstance(value, str | Mapping))


def _document_key(rest: str, test: Test, inserted: Test | None, *, allow_inexact: bool) -> Test | None:
    if _head(rest) == "_id":
        return test
    if not allow_inexact:
        return None
    accepts_missing = bool(rest) and test({})

    def passes(document: Document) -> bool:
        if document["operationType"] != "insert":
            return test(document)
        # The fields of the document, as an entry does not show which of them are in the key.
        key = {"documentKey": document.get("fullDocument", {})}
        return accepts_missing or inserted is None or inserted(key)

    return passes


def _comparison(expression: Any) -> tuple[str, str, Any] | None:
    """Path, operator and constant of an expression that compares a field with a constant."""
    if not isinstance(expression, Mapping) or len(expression) != 1:
        return None
    ((operator, operands),) = expression.items()
    if operator not in _COMPARISONS or not isinstance(operands, list) or len(operands) != 2:
        return None
    path, value = operands
    if not _is_path(path):
        path, value = value, path
    if isinstance(value, Mapping) and list(value) == ["$literal"]:
        value = value["$literal"]
    is_constant = not isinstance(value, list | Mapping) and not (
        isinstance(value, str) and value.startswith("$")
    )
    return (path[1:], operator, value) if _is_path(path) and is_constant else None


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("$") and not value.startswith("$$")


def _update_description(
    path: str, operator: str, value: Any, test: Test, *, allow_inexact: bool
) -> Test | None:
    accepts_missing = test({})
    _, _, rest = path.partition(".")
    section, _, name = rest.partition(".")
    if path in _ALWAYS_THERE and (operator == "$exists" or (operator in _COMPARISONS and accepts_missing)):
        return test
    if section == "updatedFields" and name and "." not in name:
        return test
    if rest == "removedFields" and operator in ("$eq", "$in"):
        names = value if operator == "$in" and isinstance(value, list) else [value]
        if all(isinstance(item, str) and "." not in item for item in names):
            return test
    if not allow_inexact or accepts_missing:
        return None
    return lambda document: document["operationType"] == "update"
