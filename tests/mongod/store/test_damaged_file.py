"""A damaged data directory is refused with one sentence, before LMDB maps the file."""

from pathlib import Path

import pytest

from tailrace.bson.documents import encode
from tailrace.errors import UsageError
from tailrace.mongod.store.files.page_file import DamagedPage, check_file, check_pages
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.write_unit import WriteUnit
from tests.cli.console import tailrace

PAGE = 4096


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store.open(tmp_path / "data")
    orders = store.write_now(lambda unit: unit.create_collection("shop", "orders"))

    def fill(unit: WriteUnit) -> None:
        for number in range(50):
            unit.insert(orders, encode({"_id": number, "text": "x" * (number * 300)}))

    store.write_now(fill)
    store.close()
    return tmp_path / "data"


def changed(folder: Path, place: int, content: bytes) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.seek(place)
        file.write(content)


def refusal(folder: Path) -> str:
    """What `tailrace serve` says, in a process of its own: a SIGBUS would end this one."""
    outcome = tailrace("serve", "--no-spark", "--port", "0", "--data", folder)
    assert outcome.code == 2, outcome
    assert str(folder) in outcome.sentence
    return outcome.sentence


@pytest.mark.parametrize(
    "size",
    [0, 100, 20 * PAGE, *(pytest.param(size, marks=pytest.mark.slow) for size in (PAGE, 2 * PAGE, 4 * PAGE))],
)
def test_a_truncated_file(folder: Path, size: int) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.truncate(size)
    sentence = refusal(folder)
    assert "is empty" in sentence if not size else "damaged" in sentence


def test_a_foreign_file(folder: Path) -> None:
    (folder / "data.mdb").write_bytes(b"this is not LMDB" * 1000)
    assert "not a file of LMDB" in refusal(folder)


@pytest.mark.parametrize(
    "place", [10, PAGE + 16, *(pytest.param(place, marks=pytest.mark.slow) for place in (16, 20, 40))]
)
def test_a_damaged_page_of_states(folder: Path, place: int) -> None:
    changed(folder, place, b"\xa5\x5a\xa5")
    assert "damaged" in refusal(folder)


def test_every_page_of_a_sound_file(folder: Path) -> None:
    assert check_pages(folder / "data.mdb") > 20
    Store.open(folder).close()


META = 16
"""Where the content of a page begins"""
LAST_PAGE = META + 24 + 2 * 48
STATES = (0, PAGE)


def number_at(folder: Path, place: int, size: int) -> int:
    return int.from_bytes((folder / "data.mdb").read_bytes()[place : place + size], "little")


def fault(folder: Path) -> str:
    with pytest.raises(DamagedPage) as caught:
        check_pages(folder / "data.mdb")
    return str(caught.value)


def newest_state(folder: Path) -> int:
    return max(STATES, key=lambda state: number_at(folder, state + LAST_PAGE + 8, 8))


def pages_of(folder: Path, flag: int) -> list[int]:
    """The numbers of pages with a flag, without the first two, which are in use."""
    size = (folder / "data.mdb").stat().st_size
    return [
        page
        for page in range(2, size // PAGE)
        if number_at(folder, page * PAGE, 8) == page and number_at(folder, page * PAGE + 10, 2) == flag
    ]


@pytest.mark.parametrize(
    ("place", "content", "sentence"),
    [
        (META, b"\0", "it is not a file of LMDB"),
        (META + 4, b"\x02", "it has version 2 of LMDB's format, not 1"),
        (10, b"\0", "it is not a file of LMDB"),
        (META + 24, (255).to_bytes(4, "little"), "its pages have 255 bytes"),
        (META + 24, (65_537).to_bytes(4, "little"), "its pages have 65537 bytes"),
    ],
)
def test_the_states_of_a_file(folder: Path, place: int, content: bytes, sentence: str) -> None:
    changed(folder, place, content)
    assert fault(folder) == sentence
    with pytest.raises(UsageError, match="damaged"):
        Store.open(folder)


def test_the_newest_state_counts(folder: Path) -> None:
    state = newest_state(folder)
    older = PAGE - state
    changed(folder, older + LAST_PAGE, bytes(8))
    pages = check_pages(folder / "data.mdb")
    changed(folder, state + LAST_PAGE, bytes(8))
    assert "is beyond the last page" in fault(folder)
    changed(folder, state + META + 24 + 48 + 40, b"\xff" * 8)
    changed(folder, state + META + 24 + 40, b"\xff" * 8)
    assert check_pages(folder / "data.mdb") == 0
    assert pages > 20


def test_a_root_that_is_in_use_twice(folder: Path) -> None:
    state = newest_state(folder)
    main = number_at(folder, state + META + 24 + 48 + 40, 8)
    changed(folder, state + META + 24 + 40, main.to_bytes(8, "little"))
    assert fault(folder) == f"page {main} is in use twice"


def test_damaged_pages_of_trees(folder: Path) -> None:
    main = number_at(folder, newest_state(folder) + META + 24 + 48 + 40, 8)
    sound = (folder / "data.mdb").read_bytes()
    start = main * PAGE
    first_node = start + number_at(folder, start + 16, 2)
    lower, upper = number_at(folder, start + 12, 2), number_at(folder, start + 14, 2)
    not_a_node = f"page {main} is not a node of a tree"
    for place, content, sentence in (
        (start, b"\xff", "has the content of another page"),
        (start + 10, b"\x00", not_a_node),
        (start + 10, b"\x03", not_a_node),
        (start + 12, (15).to_bytes(2, "little"), not_a_node),
        (start + 12, (upper + 1).to_bytes(2, "little"), not_a_node),
        (start + 14, (lower - 1).to_bytes(2, "little"), not_a_node),
        (start + 14, (PAGE + 1).to_bytes(2, "little"), not_a_node),
        (start + 16, (PAGE - 4).to_bytes(2, "little"), not_a_node),
        (first_node + 6, b"\xff\xff", f"page {main} has a key beyond its end"),
        (first_node + 4, b"\x00\x00", ""),
    ):
        changed(folder, place, content)
        if sentence:
            assert sentence in fault(folder)
        (folder / "data.mdb").write_bytes(sound)
    assert check_pages(folder / "data.mdb") > 20


def checked(folder: Path) -> int | str:
    """The number of pages, or what is wrong."""
    try:
        return check_pages(folder / "data.mdb")
    except DamagedPage as error:
        return str(error)


def test_values_on_pages_of_their_own(folder: Path) -> None:
    sound = (folder / "data.mdb").read_bytes()
    pages = check_pages(folder / "data.mdb")
    used = 0
    for page in pages_of(folder, 4):
        place = page * PAGE + 12
        count = number_at(folder, place, 4)
        changed(folder, place, bytes(4))
        if checked(folder) != pages:  # others are no longer in use
            used += count
            assert checked(folder) == f"page {page} has no content"
            changed(folder, place, (1 << 30).to_bytes(4, "little"))
            assert checked(folder) == f"page {page + (1 << 30) - 1} is beyond the last page"
            changed(folder, place, (count - 1 or 1).to_bytes(4, "little"))
            assert checked(folder) == pages - (count > 1)
        (folder / "data.mdb").write_bytes(sound)
    assert 50 < used < pages


def test_values_beyond_the_end_of_their_page(folder: Path) -> None:
    sound = (folder / "data.mdb").read_bytes()
    pages = check_pages(folder / "data.mdb")
    seen = set()
    for page in pages_of(folder, 2):
        node = page * PAGE + number_at(folder, page * PAGE + 16, 2)
        if number_at(folder, node + 4, 2) == 0:
            room = PAGE - (node - page * PAGE) - 8 - number_at(folder, node + 6, 2)
            changed(folder, node, room.to_bytes(2, "little"))
            assert checked(folder) == pages
            changed(folder, node, (room + 1).to_bytes(2, "little"))
            seen.add((checked(folder), page))
            (folder / "data.mdb").write_bytes(sound)
    assert {(f"page {page} has a value beyond its end", page) for _, page in seen} & seen


def test_a_file_may_lack_pages_that_are_not_in_use(folder: Path) -> None:
    """LMDB never writes pages that were allocated and freed in one transaction."""
    state = newest_state(folder)
    last = number_at(folder, state + LAST_PAGE, 8)
    changed(folder, state + LAST_PAGE, (last + 3).to_bytes(8, "little"))
    check_file(folder / "data.mdb")
    with open(folder / "data.mdb", "r+b") as file:
        file.truncate(last * PAGE)
    with pytest.raises(DamagedPage, match="is missing"):
        check_file(folder / "data.mdb")


def test_pages_of_zeros(folder: Path) -> None:
    changed(folder, 2 * PAGE, bytes((folder / "data.mdb").stat().st_size - 2 * PAGE))
    with pytest.raises(UsageError, match="damaged"):
        Store.open(folder)
