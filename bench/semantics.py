"""What a promise costs: a backlog of one channel through one sender under each semantics, in turns, 20 ms a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.drain import SLOW_MS, drain
from bench.figures import Figure, ratios
from bench.letters import letters, put_all
from ringonce.domain.stages import MAIN

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "semantics-"
ONCE, AT_MOST, BOUNDED = "effectively-once", "at-most-once", "bounded(3)"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it: `rows` are drained each time."""

    rounds: int = 5
    rows: int = 10_000


def measure(running: Rig, size: Size) -> list[Figure]:
    """Measure all three, in turns."""
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    put_all(running.kafka.bootstrap, letters(topic, PREFIX, size.rows))
    rates: dict[str, list[float]] = {ONCE: [], AT_MOST: [], BOUNDED: []}
    for _ in range(size.rounds):
        for semantics, found in rates.items():
            flags = ("--semantics", semantics)
            found.append(drain(running, PREFIX, size.rows, {"LATENCY_MS": SLOW_MS}, flags=flags).rate)
    running.delete_topics(PREFIX)
    return [
        Figure("at_most_once_20ms_per_s", "rows/s", rates[AT_MOST]),
        Figure("bounded_20ms_per_s", "rows/s", rates[BOUNDED]),
        Figure("at_most_once_vs_effectively_once", "ratio", ratios(rates[AT_MOST], rates[ONCE])),
        Figure("bounded_vs_effectively_once", "ratio", ratios(rates[BOUNDED], rates[ONCE])),
    ]
