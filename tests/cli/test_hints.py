"""What new users write, and the sentence that helps them."""

import gzip
from pathlib import Path

import pytest
from bson import encode

from tests.cli.console import Here
from tests.sources.archive_samples import dump_archive, entries


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("watch", "a:1,b:2/?replicaSet=rs0"), "write mongodb://a:1,b:2/?replicaSet=rs0"),
        (("pipeline", "--source", "localhost:27017", "--history", "h"), "write mongodb://localhost:27017"),
    ],
)
def test_an_address_without_a_scheme(here: Here, arguments: tuple[str, ...], hint: str) -> None:
    outcome = here(*arguments)
    assert outcome.code == 2
    assert hint in outcome.sentence


def test_status_of_an_address_without_a_scheme(here: Here) -> None:
    outcome = here("status", "localhost:27017")
    assert outcome.code == 2
    assert "write mongodb://localhost:27017" in outcome.lines[0]


@pytest.mark.parametrize("name", ["shop.orders,returns", "shop.orders,shop.returns"])
def test_several_collections(here: Here, tailrace_uri: str, name: str) -> None:
    stage = '{"$match": {"ns.coll": {"$in": ["orders", "returns"]}}}'
    for arguments in (("watch", tailrace_uri, name), ("replay", "--explain", "--ns", name)):
        outcome = here(*arguments)
        assert outcome.code == 2
        assert f"watch the database shop with --pipeline '[{stage}]'" in outcome.sentence


@pytest.mark.parametrize("name", ["dump.archive", "dump.gz", "oplog.bson"])
def test_an_archive_of_mongodump_without_an_oplog(here: Here, tmp_path: Path, name: str) -> None:
    content = dump_archive({"shop.orders": [encode({"_id": 1})]})
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    outcome = here("replay", tmp_path / name)
    assert outcome.code == 2
    assert "was written by mongodump --archive without its oplog; add --oplog" in outcome.sentence


def test_an_archive_of_mongodump_as_the_dump_of_a_collection(here: Here, tmp_path: Path) -> None:
    archive, oplog = tmp_path / "dump.archive", tmp_path / "oplog.bson"
    archive.write_bytes(dump_archive({"shop.orders": [encode({"_id": 1})]}))
    oplog.write_bytes(b"".join(entries(1)))
    options = '{"fullDocument": "updateLookup"}'
    outcome = here("replay", oplog, "--documents", f"shop.orders={archive}", "--options", options)
    assert outcome.code == 2
    assert "name the file of the collection" in outcome.sentence


@pytest.mark.parametrize(
    ("name", "product"),
    [("WiredTiger", "a MongoDB server"), ("PG_VERSION", "PostgreSQL"), ("_delta_log", "a Delta")],
)
def test_a_data_folder_of_another_product(here: Here, tmp_path: Path, name: str, product: str) -> None:
    (tmp_path / name).write_text("")
    outcome = here("serve", "--no-spark", "--port", "0", "--data", tmp_path)
    assert outcome.code == 2
    assert f"it is that of {product}" in outcome.sentence
    assert [path.name for path in tmp_path.iterdir()] == [name]
