"""Scale: one and two sender processes, in turns, where the provider's time is what limits one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.drain import SLOW_MS, drain
from bench.figures import Figure, ratios
from bench.letters import letters, put_all
from ringonce.domain.stages import MAIN

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "scale-"
FLAGS: Final = ("--max-in-flight", "16")
KNOBS: Final = {"LATENCY_MS": SLOW_MS}
SKIP: Final = 0.5
"""What is measured is two at work. Until the group has given the second one its partitions there is one."""


@dataclass(frozen=True, slots=True)
class Size:
    """So many rounds over so many rows, each way."""

    rounds: int = 2
    rows: int = 12_000


def measure(running: Rig, size: Size) -> list[Figure]:
    """Drain the same backlog with one and with two."""
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    put_all(running.kafka.bootstrap, letters(topic, PREFIX, size.rows))
    one, two = [], []
    for _ in range(size.rounds):
        one.append(drain(running, PREFIX, size.rows, KNOBS, flags=FLAGS, skip=SKIP).rate)
        two.append(drain(running, PREFIX, size.rows, KNOBS, flags=FLAGS, skip=SKIP, senders=2).rate)
    running.delete_topics(PREFIX)
    return [
        Figure("scale_one_process_per_s", "rows/s", one),
        Figure("scale_two_processes_per_s", "rows/s", two),
        Figure("scale_two_processes", "ratio", ratios(two, one)),
    ]
