"""Writes terminal rows in batches, and says when they are durable.

One statement per batch. While one is being written the next one gathers, so batches grow with the load by themselves.
The database away means Hold: what is finished waits here and is written when it is back, never forwarded for our own
database's sake.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ringonce.domain.disposition import Status
from ringonce.observe.events import Recorded, RowStripped
from ringonce.runtime.failpoints import Failpoints, Point
from ringonce.runtime.hold import Hold
from ringonce.store.port import RowsRefused, StoreAway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.work import Work
    from ringonce.store.port import Gate, HistoryRow, Store

BATCH: Final = 500
GATHER: Final = 0.02
"""Seconds for which a batch gathers when there is room in it: a statement costs the client as much as tens of rows."""
HOLD_PAUSE: Final = 1.0


def fold(rows: Iterable[HistoryRow]) -> list[HistoryRow]:
    """One row per key, sorted by key, as the database would have ended up with one by one.

    `delivered` replaces any other status, every status replaces `unknown`, as does an `unknown` that may have reached
    the provider one that says nothing of it; otherwise the first stays. Whatever is replaced, that it may have reached
    the provider is kept.
    """
    kept: dict[tuple[str, str], HistoryRow] = {}
    for row in rows:
        before = kept.get(row.key)
        if before is None:
            kept[row.key] = row
        elif _replaces(row, before):
            kept[row.key] = row._replace(maybe_reached=row.maybe_reached or before.maybe_reached)
    return [kept[key] for key in sorted(kept)]


def _replaces(row: HistoryRow, before: HistoryRow) -> bool:
    if row.status is before.status:
        return row.status is Status.UNKNOWN and row.maybe_reached > before.maybe_reached
    return before.status is Status.UNKNOWN or row.status is Status.DELIVERED


class Recorder:
    """Records for one consumer. `settled` is called for each piece of work whose row is durable."""

    def __init__(
        self,
        store: Store,
        gate: Gate,
        clock: Clock,
        emit: Emit,
        failpoints: Failpoints,
        settled: Callable[[Work], None],
    ) -> None:
        self._failpoints = failpoints
        self._store = store
        self._gate = gate
        self._clock = clock
        self._emit = emit
        self._settled = settled
        self._queue: deque[tuple[HistoryRow, Work]] = deque()
        self._writing = 0
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._hold = Hold("database", clock, emit)
        self.written: Callable[[list[tuple[HistoryRow, Work]]], None] | None = None
        """Told of each batch that is durable, where somebody counts them."""

    @property
    def resumed_at(self) -> float:
        """When the database was last found again after it had been away (monotonic)."""
        return self._hold.ended_at

    @property
    def held(self) -> bool:
        """Whether the database is away."""
        return self._hold.lasting

    @property
    def pending(self) -> int:
        """How many rows are not durable yet."""
        return len(self._queue) + self._writing

    def submit(self, row: HistoryRow, work: Work) -> None:
        """Have a row written."""
        self._queue.append((row, work))
        self._idle.clear()
        self._news.set()

    async def drained(self) -> None:
        """Returns when everything submitted is durable."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write until cancelled. Cancel it only once `drained` has returned, or has been given up on."""
        while True:
            await self._news.wait()
            if len(self._queue) < BATCH:
                await asyncio.sleep(GATHER)
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            self._writing = len(batch)
            if not self._queue:
                self._news.clear()
            await self._write_batch(batch)
            self._writing = 0
            if self.written is not None:
                self.written(batch)
            self._failpoints.hit(Point.AFTER_RECORD)
            for _, work in batch:
                self._settled(work)
            if not self._queue:
                self._idle.set()

    async def _write_batch(self, batch: list[tuple[HistoryRow, Work]]) -> None:
        rows = fold(row for row, _ in batch)
        started = self._clock.monotonic()
        try:
            await self._write(rows)
        except RowsRefused:
            for row in rows:
                await self._write_alone(row)
        self._emit(Recorded(len(rows), self._clock.monotonic() - started))

    async def _write_alone(self, row: HistoryRow) -> None:
        try:
            await self._write([row])
        except RowsRefused as refusal:
            self._emit(RowStripped(row.notification_id, refusal.sqlstate))
            await self._write_bare(row)

    async def _write_bare(self, row: HistoryRow) -> None:
        while True:
            try:
                await self._write([row.bare()])
            except RowsRefused as refusal:
                # Not even its id is taken: nothing in the data explains that, so it is the database's fault.
                await self._wait(str(refusal))
            else:
                return

    async def _write(self, rows: list[HistoryRow]) -> None:
        """Write, however long the database is away."""
        while True:
            try:
                await self._store.record(self._gate, rows)
            except StoreAway as away:
                await self._wait(str(away))
            else:
                self._hold.over()
                return

    async def _wait(self, reason: str) -> None:
        self._hold.lasts(reason, self.pending)
        await asyncio.sleep(HOLD_PAUSE)
