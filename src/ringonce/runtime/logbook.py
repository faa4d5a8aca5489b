"""Writes attempts to the timeline, in batches of its own.

Best effort: nothing waits for it, and nothing is held for it. While the database is away the newest attempts wait here,
and the oldest are dropped; a crash costs what has not been written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ringonce.observe.events import AttemptsDropped
from ringonce.store.port import AttemptRow, RowsRefused, StoreAway

if TYPE_CHECKING:
    from ringonce.observe.events import Emit
    from ringonce.runtime.work import Work
    from ringonce.store.port import Store

BATCH: Final = 500
ROOM: Final = 5000
"""Attempts that wait at most: a few megabytes."""
GATHER: Final = 0.1
"""Seconds for which a batch gathers when there is room in it."""
AGAIN: Final = 1.0
"""Seconds before a write that failed is repeated."""
LINGER: Final = 1.0
"""Seconds that a process that stops gives to what has not been written."""


class Logbook:
    """The timeline of one channel, as far as this node adds to it."""

    def __init__(self, store: Store, node: str, channel: str, emit: Emit, room: int = ROOM) -> None:
        self._store = store
        self._node = node
        self._channel = channel
        self._emit = emit
        self._room = room
        self._queue: deque[AttemptRow] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._dropped = 0

    def take(self, work: Work) -> None:
        """Take the attempts of a piece of work over; there is at least one."""
        identity, record = work.envelope.identity, work.record
        for attempt in work.tried or ():
            self._queue.append(
                AttemptRow(
                    identity.id,
                    attempt.at,
                    self._channel,
                    identity.root,
                    record.partition.topic,
                    record.partition.number,
                    record.offset,
                    attempt.outcome,
                    attempt.status,
                    attempt.seconds,
                )
            )
        work.tried = []  # and no longer None: this record had attempts that were kept
        while len(self._queue) > self._room:
            self._queue.popleft()
            self._dropped += 1
        self._idle.clear()
        self._news.set()

    async def written(self) -> None:
        """Returns when everything is written, or `LINGER` has passed."""
        try:
            await asyncio.wait_for(self._idle.wait(), LINGER)
        except TimeoutError:
            return

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._news.wait()
            if len(self._queue) < BATCH:
                await asyncio.sleep(GATHER)
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            try:
                await self._store.note(self._node, batch)
            except StoreAway:
                self._put_back(batch)
                await asyncio.sleep(AGAIN)
                continue
            except RowsRefused:
                self._dropped += len(batch)
            if self._dropped:
                self._emit(AttemptsDropped(self._dropped))
                self._dropped = 0
            if not self._queue:
                self._news.clear()
                self._idle.set()

    def _put_back(self, batch: list[AttemptRow]) -> None:
        """What came meanwhile is newer, and goes first where there is too little room."""
        room = max(0, self._room - len(self._queue))
        self._dropped += len(batch[:-room] if room else batch)
        self._queue.extendleft(reversed(batch[-room:] if room else []))
