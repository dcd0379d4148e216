"""The spool: entries of transactions are found by position until released, and then their space is freed."""

from typing import Any

import pytest
from bson import Int64, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.sources.archives import entry_spool
from tailrace.sources.archives.entry_spool import EntrySpool
from tests.sources.archive_samples import entry

NULL = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def optime(number: int) -> dict[str, Any]:
    return NULL if number == 0 else {"ts": Timestamp(100, number), "t": Int64(1)}


def position(number: int) -> tuple[int, int]:
    return 100 << 32 | number, 1


def chained(number: int, previous: int, /, *, operations: int = 1, **extra: Any) -> bytes:
    """Return an applyOps entry at ``number`` that is linked to ``previous`` (0: to none)."""
    operation = {"op": "i", "ns": "a.b", "o": {"_id": number, "pad": "x" * 100}}
    return command(number, previous, {"applyOps": [operation] * operations, **extra})


def command(number: int, previous: int, o: dict[str, Any], **envelope: Any) -> bytes:
    return entry(number, op="c", ns="admin.$cmd", o=o, prevOpTime=optime(previous), **envelope)


def test_the_entries_of_a_transaction_are_found_until_its_end_is_released() -> None:
    first, second = chained(1, 0, partialTxn=True), chained(2, 1, partialTxn=True)
    with EntrySpool() as spool:
        spool.add([entry(9, second=90), first, second])
        spool.add([chained(3, 2, count=Int64(3))])
        assert spool.find(*position(1)) == first
        assert spool.find(*position(2)) == second
        assert spool.find(*position(3)) is None
        spool.release()
        assert spool.find(*position(1)) is None
        assert len(spool) == 0


@pytest.mark.parametrize(
    "end", [{"commitTransaction": 1, "commitTimestamp": Timestamp(1, 1)}, {"abortTransaction": 1}]
)
def test_a_prepared_transaction_is_stored_until_its_end(end: dict[str, Any]) -> None:
    partial, prepared = chained(1, 0, partialTxn=True), chained(2, 1, prepare=True)
    with EntrySpool() as spool:
        spool.add([partial, prepared])
        spool.release()
        assert spool.find(*position(2)) == prepared
        spool.add([command(5, 2, end)])
        assert spool.find(*position(1)) == partial
        spool.release()
        assert len(spool) == 0


def test_the_term_is_part_of_the_position() -> None:
    with EntrySpool() as spool:
        spool.add([chained(1, 0, prepare=True)])
        assert spool.find(100 << 32 | 1, 2) is None
        assert spool.find(100 << 32 | 1, 1) is not None


def test_field_names_in_documents_do_not_make_an_entry_part_of_a_transaction() -> None:
    with EntrySpool() as spool:
        spool.add(
            [
                entry(1, o={"_id": 1, "partialTxn": True, "prepare": True}),
                chained(2, 0, prepare=False),
                entry(3, op="c", ns="shop.$cmd", o={"collMod": "orders", "prepare": True}),
            ]
        )
        assert len(spool) == 0


def test_a_retryable_write_does_not_end_a_transaction() -> None:
    with EntrySpool() as spool:
        spool.add([chained(1, 0, prepare=True)])
        spool.add([entry(2, prevOpTime=optime(7)), command(3, 1, {"applyOps": []}, multiOpType=1)])
        spool.release()
        assert spool.find(*position(1)) is not None


def test_damaged_entries_are_not_stored() -> None:
    broken = chained(1, 0, partialTxn=True)
    broken = broken[:20] + b"\xff" + broken[21:]
    with EntrySpool() as spool:
        spool.add([broken, b"partialTxn\0"])
        assert len(spool) == 0


@settings(derandomize=False, print_blob=True)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 2**32))
def test_interleaved_transactions(steps: list[int], seed: int) -> None:
    """Six sessions take turns: each turn writes an entry, every third ends the transaction."""
    limits = entry_spool._WORTH_COMPACTING, entry_spool._IN_MEMORY
    entry_spool._WORTH_COMPACTING, entry_spool._IN_MEMORY = 500, 300  # type: ignore[misc]
    try:
        pending: dict[int, list[tuple[int, bytes]]] = {}
        with EntrySpool() as spool:
            for number, session in enumerate(steps, start=1):
                chain = pending.setdefault(session, [])
                previous = chain[-1][0] if chain else 0
                if len(chain) == 2:
                    raw = chained(number, previous)
                    spool.add([raw])
                    for part, stored in chain:
                        assert spool.find(*position(part)) == stored
                    chain.clear()
                else:
                    raw = chained(number, previous, operations=1 + seed % 3, partialTxn=True)
                    spool.add([raw])
                    chain.append((number, raw))
                spool.release()
                for part, stored in (item for chain in pending.values() for item in chain):
                    assert spool.find(*position(part)) == stored
                assert len(spool) == sum(map(len, pending.values()))
    finally:
        entry_spool._WORTH_COMPACTING, entry_spool._IN_MEMORY = limits  # type: ignore[misc]


def test_the_space_of_released_entries_is_freed() -> None:
    with EntrySpool() as spool:
        for number in range(1, 400, 2):
            spool.add([chained(number, 0, partialTxn=True), chained(number + 1, number)])
            spool.release()
        assert spool._end == 0


def test_two_oplogs_have_two_spools() -> None:
    with EntrySpool() as one, EntrySpool() as other:
        one.add([chained(1, 0, prepare=True)])
        assert other.find(*position(1)) is None
