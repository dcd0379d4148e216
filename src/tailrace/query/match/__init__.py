"""MongoDB's match language: a filter is compiled once and tests many documents.

>>> matcher = compile_match({"ns.coll": "orders", "fullDocument.qty": {"$gte": 10}})
>>> matcher({"ns": {"db": "shop", "coll": "orders"}, "fullDocument": {"qty": 12}})
True
>>> compile_match({"a": {"$gt": 5}}).array_position({"a": [3, 9, 7]})
1

Supported:

=============  ==========================================================================================
comparison     ``$eq $ne $gt $gte $lt $lte $in $nin``, and a value or regex without an operator
logical        ``$and $or $nor $not``
element        ``$exists $type``
array          ``$all $elemMatch $size``
evaluation     ``$expr $regex`` (with ``$options``) ``$mod $jsonSchema $sampleRate $comment``
bitwise        ``$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear``
constant       ``$alwaysTrue $alwaysFalse``
=============  ==========================================================================================

Refused when the filter is compiled: ``$where $text $near $nearSphere $geoNear $geoWithin $geoIntersects``.
All errors in a filter are found then; a matcher itself can fail only inside ``$expr``.

The semantics are those of MongoDB 8: null does not match undefined, unless the caller says so, and
``{"a.b": null}`` does not match arrays of plain values in ``a``. `scope` contains the grammar, `operators`
the tables of operators.
"""

from collections.abc import Mapping
from typing import Any

from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions.scope import Collating
from tailrace.query.match.evaluation_order import has_expression, in_evaluation_order
from tailrace.query.match.needles import Needles, needles_of
from tailrace.query.match.nodes import ArrayPosition, Document, Node
from tailrace.query.match.operators import FIELD_OPERATORS, TOP_OPERATORS
from tailrace.query.match.scope import FilterScope

__all__ = ["Matcher", "compile_match"]


class Matcher:
    """A compiled filter."""

    __slots__ = ("_matches", "_node", "needles")

    def __init__(self, node: Node, needles: tuple[Needles, ...] = ()) -> None:
        self._node = node
        self._matches = node.matches
        self.needles = needles
        """Of each of these, every matching document contains at least one."""

    def __call__(self, document: Document) -> bool:
        return self._matches(document)

    def may_match(self, raw: bytes) -> bool:
        """Whether an undecoded document can match: False only if it certainly does not."""
        for needles in self.needles:
            for needle in needles:
                if needle in raw:
                    break
            else:
                return False
        return True

    def array_position(self, document: Document) -> int | None:
        """The index that the positional operator ``$`` of an update refers to.

        None if the document does not match, or matches without an array element. If several parts of the
        filter match array elements, the last part decides.
        """
        position = ArrayPosition()
        return position.index if self._node.locate(document, position) else None


def compile_match(
    filter: Mapping[str, Any],  # noqa: A002 - what MongoDB calls it
    *,
    variables: Mapping[str, Any] | None = None,
    collation: Collating | None = None,
    dialect: Dialect = CURRENT_DIALECT,
    in_order: bool = False,
) -> Matcher:
    """Compile a filter; ``variables`` are those of ``$expr`` (``$$name``), including ``NOW``.

    ``dialect`` has the rules of a release. With ``in_order``, conditions are tested in the order of the
    filter, as by a stage, otherwise in the order of a query; it shows only if an expression fails.
    """
    scope = FilterScope(
        FIELD_OPERATORS, TOP_OPERATORS, {} if variables is None else variables, collation, dialect
    )
    node = scope.filter(filter)
    if has_expression(filter):
        node = scope.filter(in_evaluation_order(filter, is_query=not in_order))
    return Matcher(node, needles_of(filter) if collation is None else ())
