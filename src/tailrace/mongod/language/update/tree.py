"""All operators of one update as a tree over their paths.

The tree has three uses: two operators on the same path are found before anything is changed
(ConflictingUpdateOperators); fields are processed in one defined order, independent of their operators; and
each container on a path is visited, and copied, once.

A `Branch` descends by field name or index, and by the positional ``$`` to the element that the query matched.
An `Elements` node descends into the elements of an array that its filters select; the identifier "" is
``$[]``, which selects all. The two kinds cannot be mixed at one place.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import Operator
from tailrace.mongod.language.update.path import POSITIONAL, is_array_filter, processing_order


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a path."""

    operator: Operator


@dataclass(frozen=True, slots=True)
class Branch:
    """Fields of a document, or elements of an array by index."""

    children: dict[str, "Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of an array by filter identifier."""

    children: dict[str, "Node"] = field(default_factory=dict)


Node: TypeAlias = Leaf | Branch | Elements


def add(root: Branch, components: tuple[str, ...], operator: Operator) -> None:
    """Add an operator at its path."""
    node: Branch | Elements = root
    for depth, component in enumerate(components):
        key = component[2:-1] if isinstance(node, Elements) else component
        found = node.children.get(key)
        if depth == len(components) - 1:
            if found is not None:
                raise _conflict(components, depth)
            node.children[key] = Leaf(operator)
            return
        wanted = Elements if is_array_filter(components[depth + 1]) else Branch
        if found is None:
            found = node.children[key] = wanted()
        elif isinstance(found, Leaf) or type(found) is not wanted:
            raise _conflict(components, depth)
        node = found


def _conflict(components: tuple[str, ...], depth: int) -> CommandError:
    path, place = ".".join(components), ".".join(components[: depth + 1])
    message = f"Updating the path {path!r} would create a conflict at {place!r}"
    return CommandError(ErrorCode.ConflictingUpdateOperators, message)


def merge(left: Node, right: Node, place: str) -> Node:
    """Combine two nodes whose paths lead to the same element."""
    if isinstance(left, Leaf) or isinstance(right, Leaf) or type(left) is not type(right):
        message = f"two operators of the update create a conflict at {place!r}"
        raise CommandError(ErrorCode.ConflictingUpdateOperators, message)
    children = dict(left.children)
    for name, child in right.children.items():
        known = children.get(name)
        children[name] = child if known is None else merge(known, child, f"{place}.{name}")
    return sort(type(left)(children))


def sort(node: Node) -> Node:
    """The node with the children of all branches in processing order; ``$`` is placed later."""
    if isinstance(node, Leaf):
        return node
    return type(node)(sorted_children(node))


def sorted_children(node: Branch | Elements) -> dict[str, Node]:
    """The children of a node, sorted as `sort` sorts them."""
    children = {name: sort(child) for name, child in node.children.items()}
    names = sorted(children, key=processing_order) if isinstance(node, Branch) else list(children)
    return {name: children[name] for name in names}


def with_position(branch: Branch, position: str, place: str) -> Branch:
    """The branch with the positional ``$`` replaced by its index."""
    children = dict(branch.children)
    child = children.pop(POSITIONAL)
    explicit = children.get(position)
    children[position] = child if explicit is None else merge(explicit, child, f"{place}.{position}")
    return Branch({name: children[name] for name in sorted(children, key=processing_order)})
