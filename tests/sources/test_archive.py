"""Archived oplogs: every format gives the same entries, and all entries before a damaged place are read."""

import gzip
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import bson
import pytest
from bson import json_util
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.bson import documents, extjson
from tailrace.bson import raw as rawbson
from tailrace.errors import DamagedInputError, UsageError
from tailrace.sources.archives import documents as archive_documents
from tailrace.sources.archives.archive import ArchivedOplog, EntryBatch
from tailrace.sources.archives.documents import MAX_BATCH
from tailrace.sources.archives.entries import entry_time
from tests.sources.archive_samples import entries, entry, times


def read(*paths: Path) -> tuple[list[bytes], DamagedInputError | None]:
    """Return all entries before the end or the damage, and the damage."""
    found: list[bytes] = []
    try:
        for batch in ArchivedOplog([str(path) for path in paths]).batches():
            found += batch.entries
    except DamagedInputError as error:
        return found, error
    return found, None


def canonical(raw_entries: list[bytes]) -> bytes:
    return "".join(extjson.dumps_canonical(raw) + "\n" for raw in raw_entries).encode()


def relaxed(raw_entries: list[bytes]) -> bytes:
    options = json_util.RELAXED_JSON_OPTIONS
    lines = [json_util.dumps(documents.decode(raw), json_options=options) for raw in raw_entries]
    return "\r\n\n".join(lines).encode()  # blank lines, other line ends, and no newline at the end


FORMATS: dict[str, Callable[[list[bytes]], bytes]] = {
    "oplog.bson": b"".join,
    "oplog.bson.gz": lambda raw: gzip.compress(b"".join(raw)),
    "compressed by mongodump.bson": lambda raw: gzip.compress(b"".join(raw)),
    "OPLOG.BSON": b"".join,
    "no suffix": b"".join,
    "no suffix.gz": lambda raw: gzip.compress(b"".join(raw)),
    "oplog.json": canonical,
    "oplog.jsonl": relaxed,
    "oplog.ndjson.gz": lambda raw: gzip.compress(canonical(raw)),
    "oplog-2024-01-01": canonical,
    "marked.jsonl": lambda raw: b"\xef\xbb\xbf" + canonical(raw),
    "marked and unnamed": lambda raw: b"\xef\xbb\xbf" + canonical(raw),
    "members.bson.gz": lambda raw: gzip.compress(raw[0]) + gzip.compress(b"".join(raw[1:])) + bytes(100),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_entries(tmp_path: Path, name: str) -> None:
    wanted = entries(30)
    path = tmp_path / name
    path.write_bytes(FORMATS[name](wanted))
    assert read(path) == (wanted, None)


def test_relaxed_json_entries_have_their_64_bit_counters(tmp_path: Path) -> None:
    session = {"id": bson.Binary(bytes(16), 4), "uid": b"u", "txnNumber": bson.Int64(3)}
    wanted = entry(
        1,
        lsid=session,
        txnNumber=bson.Int64(4),
        prevOpTime={"ts": bson.Timestamp(0, 0), "t": bson.Int64(-1)},
    )
    path = tmp_path / "oplog.json"
    path.write_bytes(relaxed([wanted]))
    assert read(path) == ([wanted], None)


@pytest.mark.parametrize("name", ["empty.bson", "empty.json", "empty"])
def test_an_empty_file_is_an_empty_oplog(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    assert read(path) == ([], None)


def test_batches_are_bounded_and_contain_the_offsets_of_their_entries(tmp_path: Path) -> None:
    path = tmp_path / "oplog.bson"
    wanted = entries(2 * MAX_BATCH + 7)
    path.write_bytes(b"".join(wanted))
    oplog = ArchivedOplog([str(path)])
    batches: list[EntryBatch] = list(oplog.batches())
    assert max(len(batch.entries) for batch in batches) == MAX_BATCH
    assert [raw for batch in batches for raw in batch.entries] == wanted
    content = path.read_bytes()
    for batch in batches:
        assert batch.last_time == entry_time(batch.entries[-1])
        for raw, offset in zip(batch.entries, batch.offsets, strict=True):
            assert content[offset : offset + len(raw)] == raw
    assert oplog.consumed == oplog.size == len(content)


def test_entries_larger_than_a_read_of_the_file(tmp_path: Path) -> None:
    wanted = [
        entry(n, o={"_id": n, "blob": os.urandom(size)}) for n, size in enumerate([9 << 20, 1, 5 << 20])
    ]
    plain, packed, text = tmp_path / "a.bson", tmp_path / "a.gz", tmp_path / "a.json"
    plain.write_bytes(b"".join(wanted))
    packed.write_bytes(gzip.compress(b"".join(wanted), 0))
    text.write_bytes(canonical(wanted))
    for path in (plain, packed, text):
        found, damage = read(path)
        assert damage is None
        assert found == wanted


# Folders


def test_a_folder_is_read_in_the_order_of_first_entries(tmp_path: Path) -> None:
    wanted = entries(30)
    (tmp_path / "z.bson").write_bytes(b"".join(wanted[:10]))
    (tmp_path / "m.json").write_bytes(canonical(wanted[10:20]))
    (tmp_path / "a.bson.gz").write_bytes(gzip.compress(b"".join(wanted[20:])))
    (tmp_path / "b.bson").touch()
    (tmp_path / ".hidden.bson").write_bytes(b"junk")
    (tmp_path / "oplog.rs.metadata.json").write_text("{}")
    (tmp_path / "oplog.rs.metadata.json.gz").write_bytes(gzip.compress(b"{}"))
    (tmp_path / "prelude.json").write_text("{}")
    (tmp_path / "admin").mkdir()
    assert read(tmp_path) == (wanted, None)


def test_a_folder_with_a_damaged_first_entry_is_read_by_name(tmp_path: Path) -> None:
    wanted = entries(20)
    (tmp_path / "1.bson").write_bytes(b"".join(wanted[:10]))
    (tmp_path / "2.bson").write_bytes(b"\xff" * 9)
    (tmp_path / "0.bson").write_bytes(b"".join(entries(3, second=50)))
    found, damage = read(tmp_path)
    assert found == entries(3, second=50) + wanted[:10]
    assert damage is not None
    assert damage.path == str(tmp_path / "2.bson")


def test_files_are_read_in_the_order_of_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"".join(entries(3)))
    (tmp_path / "a").write_bytes(b"".join(entries(3, first=4)))
    found, damage = read(tmp_path / "b", tmp_path / "a")
    assert damage is None
    assert times(found) == [1, 2, 3, 4, 5, 6]
    found, damage = read(tmp_path / "a", tmp_path / "b")
    assert times(found) == [4, 5, 6]
    assert damage is not None
    assert (damage.path, damage.offset) == (str(tmp_path / "b"), 0)


def test_missing_files_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        ArchivedOplog([str(tmp_path / "missing.bson")])
    with pytest.raises(UsageError, match="holds no oplog files"):
        ArchivedOplog([str(tmp_path)])
    with pytest.raises(UsageError, match="is empty"):
        ArchivedOplog([""])


# Damage


def without(name: str) -> bytes:
    return documents.encode({k: v for k, v in documents.decode(entry(9)).items() if k != name})


DAMAGED = {
    "length too small": (b"\x04\0\0\0\0", "impossible document length 4"),
    "length negative": (b"\xff\xff\xff\xff\0", "impossible document length -1"),
    "length too large": (b"\0\0\0\x02\0", "impossible document length 33554432"),
    "no final NUL": (entry(9)[:-1] + b"\x01", "does not end in a NUL"),
    "cut in the middle": (entry(9)[:-20], "ends in the middle of a document"),
    "cut in the length": (entry(9)[:3], "ends in the middle of a document"),
    "no ts": (without("ts"), "no Timestamp called `ts`"),
    "no op": (without("op"), "no string called `op`"),
    "no ns": (without("ns"), "no string called `ns`"),
    "no o": (without("o"), "no document called `o`"),
    "ts of another type": (entry(9, ts=1), "no Timestamp called `ts`"),
    "ns of another type": (entry(9, ns=1), "no string called `ns`"),
    "o of another type": (entry(9, o=[1]), "no document called `o`"),
    "a field that runs over": (b"\x0c\0\0\0\x02a\0\xff\0\0\0\0", "past the end"),
    "the same ts again": (entry(5), "does not come after"),
    "an earlier ts": (entry(4), "does not come after"),
}


@pytest.mark.parametrize("ahead", [0, MAX_BATCH - 1])
@pytest.mark.parametrize("kind", DAMAGED)
def test_the_damage_is_reported_after_the_entries_before_it(tmp_path: Path, kind: str, ahead: int) -> None:
    raw, reason = DAMAGED[kind]
    good = [entry(n, second=50) for n in range(1, ahead + 1)] + entries(5)
    path = tmp_path / "oplog.bson"
    path.write_bytes(b"".join(good) + raw)
    for file, content in ((path, None), (tmp_path / "oplog.bson.gz", gzip.compress(path.read_bytes()))):
        if content is not None:
            file.write_bytes(content)
        found, damage = read(file)
        assert found == good
        assert damage is not None
        assert (damage.path, damage.offset) == (str(file), len(b"".join(good)))
        assert reason in damage.reason


@pytest.mark.parametrize("broken", [b'{"op": "i"', b"nonsense", b'{"op": "\xff"}', b"[]", b'{"ts": 1}'])
def test_a_damaged_line_is_reported_with_its_offset(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "oplog.json"
    good = entries(5)
    path.write_bytes(canonical(good) + b"\n  \n" + broken + b"\n" + canonical([entry(9)]))
    found, damage = read(path)
    assert found == good
    assert damage is not None
    assert damage.offset == len(canonical(good)) + 4


def test_a_line_longer_than_any_document_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = entry(9, o={"_id": 9, "blob": bytes(rawbson.MAX_INTERNAL_SIZE)})
    path = tmp_path / "oplog.json"
    path.write_bytes(canonical([entry(1), large]))
    found, damage = read(path)
    assert found == [entry(1)]
    assert damage is not None
    assert damage.offset == len(canonical([entry(1)]))
    assert f"a document of {len(large)} bytes" in damage.reason
    monkeypatch.setattr(archive_documents, "MAX_LINE", 8 << 20)
    path.write_bytes(canonical([entry(1)]) + b"x" * (13 << 20))
    found, damage = read(path)
    assert found == [entry(1)]
    assert damage is not None
    assert "longer than any document" in damage.reason


def test_a_no_op_may_have_no_document(tmp_path: Path) -> None:
    path = tmp_path / "oplog.bson"
    path.write_bytes(entry(1, op="n", o="bare text"))
    assert read(path) == ([path.read_bytes()], None)


def test_unknown_content_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "README"
    path.write_text("Hello, this is a text.")
    _, damage = read(path)
    assert damage is not None
    assert "neither BSON nor" in damage.reason


def test_a_file_named_gz_must_be_gzip(tmp_path: Path) -> None:
    path = tmp_path / "oplog.bson.gz"
    path.write_bytes(b"".join(entries(5)))
    found, damage = read(path)
    assert found == []
    assert damage is not None
    assert "gzip" in damage.reason
    path.write_bytes(b"")
    assert read(path)[1] is not None


def test_a_bson_length_that_looks_like_gzip_is_bson(tmp_path: Path) -> None:
    size = 0x00088B1F
    raw = entry(1, o={"_id": 1, "pad": ""})
    raw = entry(1, o={"_id": 1, "pad": "x" * (size - len(raw))})
    assert raw.startswith(b"\x1f\x8b\x08\x00")
    path = tmp_path / "oplog.bson"
    path.write_bytes(raw)
    assert read(path) == ([raw], None)


def noisy_entries(count: int, *, noise: int) -> list[bytes]:
    """Return entries that do not compress well."""
    return [entry(n, o={"_id": n, "noise": random.Random(n).randbytes(noise)}) for n in range(1, count + 1)]


@settings(derandomize=False, print_blob=True, max_examples=60)
@given(st.data())
def test_a_truncated_gzip_file_gives_its_first_entries_and_the_offset_of_the_end(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = noisy_entries(60, noise=40)
    content = b"".join(good)
    packed = gzip.compress(content)
    cut = data.draw(st.integers(0, len(packed) - 1))
    path = tmp_path_factory.mktemp("cut") / "oplog.bson.gz"
    path.write_bytes(packed[:cut])
    # The entries are those that zlib can decompress from the remaining part.
    left = zlib.decompressobj(wbits=31).decompress(packed[:cut])
    found, damage = read(path)
    assert damage is not None
    assert content.startswith(left)
    assert damage.offset == len(left)
    assert b"".join(found) == content[: len(b"".join(found))]
    assert len(left) - len(b"".join(found)) < len(good[0]) + 60
    assert "ends in the middle" in damage.reason
    assert "uncompressed" in damage.reason


@settings(derandomize=False, print_blob=True, max_examples=60)
@given(st.data())
def test_a_corrupt_gzip_file_never_gives_wrong_entries_silently(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    good = noisy_entries(60, noise=40)
    packed = bytearray(gzip.compress(b"".join(good)))
    place = data.draw(st.integers(20, len(packed) - 1))
    packed[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("corrupt") / "oplog.bson.gz"
    path.write_bytes(packed)
    found, damage = read(path)
    # The bits that fill the last byte of the compressed data mean nothing.
    assert damage is not None or found == good


def test_entries_before_corrupt_gzip_data_are_read(tmp_path: Path) -> None:
    good = noisy_entries(400, noise=400)
    content = b"".join(good)
    packer = zlib.compressobj(wbits=31)
    head = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    path = tmp_path / "oplog.bson.gz"
    path.write_bytes(head + b"\xff" * 50)  # 0xff begins a block of an invalid type
    found, damage = read(path)
    assert found == good
    assert damage is not None
    assert damage.offset == len(content)
    assert "corrupt" in damage.reason


# Times of entries


def test_the_time_is_found_at_any_place_in_the_entry() -> None:
    plain = entry(7)
    fields = documents.decode(plain)
    reversed_fields = dict(reversed(fields.items()))
    retryable = {
        "lsid": {"id": 1},
        "txnNumber": bson.Int64(1),
        **fields,
        "prevOpTime": {"ts": bson.Timestamp(1, 1)},
    }
    for variant in (fields, reversed_fields, retryable, {**fields, "o": {"ts": bson.Timestamp(1, 1)}}):
        assert entry_time(documents.encode(variant)) == 100 << 32 | 7


@settings(derandomize=False, print_blob=True)
@given(st.data())
def test_random_bytes_are_an_entry_or_refused(data: st.DataObject) -> None:
    raw = bytearray(entry(7))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        time = entry_time(bytes(raw))
    except ValueError:
        return
    assert 0 <= time < 1 << 64
    assert rawbson.UINT64_LE.pack(time) in raw
