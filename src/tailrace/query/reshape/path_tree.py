"""The paths of a stage's specification, as a tree: no path may equal, or be inside, another."""

from typing import Generic, TypeVar

from tailrace.errors import CommandError

Leaf = TypeVar("Leaf")


class PathTree(Generic[Leaf]):
    """Leaves by path, in the order of the specification."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Leaf | PathTree[Leaf]] = {}

    def add(self, components: tuple[str, ...], leaf: Leaf) -> None:
        """Add a leaf at a path; a collision with an earlier path raises `CommandError`."""
        tree = self
        for index, name in enumerate(components[:-1]):
            below = tree.entries.setdefault(name, PathTree())
            if not isinstance(below, PathTree):
                at, rest = ".".join(components[: index + 1]), ".".join(components[index + 1 :])
                raise CommandError(31249, f"Path collision at {at} remaining portion {rest}")
            tree = below
        if components[-1] in tree.entries:
            raise CommandError(31250, f"Path collision at {'.'.join(components)}")
        tree.entries[components[-1]] = leaf
