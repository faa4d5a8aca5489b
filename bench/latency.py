"""Latency: records offered at a steady rate, by way of the router, to a provider that takes 5 ms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.evidence import commits, spans, watch
from bench.figures import Figure
from bench.letters import letters, put_all
from bench.offer import offer
from bench.rig import mock, process

if TYPE_CHECKING:
    from bench.rig import Rig

PREFIX: Final = "latency-"
WARM_UP: Final = 3.0
DEADLINE: Final = 30.0
PROVIDER_MS: Final = 5
SLICES: Final = 3
"""The run is cut into so many pieces of time, each of which counts as one run."""


@dataclass(frozen=True, slots=True)
class Size:
    """`seconds` are measured, after a warm-up."""

    rate: float = 500.0
    seconds: float = 30.0


def measure(running: Rig, size: Size) -> list[Figure]:
    """Produce to the entry topic, and see when the provider and the history got each one."""
    running.truncate()
    names = running.create_topics(PREFIX, ["firebase"])
    primer = letters(names.entry, f"{PREFIX}primer-", 50)
    load = letters(names.entry, PREFIX, int(size.rate * (size.seconds + WARM_UP)))
    with mock(LATENCY_MS=PROVIDER_MS) as provider:
        environment = running.environment(PREFIX, {"firebase": provider.url})
        with (
            process(["router", "--channels", "firebase"], environment) as router,
            process(["sender", "--channel", "firebase"], environment) as sender,
        ):
            both = [router, sender]
            put_all(running.kafka.bootstrap, primer)  # who has delivered something has joined
            watch(running, both, lambda rows: rows >= len(primer), DEADLINE)
            offered = offer(running.kafka.bootstrap, load, size.rate)
            watch(running, both, lambda rows: rows >= len(primer) + len(load), DEADLINE)
            receipts = provider.receipts()
    rows = commits(running)
    running.delete_topics(PREFIX)
    due = offered.after(WARM_UP)
    first, length = min(due.values()), size.seconds / SLICES
    pieces = [
        {key: moment for key, moment in due.items() if int((moment - first) / length) == piece}
        for piece in range(SLICES)
    ]
    received = [spans(piece, receipts) for piece in pieces]
    recorded = [spans(piece, rows) for piece in pieces]
    return [
        Figure("latency_p50_ms", "ms", [one[0] for one in received]),
        Figure("latency_p99_ms", "ms", [one[1] for one in received]),
        Figure("latency_row_p50_ms", "ms", [one[0] for one in recorded]),
        Figure("latency_row_p99_ms", "ms", [one[1] for one in recorded]),
        Figure("latency_offer_late_ms", "ms", [offered.late * 1000]),
    ]
