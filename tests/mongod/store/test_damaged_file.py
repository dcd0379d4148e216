"""A damaged data directory is refused with one sentence, before LMDB maps the file."""

from pathlib import Path

import pytest

from tailrace.bson.documents import encode
from tailrace.errors import UsageError
from tailrace.mongod.store.files.page_file import check_pages
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


@pytest.mark.parametrize("size", [0, 100, PAGE, 2 * PAGE, 4 * PAGE, 20 * PAGE])
def test_a_truncated_file(folder: Path, size: int) -> None:
    with open(folder / "data.mdb", "r+b") as file:
        file.truncate(size)
    sentence = refusal(folder)
    assert "is empty" in sentence if not size else "damaged" in sentence


def test_a_foreign_file(folder: Path) -> None:
    (folder / "data.mdb").write_bytes(b"this is not LMDB" * 1000)
    assert "not a file of LMDB" in refusal(folder)


@pytest.mark.parametrize("place", [10, 16, 20, 40, PAGE + 16])
def test_a_damaged_page_of_states(folder: Path, place: int) -> None:
    changed(folder, place, b"\xa5\x5a\xa5")
    assert "damaged" in refusal(folder)


def test_every_page_of_a_sound_file(folder: Path) -> None:
    assert check_pages(folder / "data.mdb") > 20
    Store.open(folder).close()


def test_pages_of_zeros(folder: Path) -> None:
    changed(folder, 2 * PAGE, bytes((folder / "data.mdb").stat().st_size - 2 * PAGE))
    with pytest.raises(UsageError, match="damaged"):
        Store.open(folder)
