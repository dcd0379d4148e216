"""The state of a group and its changes, without I/O."""

import itertools
import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tailrace.client.groups.sharing import shares
from tailrace.client.groups.state import (
    GroupMember,
    GroupState,
    Slot,
    WorkerProgress,
    from_document,
    to_document,
)
from tailrace.client.token_order import comes_after, high_water_mark

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def token(second: int) -> dict[str, str]:
    return high_water_mark(second << 32)


def group(slots: int = 4, *members: str) -> GroupState:
    return GroupState(
        "g",
        "shop.orders",
        "{}",
        (Slot(token(1)),) * slots,
        tuple(GroupMember(name, name) for name in members),
    )


def epochs(state: GroupState, member: str) -> dict[int, int]:
    return {number: slot.epoch for number, slot in state.of(member).items()}


def settle(state: GroupState, member: str, second: int | None = None) -> GroupState:
    """Commit a position for all slots that the member has, then release and take."""
    known = epochs(state, member)
    positions = {} if second is None else dict.fromkeys(known, token(second))
    return state.settled(member, WorkerProgress(known, positions))


@pytest.mark.parametrize("seed", range(50))
def test_shares_are_even_and_settle_without_needless_moves(seed: int) -> None:
    rng = random.Random(seed)
    members = [f"m{number}" for number in range(rng.randint(1, 7))]
    owners: list[str | None] = [rng.choice([*members, None, "gone"]) for _ in range(rng.randint(1, 40))]
    wanted = shares(owners, members)
    counts = [wanted.count(member) for member in members]
    assert max(counts) - min(counts) <= 1, f"seed {seed}"
    assert None not in wanted
    assert shares(wanted, members) == wanted, f"seed {seed}: it does not settle"
    kept = sum(old == new for old, new in zip(owners, wanted, strict=True))
    most = sum(min(owners.count(member), -(-len(owners) // len(members))) for member in members)
    assert kept >= most - len(members), f"seed {seed}: needless moves"


@pytest.mark.parametrize("seed", range(100))
def test_a_slot_never_has_two_workers_that_can_commit_and_never_moves_back(seed: int) -> None:
    """Workers join, work, stop and come back in random order, each with what it last knew."""
    rng = random.Random(seed)
    state = group(8)
    known: dict[str, dict[int, int]] = {}
    seconds = itertools.count(2)
    for _ in range(200):
        member = rng.choice(["a", "b", "c", "d"])
        match rng.randrange(5):
            case 0:
                state = state.joined(GroupMember(member, member), "{}")
            case 1:
                state = state.without({member})  # it does not notice
            case 2:
                state = state.sought(token(next(seconds)))
            case _:
                held = known.get(member, {})
                positions = dict.fromkeys(held, token(next(seconds)))
                before = state
                state = state.settled(member, WorkerProgress(held, positions))
                for number, (old, new) in enumerate(zip(before.slots, state.slots, strict=True)):
                    assert not comes_after(old.position, new.position), f"seed {seed}"
                    if new.position != old.position:
                        assert (old.owner, old.epoch) == (member, held[number]), f"seed {seed}: not its slot"
                known[member] = epochs(state, member)
        assert from_document(to_document(state)) == state


def test_a_worker_that_joins_gets_its_share_when_the_others_have_committed() -> None:
    state = settle(group(4, "a"), "a")
    assert len(state.of("a")) == 4
    state = settle(state.joined(GroupMember("b", "b"), "{}"), "b")
    assert len(state.of("b")) == 0
    state = settle(settle(state, "a", 5), "b")
    assert len(state.of("a")) == len(state.of("b")) == 2
    assert {slot.position["_data"] for slot in state.slots} == {token(5)["_data"]}


def test_what_a_worker_commits_for_slots_that_it_has_lost_is_refused() -> None:
    state = settle(group(4, "a"), "a")
    lost = epochs(state, "a")
    state = settle(state.without({"a"}).joined(GroupMember("b", "b"), "{}"), "b")
    late = WorkerProgress(lost, dict.fromkeys(lost, token(9)))
    assert state.settled("a", late) is state
    # It has joined again, and even has slots again, but not those of before.
    state = settle(settle(settle(state.joined(GroupMember("a", "a"), "{}"), "a"), "b"), "a")
    again = state.committed("a", late)
    assert all(slot.position == token(1) for slot in again.slots)


def test_a_seek_refuses_what_workers_have_done_since_their_last_commit() -> None:
    state = settle(group(2, "a"), "a")
    held = epochs(state, "a")
    state = state.sought(token(3))
    state = state.settled("a", WorkerProgress(held, dict.fromkeys(held, token(9))))
    assert [slot.position for slot in state.slots] == [token(3), token(3)]
    assert len(state.of("a")) == 2, "it takes them again"


def test_nothing_to_change_is_the_same_state() -> None:
    state = settle(group(2, "a"), "a")
    assert settle(state, "a") is state
    assert settle(state, "a", 1) is state
    assert state.without({"x"}) is state
    assert state.beaten("x", NOW) is state
    assert state.paused(False) is state


def test_heartbeats_grow_and_are_those_of_one_worker() -> None:
    state = group(1, "a", "b").beaten("b", NOW)
    assert [member.beat for member in state.members] == [0, 1]


def test_a_slot_has_handled_all_before_an_event_that_it_waits_at() -> None:
    slot = Slot(token(1))
    assert not slot.has_handled_all_before(token(2))
    assert replace(slot, arrived_at=token(2)).has_handled_all_before(token(2))
    assert replace(slot, position=token(3)).has_handled_all_before(token(2))
