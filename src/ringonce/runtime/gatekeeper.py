"""Asks the gate, a batch at a time, before anything is called.

What has passed the gate under its id or its root is skipped. An answer is good for a second; what has waited longer, or
since before the database was away, is asked for again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ringonce.runtime.hold import Hold
from ringonce.runtime.work import Phase, Work
from ringonce.store.port import StoreAway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.roots import Roots
    from ringonce.store.port import Store

BATCH: Final = 500
FEW: Final = 50
GATHER: Final = 0.005
"""Seconds for which a batch gathers while there are few in it: a statement costs the client as much as tens of ids."""
GOOD_FOR: Final = 1.0
"""Seconds for which the gate's answer is believed."""
HOLD_PAUSE: Final = 1.0


class Gatekeeper:
    """The queue in front of the gate.

    Args:
        store: where the gate is.
        consumer: whose gate.
        clock: for the age of answers.
        emit: told of holds.
        roots: who holds which root.
        wanted: how many records the next step can use now.
        admit: given each record that may be sent.
        skip: given each record that has passed before.
    """

    def __init__(
        self,
        store: Store,
        consumer: str,
        clock: Clock,
        emit: Emit,
        roots: Roots,
        *,
        wanted: Callable[[], int],
        admit: Callable[[Work], None],
        skip: Callable[[Work], None],
    ) -> None:
        self._store = store
        self._consumer = consumer
        self._clock = clock
        self._hold = Hold("gate", clock, emit)
        self._roots = roots
        self._wanted = wanted
        self._admit = admit
        self._skip = skip
        self._queue: deque[Work] = deque()
        self._news = asyncio.Event()
        self._valid_since = 0.0

    def __len__(self) -> int:
        """How many records wait for the gate."""
        return len(self._queue)

    @property
    def held(self) -> bool:
        """Whether the database is away."""
        return self._hold.lasting

    def submit(self, work: Work) -> None:
        """Queue a record."""
        self._queue.append(work)
        self._news.set()

    def resubmit(self, works: Iterable[Work]) -> None:
        """Queue records again, before the others and in their order."""
        self._queue.extendleft(reversed(list(works)))
        self.nudge()

    def nudge(self) -> None:
        """More may be wanted now."""
        if self._queue:
            self._news.set()

    def fresh(self, work: Work) -> bool:
        """Whether the gate's answer about the record still holds."""
        return self._clock.monotonic() - work.looked_at <= GOOD_FOR and work.looked_at >= self._valid_since

    def distrust(self, since: float) -> None:
        """The database was away until `since` (monotonic): earlier answers are worth nothing."""
        self._valid_since = max(self._valid_since, since)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._news.wait()
            if len(self._queue) < FEW:
                await asyncio.sleep(GATHER)
            self._news.clear()
            while self._queue and (most := min(BATCH, self._wanted())) > 0:
                batch = self._next(most)
                if batch:
                    await self._look_up(batch)

    def _next(self, most: int) -> list[Work]:
        batch: list[Work] = []
        while self._queue and len(batch) < most:
            work = self._queue.popleft()
            if _live(work) and self._roots.take(work):
                batch.append(work)
        return batch

    async def _look_up(self, batch: list[Work]) -> None:
        asked_at, seen = await self._ask(batch)
        for work in batch:
            if not _live(work):
                continue
            identity = work.envelope.identity
            if identity.id in seen or identity.root in seen:
                self._skip(work)
            else:
                work.looked_at = asked_at
                self._admit(work)

    async def _ask(self, batch: list[Work]) -> tuple[float, set[str]]:
        """When was asked, and what has passed; waits for as long as the database is away."""
        ids = {work.envelope.identity.id for work in batch} | {work.root for work in batch}
        while True:
            asked_at = self._clock.monotonic()
            try:
                seen = await self._store.seen(self._consumer, ids)
            except StoreAway as away:
                self._hold.lasts(str(away), len(batch) + len(self._queue))
                await asyncio.sleep(HOLD_PAUSE)
                self.distrust(self._clock.monotonic())
            else:
                self._hold.over()
                return asked_at, seen


def _live(work: Work) -> bool:
    """Whether the record is still ours to work on."""
    return work.phase is Phase.QUEUED and not work.tenure.leaving
