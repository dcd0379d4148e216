"""Window functions: values that `$setWindowFields` computes from the neighbours of each document.

`bounds` defines the windows, `function` the type of a function; every other file is a family of functions.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.windows import (
    accumulated,
    calculus,
    filling,
    moving_average,
    positions,
)
from tailrace.mongod.language.aggregation.windows.function import (
    FunctionParser,
    WindowCall,
    WindowFunction,
    failed,
)
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.sorting import Ordering

__all__ = ["Partition", "WindowFunction", "parse_window_function"]

_FUNCTIONS: Final[Mapping[str, FunctionParser]] = {
    **accumulated.FUNCTIONS,
    **calculus.FUNCTIONS,
    **filling.FUNCTIONS,
    **moving_average.FUNCTIONS,
    **positions.FUNCTIONS,
}


def parse_window_function(spec: Any, ordering: Ordering | None, scope: StageScope) -> WindowFunction:
    """Compile a field of ``output``: ``{<function>: <argument>, window: <window>}``."""
    if not isinstance(spec, Mapping):
        raise failed("a window function must be specified as an object")
    names = [name for name in spec if name != "window"]
    if not names or not names[0].startswith("$"):
        raise failed(f"Expected a $-prefixed window function{', ' + names[0] if names else ''}")
    parser = _FUNCTIONS.get(names[0])
    if parser is None:
        raise failed(f"Unrecognized window function, {names[0]}")
    if len(names) > 1:
        raise failed(f"Window function {names[0]} found an unknown argument: {names[1]}")
    return parser(WindowCall(names[0], spec[names[0]], spec.get("window"), ordering, scope))
