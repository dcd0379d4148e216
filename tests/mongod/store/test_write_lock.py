"""The lock against writes."""

import asyncio

from tailrace.mongod.store.transactions.write_lock import WriteLock


def test_writes_wait_until_it_was_unlocked_as_often_as_it_was_locked() -> None:
    async def main() -> None:
        finished = 0

        async def finish() -> None:
            nonlocal finished
            finished += 1

        lock = WriteLock(finish)
        await lock.wait()
        assert [await lock.lock(), await lock.lock()] == [1, 2]
        assert finished == 1
        waiting = asyncio.create_task(lock.wait())
        await asyncio.sleep(0)
        assert lock.unlock() == 1
        await asyncio.sleep(0)
        assert not waiting.done()
        assert lock.unlock() == 0
        await waiting
        assert await lock.lock() == 1
        assert finished == 2
        again = asyncio.create_task(lock.wait())
        await asyncio.sleep(0)
        assert not again.done()
        lock.unlock()
        await again

    asyncio.run(main())
