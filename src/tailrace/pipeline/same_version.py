"""Check that executors run the Tailrace of the driver, before anything else of it is unpickled."""

import pickle
from typing import Any

from tailrace import __version__
from tailrace.errors import PipelineError


class SameVersion:
    """An object that a driver sends to its executors; only the same version of Tailrace unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (__version__, pickle.dumps((type(self), self.__dict__)))


def restored(version: str, state: bytes) -> Any:
    """The object that a driver of a version has pickled; `PipelineError` if this is another one.

    >>> restored("0.0.1", b"")
    Traceback (most recent call last):
    tailrace.errors.PipelineError: the driver runs Tailrace 0.0.1, and this executor ...
    """
    if version != __version__:
        raise PipelineError(
            f"the driver runs Tailrace {version}, and this executor {__version__}; install one version "
            "everywhere, or send that of the driver with --archives"
        )
    kind, attributes = pickle.loads(state)
    made = kind.__new__(kind)
    made.__dict__.update(attributes)
    return made
