"""Compile a client's projection."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.mongod.language.find_projection.array_operators import (
    Components,
    Slice,
    parse_elem_match,
    parse_slice,
)
from tailrace.mongod.language.find_projection.projection import METADATA, Document, FindProjection
from tailrace.mongod.language.find_projection.raw_fields import RawProjection, drop_fields, keep_fields
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions import Expression
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.metadata import no_metadata
from tailrace.query.expressions.operands import is_number, is_truthy
from tailrace.query.expressions.operators import OPERATORS
from tailrace.query.expressions.scope import Collating, Constant, unknown_expression
from tailrace.query.match import Matcher
from tailrace.query.missing import MISSING
from tailrace.query.reshape.computed import NOT_COMPUTED
from tailrace.query.reshape.path_tree import PathTree
from tailrace.query.reshape.projection_tree import Exclusion, Inclusion, Projection
from tailrace.query.reshape.stage import StageContext

_ID: Final = ("_id",)
_INCLUSION, _EXCLUSION = "inclusion", "exclusion"


def compile_find_projection(
    spec: Mapping[str, Any],
    *,
    matcher: Matcher | None = None,
    variables: Mapping[str, Any] | None = None,
    collation: Collating | None = None,
    dialect: Dialect = CURRENT_DIALECT,
) -> FindProjection:
    """Compile a projection; ``matcher`` is the query's filter, which a positional ``$`` refers to."""
    reader = _Reader(StageContext(variables or {}, collation, dialect), matcher)
    for components, value, is_positional in _flattened(spec, ()):
        reader.read(components, value, is_positional)
    return reader.finished()


def _flattened(spec: Mapping[str, Any], prefix: Components) -> Iterator[tuple[Components, Any, bool]]:
    """Full paths, their values, and whether they are positional."""
    for key, value in spec.items():
        is_positional = key.endswith(".$")
        path = key.removesuffix(".$")
        if path.endswith(".$") or ".$." in path:
            raise CommandError(
                31394, f"a positional '$' may only stand at the end of a path in a projection, found '{key}'"
            )
        components = (*prefix, *split_path(path))
        if not isinstance(value, Mapping):
            yield components, value, is_positional
            continue
        if is_positional:
            raise CommandError(31271, "positional projection cannot be used with an expression or sub object")
        if not value:
            raise CommandError(
                51270, f"an empty sub-projection is not a valid value, at '{'.'.join(components)}'"
            )
        if next(iter(value)).startswith("$"):
            yield components, value, False
        else:
            yield from _flattened(value, components)


class _Reader:
    """Reads the paths of a specification one by one and collects the projection."""

    def __init__(self, context: StageContext, matcher: Matcher | None) -> None:
        self._context = context
        self._matcher = matcher
        self._paths: Projection = PathTree()
        self._slices: list[tuple[Components, Slice]] = []
        self._positional: tuple[Components, Matcher] | None = None
        self._metadata: list[tuple[str, str]] = []
        self._has_elem_match = False
        self._kind: str | None = None
        self._keeps_id: bool | None = None
        self._is_plain = True
        """Whether all paths are top-level fields that are kept or dropped unchanged."""

    def read(self, components: Components, value: Any, is_positional: bool) -> None:
        """Add a path."""
        if is_positional:
            self._read_positional(components, value)
        elif isinstance(value, bool) or is_number(value):
            self._paths.add(components, NOT_COMPUTED)
            if components == _ID:
                self._keeps_id = is_truthy(value)
            else:
                self._agree(components, _INCLUSION if is_truthy(value) else _EXCLUSION)
            self._is_plain = self._is_plain and len(components) == 1
        elif isinstance(value, Mapping):
            self._read_operator(components, value)
        else:
            self._compute(components, self._context.parse(value), 31310)

    def _read_positional(self, components: Components, value: Any) -> None:
        if not isinstance(value, bool) and not is_number(value):
            raise CommandError(31308, "positional projection cannot be used with a literal")
        if not is_truthy(value):
            raise CommandError(31395, "positional projection cannot be used with exclusion")
        if self._positional is not None:
            raise CommandError(31276, "Cannot specify more than one positional projection per query.")
        if self._has_elem_match:
            raise CommandError(31256, "Cannot specify positional operator and $elemMatch.")
        if self._matcher is None:
            raise CommandError(51050, "a positional projection needs a query")
        self._agree(components, _INCLUSION)
        self._paths.add(components, NOT_COMPUTED)
        self._positional = components, self._matcher

    def _read_operator(self, components: Components, value: Mapping[str, Any]) -> None:
        name, argument = next(iter(value.items()))
        if name == "$slice" and (cut := parse_slice(argument)) is not None:
            self._slices.append((components, cut))
            self._paths.add(components, NOT_COMPUTED)
        elif name == "$elemMatch":
            if self._positional is not None:
                raise CommandError(31255, "Cannot specify positional operator and $elemMatch.")
            self._has_elem_match = True
            self._compute(components, parse_elem_match(components, argument, self._context), 31252)
        elif name == "$meta":
            if argument not in METADATA or len(components) > 1:
                raise no_metadata(argument)
            self._metadata.append((components[0], argument))
            self._paths.add(components, Constant(MISSING))
        elif name not in OPERATORS:
            raise CommandError(31325, unknown_expression(name, "Unknown expression {}"))
        else:
            self._compute(components, self._context.parse(value), 31252)

    def _compute(self, components: Components, expression: Expression, refused: int) -> None:
        if self._kind == _EXCLUSION:
            path = ".".join(components)
            raise CommandError(refused, f"Cannot use an expression for {path} in an exclusion projection")
        self._kind = _INCLUSION
        self._is_plain = False
        self._paths.add(components, expression)

    def _agree(self, components: Components, wanted: str) -> None:
        if self._kind is not None and self._kind != wanted:
            code = 31253 if wanted == _INCLUSION else 31254
            path = ".".join(components)
            raise CommandError(code, f"Cannot do {wanted} on field {path} in {self._kind} projection")
        self._kind = wanted

    def finished(self) -> FindProjection:
        """The projection of all paths."""
        kind = self._kind
        if kind is None:
            # A $slice without other fields keeps all of them.
            keeps_all = self._slices or self._metadata
            kind = _INCLUSION if self._keeps_id and not keeps_all else _EXCLUSION
        entries = self._paths.entries
        if self._keeps_id is not None and self._keeps_id != (kind == _INCLUSION):
            del entries["_id"]
        if kind == _INCLUSION and self._keeps_id is None and "_id" not in entries:
            self._paths.add(_ID, NOT_COMPUTED)
        if kind == _EXCLUSION:
            for components, _ in self._slices:
                _forget(self._paths, components)
        is_plain = self._is_plain and not self._slices and not self._metadata and self._positional is None
        return FindProjection(
            self._reshape(kind),
            self._slices,
            self._positional,
            self._on_bytes(kind) if is_plain else None,
            self._metadata,
        )

    def _reshape(self, kind: str) -> Callable[[Document], Document]:
        if kind == _EXCLUSION:
            return Exclusion(self._paths).applied_to
        inclusion = Inclusion(self._paths)
        context = self._context

        def project(document: Document) -> Document:
            return inclusion.project(document, context.environment(document))

        return project

    def _on_bytes(self, kind: str) -> RawProjection:
        names = self._paths.entries
        if kind == _INCLUSION:
            return keep_fields(names)
        return drop_fields(names) if names else lambda raw: raw


def _forget(tree: Projection, components: Components) -> None:
    """Remove a path from a tree: an exclusion drops the fields in it, but a sliced field stays."""
    for name in components[:-1]:
        below = tree.entries[name]
        assert isinstance(below, PathTree), "the path was put there"
        tree = below
    del tree.entries[components[-1]]
