"""What a filter compiles to.

A *node* judges a document; a *condition* judges one value and becomes a node when it is bound to a path. The
operators of ``{a: {$gt: 1, $lt: 5}}`` are conditions; inside a ``$elemMatch`` on plain values the same
conditions judge each element instead.

Nodes answer in two ways: `matches` is a plain function and does no more than it must; `locate` also notes
which element of an array made the document match, as far as there is one, for the positional operator
``$``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from tailrace.query.paths import Path, Test

Document: TypeAlias = dict[str, Any]
DocumentTest: TypeAlias = Callable[[Document], bool]


class Position:
    """Where `Node.locate` leaves the index that it found; a later find replaces an earlier one."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index: int | None = None


class Node(Protocol):
    """Judges a document."""

    @property
    def matches(self) -> DocumentTest:
        """Whether the document matches."""

    def locate(self, document: Document, position: Position) -> bool:
        """The same, and the index of the array element that decided it."""


class Condition(Protocol):
    """Judges a value."""

    @property
    def holds(self) -> Test:
        """Judge one value as it is; an array is not looked into."""

    def at(self, path: Path) -> Node:
        """Judge the values that a path leads to."""


class Judgement:
    """A node that looks at the document as a whole, and so never finds a position."""

    __slots__ = ("matches",)

    def __init__(self, matches: DocumentTest) -> None:
        self.matches = matches

    def locate(self, document: Document, _position: Position) -> bool:
        return self.matches(document)


ALWAYS: Node = Judgement(lambda _document: True)
NEVER: Node = Judgement(lambda _document: False)


class AllOf:
    """All children match."""

    __slots__ = ("_children", "matches")

    def __init__(self, children: Sequence[Node]) -> None:
        self._children = children
        self.matches: DocumentTest = every([child.matches for child in children])

    def locate(self, document: Document, position: Position) -> bool:
        return all(child.locate(document, position) for child in self._children)


class AnyOf:
    """One of the children matches."""

    __slots__ = ("_children", "matches")

    def __init__(self, children: Sequence[Node]) -> None:
        self._children = children
        self.matches: DocumentTest = some([child.matches for child in children])

    def locate(self, document: Document, position: Position) -> bool:
        """See `Node`; the first child that matches decides."""
        return any(child.locate(document, position) for child in self._children)


def none_of(children: Sequence[Node]) -> Node:
    """None of the children matches, so that no element can be the one that made it match."""
    one_matches = some([child.matches for child in children])
    return Judgement(lambda document: not one_matches(document))


def conjunction(nodes: Sequence[Node]) -> Node:
    """One node for all, without a wrapper around a single one."""
    return nodes[0] if len(nodes) == 1 else AllOf(nodes) if nodes else ALWAYS


def every(tests: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """A test that passes if all tests do."""
    if len(tests) == 1:
        return tests[0]

    def holds(value: Any) -> bool:
        for test in tests:  # noqa: SIM110 - a generator would cost more than most tests
            if not test(value):
                return False
        return True

    return holds


def some(tests: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """A test that passes if one of the tests does."""
    if len(tests) == 1:
        return tests[0]

    def holds(value: Any) -> bool:
        for test in tests:  # noqa: SIM110 - see above
            if test(value):
                return True
        return False

    return holds


class ValueCondition:
    """A condition on single values, of which at least one must hold at a path.

    ``into_last_array`` says whether the elements of an array at the end of the path are values too; ``find``
    gives the index of the element that makes an array hold, for conditions on whole arrays.
    """

    __slots__ = ("_find", "_into_last_array", "holds")

    def __init__(
        self, holds: Test, *, into_last_array: bool = True, find: Callable[[Any], int | None] | None = None
    ) -> None:
        self.holds = holds
        self._into_last_array = into_last_array
        self._find = find

    def at(self, path: Path) -> Node:
        return AtPath(path, self.holds, self._into_last_array, self._find)


class AtPath:
    """One of the values at a path passes a test."""

    __slots__ = ("_find", "_into_last_array", "_path", "_test", "matches")

    def __init__(
        self, path: Path, test: Test, into_last_array: bool, find: Callable[[Any], int | None] | None
    ) -> None:
        self._path = path
        self._test = test
        self._into_last_array = into_last_array
        self._find = find
        self.matches = path.predicate(test, into_last_array=into_last_array)

    def locate(self, document: Document, position: Position) -> bool:
        """See `Node`; an array the path went through counts more than the array at its end."""
        for value, offset in self._path.values(document, into_last_array=self._into_last_array):
            if self._test(value):
                if offset is not None:
                    position.index = offset
                elif self._find is not None:
                    position.index = self._find(value)
                return True
        return False


class Negation:
    """The condition does not hold: at a path, for none of the values there."""

    __slots__ = ("_inner", "holds")

    def __init__(self, inner: Condition) -> None:
        self._inner = inner
        inner_holds = inner.holds
        self.holds: Test = lambda value: not inner_holds(value)

    def at(self, path: Path) -> Node:
        return none_of([self._inner.at(path)])


class Conjunction:
    """All conditions hold; at a path each of them may hold for another value."""

    __slots__ = ("_parts", "holds")

    def __init__(self, parts: Sequence[Condition]) -> None:
        self._parts = parts
        self.holds: Test = every([part.holds for part in parts])

    def at(self, path: Path) -> Node:
        return conjunction([part.at(path) for part in self._parts])
