"""The oplog in archives of `mongodump`: the same entries as in a dump of files, and damage is found."""

import gzip
import random
from pathlib import Path

import pytest
from bson import encode

from tailrace.errors import DamagedInputError, UsageError
from tailrace.events.cluster_time import END_OF_TIME
from tailrace.sources.archives.archive import ArchivedOplog
from tailrace.sources.archives.shard_files import ShardFiles
from tests.sources.archive_samples import dump_archive, entries, entry

OPLOGS = (".oplog", "local.oplog.rs")
OTHERS = {
    "shop.orders": [encode({"_id": number, "text": "x" * number}) for number in range(40)],
    "shop.oplog": entries(3, first=100),  # a collection with a name like that
    "shop.empty": [],
}


def read(path: Path) -> tuple[list[bytes], DamagedInputError | None]:
    """Return all entries before the end or the damage, and the damage."""
    found: list[bytes] = []
    try:
        for batch in ArchivedOplog([str(path)]).batches():
            found += batch.entries
    except DamagedInputError as error:
        return found, error
    return found, None


@pytest.mark.parametrize("oplog", OPLOGS)
@pytest.mark.parametrize("name", ["dump.archive", "dump.archive.gz", "dump"])
def test_an_archive_has_the_entries_of_its_oplog(tmp_path: Path, oplog: str, name: str) -> None:
    wanted = entries(30)
    content = dump_archive({**OTHERS, oplog: wanted})
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read(path) == (wanted, None)


def test_the_same_intervals_are_found_again(tmp_path: Path) -> None:
    wanted = entries(30)
    path = tmp_path / "dump.archive"
    path.write_bytes(dump_archive({**OTHERS, ".oplog": wanted}))
    files = ShardFiles([str(path)])
    assert [raw for batch in files.entries(0, END_OF_TIME) for raw in batch] == wanted
    second = 100 << 32
    assert [raw for batch in files.entries(second | 4, second | 9) for raw in batch] == wanted[4:9]
    files.close()


def test_more_entries_than_one_read(tmp_path: Path) -> None:
    wanted = [entry(number, o={"_id": number, "text": "x" * 5000}) for number in range(1, 2500)]
    path = tmp_path / "dump.archive"
    # The checksum of that much takes seconds bit by bit; without its end the oplog is not complete.
    content = dump_archive({".oplog": wanted[:1]})
    path.write_bytes(content[: content.index(wanted[0])] + b"".join(wanted))
    found, damage = read(path)
    assert found == wanted
    assert damage is not None
    assert "the archive ends before its oplog does" in damage.reason


def test_an_oplog_without_entries(tmp_path: Path) -> None:
    path = tmp_path / "dump.archive"
    path.write_bytes(dump_archive({**OTHERS, ".oplog": []}))
    assert read(path) == ([], None)


def test_an_archive_without_an_oplog(tmp_path: Path) -> None:
    path = tmp_path / "dump.archive"
    path.write_bytes(dump_archive(OTHERS))
    with pytest.raises(UsageError, match="without its oplog"):
        read(path)


def test_an_archive_that_is_cut_off_anywhere_gives_the_entries_before(tmp_path: Path) -> None:
    wanted = entries(20)
    whole = dump_archive({"shop.orders": OTHERS["shop.orders"][:10], ".oplog": wanted})
    path = tmp_path / "dump.archive"
    for end in range(4, len(whole) - 4, 11):
        path.write_bytes(whole[:end])
        try:
            found, damage = read(path)
        except UsageError:
            assert whole.index(wanted[0]) > end
            continue
        assert found == wanted[: len(found)]
        assert damage is not None, f"cut off after {end} bytes"


def test_a_changed_bit_in_the_oplog_is_found(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    wanted = entries(20)
    whole = dump_archive({"shop.orders": OTHERS["shop.orders"][:10], ".oplog": wanted})
    path = tmp_path / "dump.archive"
    for _ in range(50):
        changed = chance.choice(wanted)
        place = whole.index(changed) + chance.randrange(4, len(changed))
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]
        )
        assert read(path)[1] is not None, f"byte {place}"
