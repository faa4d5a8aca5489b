"""Record: the store's writing in batches against one transaction per message, same rows, same connection."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import uvloop

from bench.figures import Figure, ratios
from ringonce.domain.disposition import Status
from ringonce.runtime.recorder import BATCH
from ringonce.store.port import Gate, HistoryRow
from ringonce.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.rig import Rig

GATE: Final = Gate("firebase-sender", "bench")
CHUNK: Final = 10_000
"""Rows made at a time, off the clock."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: so many rounds of `seconds` each way."""

    rounds: int = 3
    seconds: float = 3.0


def history(stem: str, start: int, count: int) -> list[HistoryRow]:
    """Rows as a sender writes them, sorted by key."""
    now = time.time()
    return [
        HistoryRow(
            f"{stem}{number:08d}",
            "firebase",
            Status.DELIVERED,
            f"{stem}{number:08d}",
            1,
            f"user-{number % 5000}",
            None,
            now,
            200,
            "main",
            f"{number:032x}",
            "parcel:out",
            created_at="2026-01-01T00:00:00Z",
        )
        for number in range(start, start + count)
    ]


async def write(store: PostgresStore, batches: Iterator[Sequence[HistoryRow]], seconds: float) -> float:
    """Rows per second, batch after batch; making them is off the clock."""
    spent, rows = 0.0, 0
    while spent < seconds:
        batch = next(batches)
        began = time.perf_counter()
        await store.record(GATE, batch)
        spent += time.perf_counter() - began
        rows += len(batch)
    return rows / spent


def batches_of(stem: str, size: int) -> Iterator[Sequence[HistoryRow]]:
    """Batches without end."""
    start = 0
    while True:
        chunk = history(stem, start, CHUNK)
        start += CHUNK
        for at in range(0, CHUNK, size):
            yield chunk[at : at + size]


async def rounds(url: str, size: Size) -> tuple[list[float], list[float]]:
    """In turns: rows per second in batches, and one by one."""
    store = PostgresStore(url, "bench")
    await store.open()
    many, single = [], []
    for number in range(size.rounds):
        many.append(await write(store, batches_of(f"many-{number}-", BATCH), size.seconds))
        single.append(await write(store, batches_of(f"single-{number}-", 1), size.seconds))
    await store.close()
    return many, single


def measure(running: Rig, size: Size) -> list[Figure]:
    """Measure both, in turns."""
    running.truncate()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        many, single = runner.run(rounds(running.postgres.url, size))
    return [
        Figure("record_per_s", "rows/s", many),
        Figure("record_per_message_tx_per_s", "rows/s", single),
        Figure("record_vs_per_message_tx", "ratio", ratios(many, single)),
    ]
