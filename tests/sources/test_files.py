"""Archived oplogs as a source: an interval contains the entries of the whole archive in that time."""

import gzip
import pickle
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import bson
import pytest
from bson import Binary, Int64, Timestamp
from bson.json_util import CANONICAL_JSON_OPTIONS, dumps

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, DamagedInputError, UsageError
from tailrace.events.event_token import resume_token
from tailrace.events.oplog_entry import parse_entry
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.planning import Planner
from tests.support.bulk import generate_bulk
from tests.support.history import History, dump, timestamp_of
from tests.support.seeds import check_histories
from tests.support.shared_events import shared_events
from tests.support.workload import generate

WRITERS: dict[str, Callable[[list[bytes]], bytes]] = {
    ".bson": dump,
    ".bson.gz": lambda entries: gzip.compress(dump(entries)),
    ".jsonl": lambda entries: "".join(
        dumps(bson.decode(raw), json_options=CANONICAL_JSON_OPTIONS) + "\n" for raw in entries
    ).encode(),
}


def archive(folder: Path, entries: list[bytes], kind: str = ".bson", files: int = 1) -> list[str]:
    size = -(-len(entries) // files)
    paths = []
    for number in range(files):
        path = folder / f"oplog-{number}{kind}"
        path.write_bytes(WRITERS[kind](entries[number * size : (number + 1) * size]))
        paths.append(str(path))
    return paths


def read(source: FilesSource, after: int, through: int, shard: str = "") -> list[bytes]:
    return [raw for batch in source.entries(shard, after, through) for raw in batch]


def entry(ts: int, document: dict[str, object]) -> bytes:
    key = {"_id": document["_id"]}
    return bson.encode({
        "op": "i", "ns": "shop.orders", "ui": Binary(bytes(16), 4), "o": document, "o2": key,
        "ts": Timestamp(ts, 1), "t": Int64(1), "v": Int64(2), "wall": bson.DatetimeMS(ts * 1000),
    })  # fmt: skip


@pytest.mark.parametrize(("kind", "files"), [(".bson", 1), (".bson", 3), (".bson.gz", 2), (".jsonl", 2)])
def test_an_interval_contains_the_entries_between_its_times(tmp_path: Path, kind: str, files: int) -> None:
    entries = list(generate_bulk(7, 600 if kind == ".jsonl" else 3000))
    times = [timestamp_of(raw) for raw in entries]
    source = pickle.loads(pickle.dumps(FilesSource({"": archive(tmp_path, entries, kind, files)})))
    assert (source.shards(), source.oldest(), source.promised()) == (("",), times[0], times[-1])
    rng = random.Random(kind)
    for _ in range(20):
        after, through = sorted(rng.choices([times[0] - 1, *times, times[-1] + 5], k=2))
        expected = [raw for raw, time in zip(entries, times, strict=True) if after < time <= through]
        assert read(source, after, through) == expected


def test_pieces_of_several_shards_have_the_same_times_and_every_entry_once(tmp_path: Path) -> None:
    shards = {}
    logs = {}
    for number, count in enumerate((9000, 6000, 0, 3000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        logs[f"s{number}"] = list(generate_bulk(number, count))
        shards[f"s{number}"] = archive(folder, logs[f"s{number}"], files=2)
    source = FilesSource(shards)
    through = source.promised()
    for parts in (1, 2, 5):
        intervals = Planner(source).intervals(0, through, parts)
        assert len(intervals) == parts
        assert intervals[0][0] == 0
        assert intervals[-1][1] == through
        assert all(stop == begin for (_, stop), (begin, _) in pairwise(intervals))
        for shard, log in logs.items():
            assert [raw for begin, stop in intervals for raw in read(source, begin, stop, shard)] == log
        sizes = [sum(len(raw) for s in logs for raw in read(source, *part, s)) for part in intervals]
        assert max(sizes) < 1.6 * sum(sizes) / parts


@pytest.fixture(scope="module")
def two_shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    shards = {}
    for number in range(2):
        folder = tmp_path_factory.mktemp(f"shard{number}")
        shards[f"s{number}"] = archive(folder, list(generate_bulk(number, 20_000)))
    return shards


@pytest.mark.parametrize("max_entries", [1, 7, 500, 25_000])
def test_a_limited_interval_respects_its_limit(two_shards: dict[str, list[str]], max_entries: int) -> None:
    logs = two_shards
    source = FilesSource(logs)
    through = source.promised()
    after = source.oldest() - 1
    for _ in range(1 if max_entries > 20_000 else 3):
        stop = Planner(source).limit(after, through, max_entries, 1 << 62)
        count = sum(len(read(source, after, stop, shard)) for shard in logs)
        # Both shards have an entry at every time, and a time is never split; large limits are estimated.
        assert 0 < count <= max(max_entries * 1.3, 2)
        assert count >= max_entries * 0.7 - 2
        after = stop
    after = 0
    size = sum(len(raw) for shard in logs for raw in read(source, after, through, shard))
    stop = Planner(source).limit(after, through, 1 << 62, size // 3)
    taken = sum(len(raw) for shard in logs for raw in read(source, after, stop, shard))
    assert size // 6 < taken < size // 2


def test_entries_inside_a_stored_document_are_not_read_as_entries_of_the_oplog(tmp_path: Path) -> None:
    # A collection that contains the backup of another oplog.
    inner = dump(entry(200 + n, {"_id": n}) for n in range(2000))
    entries = [entry(1000 + n, {"_id": n, "backup": inner} if n % 3 == 1 else {"_id": n}) for n in range(31)]
    source = FilesSource({"": archive(tmp_path, entries)})
    times = [timestamp_of(raw) for raw in entries]
    assert source.promised() == times[-1]
    for index in range(30):
        for after, through in (
            (times[index] - 1, times[index]),
            (times[index], times[-1]),
            (0, times[index]),
        ):
            expected = [raw for raw, time in zip(entries, times, strict=True) if after < time <= through]
            assert read(source, after, through) == expected


def test_a_damaged_end_is_reported_after_the_entries_before_it(tmp_path: Path) -> None:
    entries = list(generate_bulk(3, 500))
    for kind in (".bson", ".bson.gz"):
        path = tmp_path / f"oplog{kind}"
        path.write_bytes(WRITERS[kind](entries)[:-20])
        source = FilesSource({"": [str(path)]})
        found: list[bytes] = []
        batches = source.entries("", 0, source.promised())
        with pytest.raises(DamagedInputError, match="middle") as raised:
            found.extend(raw for batch in batches for raw in batch)
        assert raised.value.path == str(path)
        assert entries[: len(found)] == found
        assert len(found) == 499 or kind == ".bson.gz"


def test_entries_out_of_order_are_damage(tmp_path: Path) -> None:
    entries = list(generate_bulk(3, 500))
    entries[250], entries[251] = entries[251], entries[250]
    source = FilesSource({"": archive(tmp_path, entries)})
    with pytest.raises(DamagedInputError, match="does not come after"):
        read(source, 0, source.promised())


def test_the_identity_does_not_change_when_files_are_added_and_differs_between_oplogs(tmp_path: Path) -> None:
    entries = list(generate_bulk(3, 500))
    first, second = archive(tmp_path, entries, files=2)
    source = FilesSource({"": [first]})
    assert FilesSource({"": [first, second]}).identity() == source.identity()
    assert FilesSource({"": [second]}).identity() != source.identity()
    assert FilesSource({"a": [first]}).identity() != source.identity()


def test_an_interval_before_the_first_entry_is_lost_history(tmp_path: Path) -> None:
    entries = list(generate_bulk(3, 50))
    source = FilesSource({"": archive(tmp_path, entries)})
    assert read(source, source.beginning(), source.promised()) == entries
    with pytest.raises(CommandError) as raised:
        read(source, 5, source.promised())
    assert raised.value.code == ErrorCode.ChangeStreamHistoryLost


def test_paths_without_an_oplog_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        FilesSource({"": [str(tmp_path / "missing.bson")]})
    with pytest.raises(UsageError, match="no regular file"):
        FilesSource({"": ["/dev/null"]})
    path = archive(tmp_path, list(generate_bulk(3, 5)))
    with pytest.raises(UsageError, match="no oplog of it"):
        FilesSource({"a": path}, pre_images={"b": path})


@pytest.mark.parametrize("kind", [".bson", ".bson.gz"])
def test_the_events_of_all_intervals_are_those_of_the_whole_archive(tmp_path: Path, kind: str) -> None:
    """Entries of transactions that began in an earlier interval are found, and so are pre-images."""

    def law(history: History) -> None:
        rng = random.Random(history.seed)
        shards = {}
        for number, log in enumerate(history.split(3, history.seed)):
            folder = tmp_path / f"{history.seed}-{number}"
            folder.mkdir()
            shards[f"s{number}"] = archive(folder, log, kind, files=rng.choice((1, 2)))
        images = tmp_path / f"{history.seed}-images.bson"
        images.write_bytes(dump(history.pre_image_documents()))
        source = FilesSource(shards, pre_images={None: [str(images)]})
        whole = facts(source, 0, source.promised())
        assert all(left[0] < right[0] for left, right in pairwise(whole))
        cuts = sorted({0, *rng.sample(history.timestamps, 3), source.promised()})
        assert [fact for cut in pairwise(cuts) for fact in facts(source, *cut)] == whole
        stored = {image for _, _, image in whole if image is not None}
        assert stored <= set(history.pre_images.values())
        assert stored or not history.pre_images

    check_histories(range(20260700, 20260712), law)


def facts(source: FilesSource, after: int, through: int) -> list[tuple[str, str, bytes | None]]:
    lists = list(shared_events(source, after, through))
    times = [{event.cluster_time for event in events} for events in lists]
    assert all(not left & right for left, right in pairwise(times))
    return [
        (resume_token(event).data, event.operation_type, event.pre_image)
        for events in lists
        for event in events
    ]


def test_single_entries_are_found_by_time_and_term(tmp_path: Path) -> None:
    history = generate(20260718, 60)
    source = FilesSource({"": archive(tmp_path, history.entries, files=2)})
    entry = source.lookups("", 0, source.promised()).entry
    for raw in history.entries:
        found = parse_entry(raw)
        assert entry(found.ts, found.term) == raw
        assert entry(found.ts, found.term + 1) is None
        assert entry(found.ts - 1, found.term) != raw
