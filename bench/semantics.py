"""`make bench-semantics`: what a promise costs. One sender drains a backlog under each semantics, in turns.

The provider takes 20 ms, so a call's own time is there to be waited for; the ratios are of rates on this machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.quick import SLOW_MS, SLOW_SEGMENT, Drain
from bench.report import Figure, write
from bench.rig import Rig, mock, process, rig

ROUNDS: Final = 3
BACKLOG: Final = 9_000
ONCE, AT_MOST, BOUNDED = "effectively-once", "at-most-once", "bounded(3)"


def drain(running: Rig, semantics: str, number: int) -> float:
    """The median rate of one drain under these semantics, in rows/s."""
    prefix = f"s{number}-"
    running.truncate()
    running.backlog(prefix, BACKLOG)
    command = ["sender", "--channel", "firebase", "--semantics", semantics]
    with (
        mock(LATENCY_MS=SLOW_MS) as port,
        process(command, running.environment(prefix, port)) as sender,
    ):
        measured = Drain(running, sender)
        measured.measure(BACKLOG, SLOW_SEGMENT)
    return statistics.median(measured.rates)


def main() -> None:
    """Measure and write `results/semantics.json`."""
    started = time.monotonic()
    rates: dict[str, list[float]] = {ONCE: [], AT_MOST: [], BOUNDED: []}
    with tempfile.TemporaryDirectory() as folder, rig(Path(folder)) as running:
        for turn in range(ROUNDS):
            for place, semantics in enumerate(rates):
                rates[semantics].append(drain(running, semantics, turn * len(rates) + place))
    path = write(
        "semantics",
        [
            Figure(name, "ratio", [mine / usual for mine, usual in zip(rates[semantics], rates[ONCE], strict=True)])
            for name, semantics in (
                ("bounded_vs_effectively_once", BOUNDED),
                ("at_most_once_vs_effectively_once", AT_MOST),
            )
        ]
        + [Figure("effectively_once_20ms_per_s", "rows/s", rates[ONCE])],
    )
    print(f"{path.name} written after {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
