"""Many callers, one statement at a time: while one runs, what the next is about gathers by itself."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ringonce.runtime.hold import Hold
from ringonce.store.port import StoreAway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock

BATCH: Final = 500
HOLD_PAUSE: Final = 1.0
"""Seconds before a statement is repeated when the database is away."""

T = TypeVar("T")


class Batching(Generic[T]):
    """One kind of statement, for whoever needs it.

    Args:
        what: what waits when the database is away, for an alarm.
        statement: given items with distinct keys, sorted by them; the keys of those for which it did something.
        key: of an item.
        clock: for the length of a hold.
        emit: told of holds.
        repeat: whether it may be repeated when nobody knows whether it took effect; else its items are answered no.
    """

    def __init__(
        self,
        what: str,
        statement: Callable[[Sequence[T]], Awaitable[Collection[str]]],
        key: Callable[[T], str],
        clock: Clock,
        emit: Emit,
        *,
        repeat: bool = True,
    ) -> None:
        self._statement = statement
        self._key = key
        self._repeat = repeat
        self._hold = Hold(what, clock, emit)
        self._queue: deque[tuple[T, asyncio.Future[bool]]] = deque()
        self._news = asyncio.Event()

    @property
    def held(self) -> bool:
        """Whether the database is away."""
        return self._hold.lasting

    def ask(self, item: T) -> asyncio.Future[bool]:
        """Have it done; whether it was. Cancelling the future changes nothing about the statement."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.append((item, answer))
        self._news.set()
        return answer

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._news.wait()
            # The callers who are ready at this moment all get in: that is the whole gathering.
            await asyncio.sleep(0)
            batch = self._next()
            if not self._queue:
                self._news.clear()
            keys = sorted(batch)
            done = await self._execute([batch[key][0] for key in keys])
            for key in keys:
                answer = batch[key][1]
                if not answer.done():
                    answer.set_result(key in done)

    def _next(self) -> dict[str, tuple[T, asyncio.Future[bool]]]:
        """The next batch by key; a second item with a key waits for the batch after it."""
        batch: dict[str, tuple[T, asyncio.Future[bool]]] = {}
        again = []
        while self._queue and len(batch) < BATCH:
            item, answer = self._queue.popleft()
            if self._key(item) in batch:
                again.append((item, answer))
            else:
                batch[self._key(item)] = (item, answer)
        self._queue.extendleft(reversed(again))
        return batch

    async def _execute(self, items: Sequence[T]) -> Collection[str]:
        while True:
            try:
                done = await self._statement(items)
            except StoreAway as away:
                if not self._repeat:
                    return ()
                self._hold.lasts(str(away), len(items) + len(self._queue))
                await asyncio.sleep(HOLD_PAUSE)
            else:
                self._hold.over()
                return done
