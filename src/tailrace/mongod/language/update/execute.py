"""Apply a tree of operators to one document.

The given document is not changed: every container on a path is copied before it changes. Missing parents are
created as documents, and only if an operator below them sets a value; the log then has the topmost new field
with its contents. For an index beyond the end of an array the gap is filled with null.

Through ``$[]`` and ``$[<identifier>]`` several elements may change. If they select one element, its changes
are logged by their own paths. If they select several and one changes, the log has that whole element; if
several change, it has the whole array.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any, Final

from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.array_filters import ArrayFilter
from tailrace.mongod.language.update.change_log import ChangeLog
from tailrace.mongod.language.update.document_checks import check_depth
from tailrace.mongod.language.update.operator import REMOVED, UNCHANGED, Path, UpdateContext, dotted
from tailrace.mongod.language.update.path import POSITIONAL, element_index
from tailrace.mongod.language.update.tree import (
    Branch,
    Elements,
    Leaf,
    Node,
    merge,
    with_position,
)
from tailrace.query.missing import MISSING

MAX_PADDING: Final = 1_500_000
"""How many nulls a write beyond the end of an array may add."""


class Execution:
    """One application of an update to one document."""

    def __init__(self, filters: Mapping[str, ArrayFilter], context: UpdateContext) -> None:
        self._filters = filters
        self._context = context
        self.log = ChangeLog()

    def run(self, root: Branch) -> dict[str, Any]:
        """The document after the update; its changes are in `log`."""
        document = dict(self._context.original)
        self._apply_branch(root, document, (), self.log)
        return document

    # Each `_apply_...` changes its container, which is a copy already, and returns whether it did. Without a
    # log the caller logs the change, as part of a larger one.

    def _apply_branch(self, branch: Branch, container: Any, path: Path, log: ChangeLog | None) -> bool:
        if POSITIONAL in branch.children:
            branch = with_position(branch, self._matched_position(), dotted(path))
        changed = False
        for name, child in branch.children.items():
            if self._apply_node(child, container, name, path, log):
                changed = True
        return changed

    def _matched_position(self) -> str:
        position = self._context.array_position
        if position is None:
            message = "The positional operator did not find the match needed from the query."
            raise CommandError(ErrorCode.BadValue, message)
        return str(position)

    def _apply_node(self, node: Node, container: Any, name: str, path: Path, log: ChangeLog | None) -> bool:
        key: str | int | None = name if isinstance(container, dict) else element_index(name)
        if key is None:
            return self._blocked(node, (*path, name), container)
        inner = (*path, key)
        current = _value_at(container, key)
        if isinstance(node, Leaf):
            return self._apply_leaf(node, container, key, current, inner, log)
        if isinstance(node, Elements):
            return self._apply_elements(node, container, key, current, inner, log)
        if current is MISSING:
            created: dict[str, Any] = {}
            if not self._apply_branch(node, created, inner, None):
                return False
            _write(container, key, created, inner, log)
            return True
        if not isinstance(current, dict | list):
            return self._blocked(node, inner, current)
        copied = current.copy()
        if not self._apply_branch(node, copied, inner, log):
            return False
        container[key] = copied
        return True

    def _blocked(self, node: Node, path: Path, value: Any) -> bool:
        """Handle paths through a value without fields: raise if one of them needs a field there."""
        if isinstance(node, Elements):
            raise _no_array(path, MISSING)
        if isinstance(node, Leaf):
            operator = node.operator
            if not operator.tolerates_blocked_path and not operator.is_skipped(self._context):
                message = f"Cannot create field '{path[-1]}' in element {{{path[-2]}: {shell(value)}}}"
                raise CommandError(ErrorCode.PathNotViable, message)
            return False
        if POSITIONAL in node.children:
            self._matched_position()
        for name, child in node.children.items():
            self._blocked(child, (*path, name), value)
        return False

    def _apply_leaf(
        self, leaf: Leaf, container: Any, key: str | int, current: Any, path: Path, log: ChangeLog | None
    ) -> bool:
        operator = leaf.operator
        if operator.is_skipped(self._context):
            return False
        outcome = operator.apply(current, path, self._context)
        if outcome is UNCHANGED:
            return False
        if path[0] == "_id" and "_id" in self._context.original:
            message = (
                f"Performing an update on the path '{dotted(path)}' would modify the immutable field '_id'"
            )
            raise CommandError(ErrorCode.ImmutableField, message)
        if outcome is REMOVED:
            return _remove(container, key, path, log if operator.is_removal_logged else None)
        check_depth(outcome.value, len(path), path)
        if outcome.appended_from is None or log is None:
            _write(container, key, outcome.value, path, log)
        else:
            container[key] = outcome.value
            for index in range(outcome.appended_from, len(outcome.value)):
                log.updated((*path, index), outcome.value[index])
        if operator.renamed_from is not None:
            # In the update's log, even if the new name is in a document that is new itself.
            self.log.deleted(operator.renamed_from)
        return True

    def _apply_elements(
        self, node: Elements, container: Any, key: str | int, current: Any, path: Path, log: ChangeLog | None
    ) -> bool:
        if not isinstance(current, list):
            raise _no_array(path, current)
        items = current.copy()
        selected = [
            (index, chosen)
            for index, item in enumerate(current)
            if (chosen := self._chosen(node, item, (*path, index))) is not None
        ]
        logs_itself = len(selected) == 1
        changed = [
            index
            for index, chosen in selected
            if self._apply_node(chosen, items, str(index), path, log if logs_itself else None)
        ]
        if not changed:
            return False
        container[key] = items
        if log is not None and not logs_itself:
            if len(changed) == 1:
                log.updated((*path, changed[0]), items[changed[0]])
            else:
                log.updated(path, items)
        return True

    def _chosen(self, node: Elements, item: Any, path: Path) -> Node | None:
        """The operators for an element: those of every filter that it matches; None if there are none."""
        matching = [
            child
            for identifier, child in node.children.items()
            if not identifier or self._filters[identifier].matches(item)
        ]
        return reduce(lambda left, right: merge(left, right, dotted(path)), matching) if matching else None


def _no_array(path: Path, found: Any) -> CommandError:
    if found is MISSING:
        message = f"The path '{dotted(path)}' must exist in the document in order to apply array updates."
    else:
        message = f"Cannot apply array updates to non-array element {path[-1]}: {shell(found)}"
    return CommandError(ErrorCode.BadValue, message)


def _value_at(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return container.get(key, MISSING)
    return container[key] if key < len(container) else MISSING


def _write(container: Any, key: Any, value: Any, path: Path, log: ChangeLog | None) -> None:
    if isinstance(container, dict):
        existed = key in container
        container[key] = value
        if log is not None:
            (log.updated if existed else log.inserted)(path, value)
        return
    padding = key - len(container)
    if padding < 0:
        container[key] = value
    else:
        if padding > MAX_PADDING:
            message = f"the path {dotted(path)!r} would fill an array with more than {MAX_PADDING} nulls"
            raise CommandError(ErrorCode.CannotBackfillArray, message)
        container += [None] * padding
        container.append(value)
    if log is not None:
        log.updated(path, value)


def _remove(container: Any, key: Any, path: Path, log: ChangeLog | None) -> bool:
    """Remove a field of a document; an element of an array becomes null, to keep the indexes of others.

    As on a server, this counts as a change even if the element is null.
    """
    if isinstance(container, dict):
        del container[key]
        if log is not None:
            log.deleted(path)
        return True
    container[key] = None
    if log is not None:
        log.updated(path, None)
    return True
