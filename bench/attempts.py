"""Attempts: what keeping failed calls for the timeline costs, in turns with keeping none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.drain import drain
from bench.figures import Figure, ratios
from bench.letters import letters, put_all
from ringonce.domain.stages import MAIN

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "attempts-"
FAILING: Final = {"FAIL_RATE_503": 0.2, "RETRY_AFTER": ""}
"""A fifth of all calls fail, and may be tried again at once."""
TRIES: Final[dict[str, Any]] = {"RINGONCE_CHANNELS__FIREBASE__MAX_ATTEMPTS": "8"}
"""So many that none of them has to go through a retry stage, which would be half a minute of waiting."""


@dataclass(frozen=True, slots=True)
class Size:
    """So many rounds over so many rows, each way, fewer of them where calls fail."""

    rounds: int = 5
    failing_rounds: int = 2
    rows: int = 10_000


def measure(running: Rig, size: Size) -> list[Figure]:
    """Drain the same backlog with both settings, where no call fails and where some do.

    What is compared is the CPU time of a row: a rate is the machine's as well.
    """
    topic = running.create_topics(PREFIX, ["firebase"]).stage("firebase", MAIN)
    put_all(running.kafka.bootstrap, letters(topic, PREFIX, size.rows))
    found = []
    knobs: dict[str, object]
    for key, knobs, rounds in (
        ("attempts_overhead", {}, size.rounds),
        ("attempts_overhead_failing", dict(FAILING), size.failing_rounds),
    ):
        off: list[float] = []
        kept: list[float] = []
        for number in range(rounds):
            # Who is first has the machine as the one before has left it: they change places.
            for setting in ("off", "failures") if number % 2 else ("failures", "off"):
                cost = drain(running, PREFIX, size.rows, knobs, RINGONCE_ATTEMPTS=setting, **TRIES).cpu_us
                (off if setting == "off" else kept).append(cost)
        found += [
            Figure(key, "ratio", [ratio - 1 for ratio in ratios(kept, off)]),
            Figure(f"{key}_off_cpu_us", "µs CPU", off),
            Figure(f"{key}_kept_cpu_us", "µs CPU", kept),
        ]
    running.delete_topics(PREFIX)
    return found
