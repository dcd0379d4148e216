"""Which worker should have which slots: even shares, and as few moves as possible."""

from collections import Counter
from collections.abc import Sequence


def shares(owners: Sequence[str | None], members: Sequence[str]) -> list[str | None]:
    """The owner that each slot should have; every member computes the same from the same state.

    >>> shares(["a", "a", "a", "a"], ["a", "b"])
    ['a', 'a', 'b', 'b']
    >>> shares(["a", None, "gone", "b"], ["a", "b"])
    ['a', 'a', 'b', 'b']
    >>> shares(["a"], [])
    [None]
    """
    if not members:
        return [None] * len(owners)
    counts = Counter(owner for owner in owners if owner in members)
    least, more = divmod(len(owners), len(members))
    # Who has most keeps the odd slots, so that they do not move.
    ranked = sorted(members, key=lambda member: (-counts[member], member))
    free = {member: least + (place < more) for place, member in enumerate(ranked)}
    wanted: list[str | None] = []
    for owner in owners:
        keeps = owner is not None and free.get(owner, 0) > 0
        wanted.append(owner if keeps else None)
        if keeps and owner is not None:
            free[owner] -= 1
    takers = iter([member for member in ranked for _ in range(free[member])])
    return [next(takers) if owner is None else owner for owner in wanted]
