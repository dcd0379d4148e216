"""The flow around a handler: tries, back-off, dead letters, replay."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import bson

from tailrace.bson.documents import encode
from tailrace.client.flow import Flow
from tailrace.client.groups.consumer import POLL_SECONDS, ConsumerFlow
from tailrace.client.groups.delivery import DeadLetter, Delivery
from tailrace.client.groups.store import GroupStore
from tailrace.errors import UsageError

_LETTERS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Retries:
    """What happens to an event whose handler raises."""

    max_tries: int | None = None
    """Calls before the event becomes a dead letter; None to raise the handler's error."""
    first_pause: float = 0.1
    """Seconds before the second call; each further pause is twice as long."""
    longest_pause: float = 30.0

    def __post_init__(self) -> None:
        if self.max_tries is not None and self.max_tries < 1:
            raise UsageError("max_tries is a number of calls, 1 or more")

    def pause(self, tries: int) -> float:
        """Seconds to wait after so many calls; jitter keeps workers from trying all at once."""
        pause = min(self.first_pause * 2.0 ** min(tries - 1, 60), self.longest_pause)
        return pause * random.uniform(0.8, 1.0)


def running(
    consumer: ConsumerFlow, handle: Callable[[Delivery], Any], retries: Retries, max_events: int | None
) -> Flow[int]:
    """Handle events until `stop` or ``max_events``; return how many were handled or became dead letters."""
    handled = 0
    while max_events is None or handled < max_events:
        fetched = yield from consumer._fetching(1)
        if not fetched:
            break
        if not (yield from _handling(consumer, handle, retries, fetched[0])):
            break
        consumer.ack()
        handled += 1
    yield from consumer._committing()
    return handled


def _handling(
    consumer: ConsumerFlow, handle: Callable[[Delivery], Any], retries: Retries, delivery: Delivery
) -> Flow[bool]:
    """Whether the event needs nothing more; False after `stop` between two tries."""
    tries = 0
    while True:
        tries += 1
        try:
            yield partial(handle, delivery)
        except Exception as error:
            if retries.max_tries is None:
                raise
            if tries >= retries.max_tries:
                letter = _letter(consumer.group, delivery, error, tries)
                yield from consumer.store.bury(letter)
                return True
            left = retries.pause(tries)
            while left > 0:
                if consumer.is_stopped:
                    return False
                yield partial(consumer._shell.sleep, min(left, POLL_SECONDS))
                left -= POLL_SECONDS
        else:
            return True


def replaying(
    store: GroupStore, group: str, handle: Callable[[Delivery], Any], limit: int | None = None
) -> Flow[int]:
    """Call the handler with dead letters, oldest first, and remove those that it handles; return how many.

    A letter whose handler raises stays, with the new error; the others are tried as well.
    """
    handled = 0
    after = ""
    while limit is None or handled < limit:
        letters = yield from store.letters(group, _LETTERS_AT_ONCE, after)
        if not letters:
            break
        for letter in letters:
            after = letter.position
            delivery = Delivery(bson.decode(letter.event), letter.slot, 0, is_replay=True)
            try:
                yield partial(handle, delivery)
            except Exception as error:
                yield from store.bury(_letter(group, delivery, error, letter.tries + 1))
                continue
            yield from store.discard(letter)
            handled += 1
            if handled == limit:
                break
    return handled


def _letter(group: str, delivery: Delivery, error: Exception, tries: int) -> DeadLetter:
    raw = getattr(delivery.event, "raw", None)
    return DeadLetter(
        group,
        delivery.position,
        delivery.slot,
        bytes(raw) if raw is not None else encode(dict(delivery.event)),
        f"{type(error).__name__}: {error}",
        tries,
        datetime.now(UTC),
    )
