"""The parts of a compiled filter.

A *node* tests a document; a *condition* tests one value and becomes a node when it is bound to a path. The
operators of ``{a: {$gt: 1, $lt: 5}}`` are conditions; inside a ``$elemMatch`` on plain values the same
conditions test each element instead.

A node has two functions: `matches` only tests and is the fast one; `locate` also finds the array element, if
any, that made the document match, for the positional operator ``$``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from tailrace.pacing import STEPS, ticking
from tailrace.query.paths import Path, Test

Document: TypeAlias = dict[str, Any]
DocumentTest: TypeAlias = Callable[[Document], bool]


class ArrayPosition:
    """Receives the index that `Node.locate` finds; a later find replaces an earlier one."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index: int | None = None


class Node(Protocol):
    """Tests a document."""

    @property
    def matches(self) -> DocumentTest:
        """The test of a document."""

    def locate(self, document: Document, position: ArrayPosition) -> bool:
        """Whether the document matches; stores the index of the array element that made it match."""


class Condition(Protocol):
    """Tests a value."""

    @property
    def holds(self) -> Test:
        """The test of one value, without the elements of an array."""

    def at(self, path: Path) -> Node:
        """The node that tests the values at a path."""


class DocumentPredicate:
    """A node that tests the document as a whole, and so never finds a position."""

    __slots__ = ("matches",)

    def __init__(self, matches: DocumentTest) -> None:
        self.matches = matches

    def locate(self, document: Document, _position: ArrayPosition) -> bool:
        return self.matches(document)


ALWAYS: Node = DocumentPredicate(lambda _document: True)
NEVER: Node = DocumentPredicate(lambda _document: False)


class AllOf:
    """All children match."""

    __slots__ = ("children", "matches")

    def __init__(self, children: Sequence[Node]) -> None:
        self.children = _flattened(AllOf, children)
        self.matches: DocumentTest = every([child.matches for child in self.children])

    def locate(self, document: Document, position: ArrayPosition) -> bool:
        return all(child.locate(document, position) for child in self.children)


class AnyOf:
    """One of the children matches."""

    __slots__ = ("children", "matches")

    def __init__(self, children: Sequence[Node]) -> None:
        self.children = _flattened(AnyOf, children)
        self.matches: DocumentTest = some([child.matches for child in self.children])

    def locate(self, document: Document, position: ArrayPosition) -> bool:
        return any(child.locate(document, position) for child in self.children)


def _flattened(kind: type[AllOf] | type[AnyOf], nodes: Sequence[Node]) -> list[Node]:
    """The nodes with the children of nested nodes of the same kind in their place."""
    return [child for node in nodes for child in (node.children if isinstance(node, kind) else [node])]


def none_of(children: Sequence[Node]) -> Node:
    """A node that matches if none of the children does, and so never finds a position."""
    one_matches = some([child.matches for child in children])
    return DocumentPredicate(lambda document: not one_matches(document))


def conjunction(nodes: Sequence[Node]) -> Node:
    """A node that matches if all nodes do."""
    return nodes[0] if len(nodes) == 1 else AllOf(nodes) if nodes else ALWAYS


def every(tests: Sequence[Callable[[Any], bool]]) -> Callable[[Any], bool]:
    """A test that passes if all tests do."""
    if len(tests) == 1:
        return tests[0]
    if len(tests) > STEPS:
        return lambda value: all(test(value) for test in ticking(tests))

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
    if len(tests) > STEPS:
        return lambda value: any(test(value) for test in ticking(tests))

    def holds(value: Any) -> bool:
        for test in tests:  # noqa: SIM110 - see above
            if test(value):
                return True
        return False

    return holds


class ValueCondition:
    """A condition that at least one of the values at a path must meet.

    With ``into_last_array`` the elements of an array at the end of the path are values, too. ``find`` returns
    the index of the element that makes an array meet a condition on whole arrays.
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

    def locate(self, document: Document, position: ArrayPosition) -> bool:
        """See `Node`; an array on the path takes precedence over an array at its end."""
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
    """All conditions hold; at a path, each may hold for a different value."""

    __slots__ = ("_parts", "holds")

    def __init__(self, parts: Sequence[Condition]) -> None:
        self._parts = parts
        self.holds: Test = every([part.holds for part in parts])

    def at(self, path: Path) -> Node:
        return conjunction([part.at(path) for part in self._parts])
