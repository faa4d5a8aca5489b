"""`make bench-quick`: how fast one sender drains a backlog, and whether its memory grows. At most a minute.

The sender, the broker, the database and the provider share the machine. A rate is taken over each run of `SEGMENT`
rows, from the first row on, so that starting and joining the group are not in it.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from bench.report import Figure, write
from bench.rig import Rig, cpu_seconds, mock, process, resident_bytes, rig

if TYPE_CHECKING:
    import subprocess

SEGMENT = 10_000
FAST_BACKLOG = 52_000
SLOW_BACKLOG = 12_000
SLOW_SEGMENT = 4_000
SLOW_MS = 20
DEADLINE = 40.0
LOOK = 0.2
"""Seconds between two counts of the rows: counting costs the database, too."""


class Drain:
    """One backlog being drained by one sender process."""

    def __init__(self, rig: Rig, sender: subprocess.Popen[bytes]) -> None:
        self._rig = rig
        self._sender = sender
        self.rates: list[float] = []
        self.memory: list[int] = []
        self.cpu_us: list[float] = []

    def measure(self, total: int, segment: int) -> None:
        """Watch the rows until `total` are there; a rate, CPU time and resident size for each segment."""
        deadline = time.monotonic() + DEADLINE
        began: tuple[float, int, float] | None = None
        with psycopg.connect(self._rig.postgres.url, autocommit=True) as connection:
            while True:
                rows, now = self._rig.rows(connection), time.monotonic()
                if rows and began is None:
                    began = (now, rows, cpu_seconds(self._sender.pid))
                if began is not None and rows - began[1] >= segment:
                    cpu = cpu_seconds(self._sender.pid)
                    done = rows - began[1]
                    self.rates.append(done / (now - began[0]))
                    self.cpu_us.append((cpu - began[2]) / done * 1e6)
                    self.memory.append(resident_bytes(self._sender.pid))
                    began = (now, rows, cpu)
                if rows >= total:
                    return
                if now > deadline:
                    raise SystemExit(f"only {rows} of {total} rows after {DEADLINE:g} s")
                time.sleep(LOOK)


def drain(running: Rig, prefix: str, total: int, segment: int, latency_ms: int) -> Drain:
    """Drain `total` notifications through one sender against a provider that takes `latency_ms`."""
    running.truncate()
    running.backlog(prefix, total)
    with (
        mock(LATENCY_MS=latency_ms) as port,
        process(["sender", "--channel", "firebase"], running.environment(prefix, port)) as sender,
    ):
        measured = Drain(running, sender)
        measured.measure(total, segment)
    return measured


def main() -> None:
    """Measure and write `results/quick.json`."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, rig(Path(folder)) as running:
        fast = drain(running, "fast-", FAST_BACKLOG, SEGMENT, 0)
        slow = drain(running, "slow-", SLOW_BACKLOG, SLOW_SEGMENT, SLOW_MS)
    path = write(
        "quick",
        [
            Figure("drain_0ms_per_s", "rows/s", fast.rates),
            Figure("drain_20ms_per_s", "rows/s", slow.rates),
            Figure("drain_0ms_cpu_us", "µs CPU/row", fast.cpu_us),
            Figure("memory_growth_50k", "ratio", [fast.memory[-1] / fast.memory[0]]),
            Figure("memory_mb", "MB", [fast.memory[-1] / 1e6]),
        ],
    )
    print(f"{path.name} written after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
