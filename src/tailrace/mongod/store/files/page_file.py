"""Look into LMDB's file without mapping it, so that a damaged one is a sentence.

LMDB maps the file and trusts it: a page that is not there ends the process with a SIGBUS. The layout here is
that of LMDB 0.9 on 64-bit systems: pages with a header. The first two have the newest states of the file, the
others are nodes of trees.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct, error
from typing import BinaryIO, Final, NamedTuple

_PAGE: Final = Struct("<QHHHH")
"""Number, padding, flags, end and begin of the free space."""
_META: Final = Struct("<IIQQ")
_TREE: Final = Struct("<IHHQQQQQ")
_LAST: Final = Struct("<QQ")
_NODE: Final = Struct("<HHHH")
_NUMBER: Final = Struct("<Q")
_COUNT: Final = Struct("<I")
_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_BRANCH, _LEAF, _OVERFLOW, _IS_META = 1, 2, 4, 8
_LARGE, _SUBTREE = 1, 2
_NO_ROOT: Final = 2**64 - 1
_SIZES: Final = range(256, 65_537)


class _State(NamedTuple):
    number: int
    page_size: int
    last_page: int
    roots: tuple[int, int]


class DamagedPage(Exception):  # noqa: N818 - what is wrong, for a caller that makes a sentence of it
    """What is wrong with a file."""


def check_file(path: Path) -> None:
    """Raise `DamagedPage` if LMDB could not open a file, or would read beyond its end."""
    with open(path, "rb") as file:
        state = _newest_state(file)
        # Pages that were allocated and freed in one transaction are never written, so a file may be shorter.
        if _size_of(file) < (state.last_page + 1) * state.page_size:
            for _ in _walk(file, state):
                pass


def check_pages(path: Path) -> int:
    """Read every page that is in use; return how many there are, or raise `DamagedPage`."""
    with open(path, "rb") as file:
        return sum(_walk(file, _newest_state(file)))


def _size_of(file: BinaryIO) -> int:
    return file.seek(0, os.SEEK_END)


def _newest_state(file: BinaryIO) -> _State:
    if not _size_of(file):
        raise DamagedPage("it is empty")
    first = _state(file, 0)
    other = _state(file, first.page_size)
    return max(first, other)


def _state(file: BinaryIO, start: int) -> _State:
    try:
        file.seek(start)
        content = file.read(256)
        place = _PAGE.size
        magic, version, _, _ = _META.unpack_from(content, place)
        place += _META.size
        free, main = (_TREE.unpack_from(content, place + number * _TREE.size) for number in (0, 1))
        last, number = _LAST.unpack_from(content, place + 2 * _TREE.size)
    except error:
        raise DamagedPage("it is truncated") from None
    if magic != _MAGIC or not _PAGE.unpack_from(content)[2] & _IS_META:
        raise DamagedPage("it is not a file of LMDB")
    if version != _VERSION:
        raise DamagedPage(f"it has version {version} of LMDB's format, not {_VERSION}")
    if free[0] not in _SIZES:
        raise DamagedPage(f"its pages have {free[0]} bytes")
    return _State(number, free[0], last, (free[-1], main[-1]))


def _walk(file: BinaryIO, state: _State) -> Iterator[int]:
    """The sizes, in pages, of everything the trees of a file consist of."""
    seen: set[int] = set()
    waiting = [root for root in state.roots if root != _NO_ROOT]
    while waiting:
        number = waiting.pop()
        if number in seen:
            raise DamagedPage(f"page {number} is in use twice")
        seen.add(number)
        page = _page(file, state, number)
        try:
            if _PAGE.unpack_from(page)[2] & _OVERFLOW:
                count = _COUNT.unpack_from(page, 12)[0]
                if count < 1:
                    raise DamagedPage(f"page {number} has no content")
                _page(file, state, number + count - 1, is_start=False)
                yield count
            else:
                waiting += _children(page, number)
                yield 1
        except error:
            raise DamagedPage(f"page {number} is not a node of a tree") from None


def _page(file: BinaryIO, state: _State, number: int, *, is_start: bool = True) -> bytes:
    if number > state.last_page:
        raise DamagedPage(f"page {number} is beyond the last page")
    file.seek(number * state.page_size)
    page = file.read(state.page_size)
    if len(page) < state.page_size:
        raise DamagedPage(f"it is truncated: page {number} is missing")
    if is_start and _PAGE.unpack_from(page)[0] != number:
        raise DamagedPage(f"page {number} has the content of another page")
    return page


def _children(page: bytes, number: int) -> list[int]:
    _, _, flags, lower, upper = _PAGE.unpack_from(page)
    if flags & (_BRANCH | _LEAF) not in (_BRANCH, _LEAF) or not _PAGE.size <= lower <= upper <= len(page):
        raise DamagedPage(f"page {number} is not a node of a tree")
    found = []
    for position in range(_PAGE.size, lower, 2):
        place = int.from_bytes(page[position : position + 2], "little")
        low, high, node_flags, key_size = _NODE.unpack_from(page, place)
        if place + _NODE.size + key_size > len(page):
            raise DamagedPage(f"page {number} has a key beyond its end")
        data = place + _NODE.size + key_size
        if flags & _BRANCH:
            found.append(low | high << 16 | node_flags << 32)
        elif node_flags & _LARGE:
            found.append(_NUMBER.unpack_from(page, data)[0])
        elif node_flags & _SUBTREE:
            root = _TREE.unpack_from(page, data)[-1]
            if root != _NO_ROOT:
                found.append(root)
        elif data + (low | high << 16) > len(page):
            raise DamagedPage(f"page {number} has a value beyond its end")
    return found
