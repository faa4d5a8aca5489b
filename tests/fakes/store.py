"""A store in memory. It passes the same contract suite as the one on PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.fakes.faults import Faults

from ringonce.domain.disposition import Status
from ringonce.store.port import RowsRefused, StoreAway

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ringonce.store.port import AttemptRow, Gate, HistoryRow

LONGEST_KEY: Final = 2704
"""Bytes that fit into an entry of a B-tree."""


class MemoryStore:
    """Implements `Store`.

    `seen_faults`, `record_faults` and `note_faults` are the declared outages. `refuses` is asked for each row of a
    batch and returns a SQLSTATE for one it does not like. `lost_answers`: of the next writes, how many take effect and
    yet fail. `latency`: seconds that each call takes.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], HistoryRow] = {}
        self.gates: dict[tuple[str, str], str] = {}
        self.batches: list[list[HistoryRow]] = []
        self.looks: list[set[str]] = []
        self.seen_faults: Faults[Exception] = Faults()
        self.record_faults: Faults[Exception] = Faults()
        self.attempts: dict[tuple[str, float, str], AttemptRow] = {}
        self.note_faults: Faults[Exception] = Faults()
        self.lost_answers = 0
        self.latency = 0.0
        self.refuses: Callable[[HistoryRow], str | None] = lambda _: None

    async def seen(self, consumer: str, ids: Collection[str]) -> set[str]:
        """See `Store.seen`."""
        await asyncio.sleep(self.latency)
        fault = self.seen_faults.next()
        if fault is not None:
            raise fault
        self.looks.append(set(ids))
        return {one for one in ids if (consumer, one) in self.gates}

    async def record(self, gate: Gate, rows: Sequence[HistoryRow]) -> None:
        """See `Store.record`."""
        await asyncio.sleep(self.latency)
        fault = self.record_faults.next()
        if fault is not None:
            raise fault
        self.batches.append(list(rows))
        self.write(gate, rows)
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreAway("the answer was lost")

    async def note(self, node: str, attempts: Sequence[AttemptRow]) -> None:
        """See `Store.note`."""
        await asyncio.sleep(self.latency)
        fault = self.note_faults.next()
        if fault is not None:
            raise fault
        for attempt in attempts:
            state = _refusal(attempt)
            if state is not None:
                raise RowsRefused(state)
        for attempt in attempts:
            self.attempts.setdefault((attempt.notification_id, attempt.attempted_at, node), attempt)

    def write(self, gate: Gate, rows: Sequence[HistoryRow]) -> None:
        """What the statement does, all or nothing.

        Raises:
            RowsRefused: as PostgreSQL would.
        """
        for row in rows:
            state = self.refuses(row) or _refusal(row)
            if state is not None:
                raise RowsRefused(state)
        if len({row.key for row in rows}) < len(rows):
            raise RowsRefused("21000")
        for row in rows:
            self._write(gate, row)

    def _write(self, gate: Gate, row: HistoryRow) -> None:
        self.gates.setdefault((gate.consumer, row.notification_id), gate.owner)
        if row.status is Status.DELIVERED:
            self.gates.setdefault((gate.consumer, row.root_id), gate.owner)
        before = self.rows.get(row.key)
        if before is None:
            self.rows[row.key] = row
        elif (row.status is Status.DELIVERED and before.status is not Status.DELIVERED) or (
            before.status is Status.UNKNOWN
            and (row.status is not Status.UNKNOWN or row.maybe_reached > before.maybe_reached)
        ):
            self.rows[row.key] = row._replace(maybe_reached=row.maybe_reached or before.maybe_reached)


def _refusal(row: HistoryRow | AttemptRow) -> str | None:
    """The SQLSTATE with which PostgreSQL refuses such a row."""
    for value in row:
        if not isinstance(value, str):
            continue
        if "\0" in value:
            return "22P05"
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "22P02"
    if len(row.notification_id.encode()) > LONGEST_KEY:
        return "54000"
    return None
