"""Whether the compiled kernel makes the rows, or numpy.

The kernel is the distribution `tailrace-native` (``pip install tailrace[native]``). It is used where it is
installed; both make the same rows. It is not used if the environment variable `TAILRACE_KERNEL` is ``numpy``.
"""

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Final, Protocol, TypeAlias, cast

import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.lake.schema import SCHEMA

VARIABLE: Final = "TAILRACE_KERNEL"
NUMPY, NATIVE = "numpy", "native"
_INTERFACE: Final = 3

Pieces: TypeAlias = tuple[Sequence[bytes], bytes]
"""The fixed pieces of a template, and a letter for each hole between them"""
KernelLayout: TypeAlias = tuple[Pieces, Pieces, Pieces | None, Sequence[str | None], str]
"""(token, event, `entry_rest`; operation, database, collection and UUID; shard)"""
UnknownKind: TypeAlias = tuple[int, bool, int, bytes, bytes, bytes, int, int]
"""(number, whether its events show a session, operation; of one change: head, `o`, key, time, wall time)"""
KernelEnd: TypeAlias = tuple[int, bytes, bytes, int, int, Sequence[int]]
"""(cluster time, wall time, session, number, how many operations a transaction has, their namespaces)"""
KernelColumn: TypeAlias = tuple[bytes | None, bytes | None, bytes]
"""(which rows are not null; offsets; data)"""
MadeColumn: TypeAlias = tuple[pa.Buffer | None, pa.Buffer | None, pa.Buffer, int, tuple[bytes, bytes] | None]
"""(which rows are not null; offsets; data, and how many bytes of it are used; offsets and data of the values,
if the column has a dictionary)"""

FoundTexts: TypeAlias = tuple[bytes, pa.Buffer, bytes]
"""(offsets and data of a column of text, rows that are left)"""
FoundField: TypeAlias = tuple[bytes, bytes, bytes, FoundTexts | None]
"""(types of the values, 0 for none; where they begin; where they end; their texts, if they were asked for)"""
KernelRewriter: TypeAlias = tuple[Sequence[bytes], Sequence[bytes], Sequence[tuple[bytes, int]]]
"""(what is around time, index and key of a stored token; the same of a shown one; lengths of indexes by their
first digits)"""
KernelWriter: TypeAlias = tuple[bytes, tuple[int, int], Sequence[int] | None, KernelRewriter | None]
"""(what is before the token, what is cut out, how to find a description; how tokens are rewritten)"""
Allocate: TypeAlias = Callable[[int], tuple[pa.Buffer, memoryview]]
"""Memory of some bytes, and a view of it"""


class Kernel(Protocol):
    """What the compiled kernel does; `compiled.py` explains the order of calls."""

    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def scan(self, shard: int, memory: bytes, start: int, ends: object) -> Sequence[UnknownKind]: ...
    def learn(self, kind: int, shows_session: bool, layout: KernelLayout, namespace: int) -> None: ...
    def learn_end(self, lsid_size: int, namespaces: Sequence[int], layout: KernelLayout) -> None: ...
    def learn_session(self, lsid: bytes, middle: bytes, type_bits: bytes | None) -> None: ...
    def settle(self, marks_end: bool) -> tuple[bytes, Sequence[KernelEnd]]: ...
    def rows(self) -> int: ...
    def changes(self) -> Sequence[tuple[int, int, int, int]]: ...
    def columns(
        self,
        times: bytes,
        finished: Sequence[KernelColumn],
        images: Sequence[bytes | None],
        allocate: Allocate,
    ) -> tuple[int, list[MadeColumn]]: ...


class KernelModule(Protocol):
    """The module `tailrace_native`."""

    INTERFACE: int
    COLUMNS: list[str]

    def Kernel(self) -> Kernel: ...  # noqa: N802 - a class

    def split(self, memory: bytes) -> tuple[bytes, bytes]:
        """Where whole documents at the beginning of some bytes end, and their times; 0 for an unknown one."""

    def fields(
        self,
        memory: object,
        starts: object,
        ends: object,
        names: Sequence[tuple[bytes, bool]],
        ignored: Sequence[bytes] | None,
        allocate: Allocate,
    ) -> Sequence[FoundField] | None:
        """Fields of documents by their names, with texts or without; a row that begins before 0 has none.

        None if documents have to be read one by one, also for a field that is neither named nor ignored.
        """

    def show(
        self,
        shared: tuple[bytes, bytes, bytes],
        tokens: tuple[object, object],
        events: tuple[object, object],
        rows: object,
        kinds: object,
        writers: Sequence[KernelWriter],
        allocate: Allocate,
    ) -> tuple[Sequence[pa.Buffer], bytes] | None:
        """Rows of a history as a stream shows them: offsets and data of tokens and events; who is left.

        ``shared`` is what is around a token in its document, and the field that descriptions lose; a column
        is its offsets and its data; a row's kind is the number of its writer. None if they are too large.
        """


def compiled_kernel() -> KernelModule | None:
    """The compiled kernel; None if numpy has to do."""
    return None if _choice() == NUMPY else _installed()[0]


def kernel_in_words() -> str:
    """Which of the two makes the rows, and why, for people."""
    if _choice() == NUMPY:
        return f"numpy ({VARIABLE} is set)"
    module, reason = _installed()
    return f"numpy ({reason})" if module is None else "compiled"


def _choice() -> str:
    choice = os.environ.get(VARIABLE) or NATIVE
    if choice not in (NUMPY, NATIVE):
        raise UsageError(f"{VARIABLE} is {choice!r}; it may be {NUMPY} or {NATIVE}")
    return choice


@cache
def _installed() -> tuple[KernelModule | None, str]:
    """The module of the kernel; or None, and why it is not used."""
    try:
        module = cast("KernelModule", import_module("tailrace_native"))
    except ImportError:
        return None, "tailrace-native is not installed"
    if module.INTERFACE != _INTERFACE or SCHEMA.names != module.COLUMNS:
        return None, "the installed tailrace-native is of another release"
    return module, ""


def allocate(size: int) -> tuple[pa.Buffer, memoryview]:
    """Memory of Arrow's pool, and a view of it: the system is not asked for pages again and again."""
    buffer = pa.allocate_buffer(size)
    return buffer, memoryview(buffer).cast("B")
