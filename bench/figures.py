"""Figures: what was measured, run by run, and what is asked of them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity, with every run of it (at least one)."""

    key: str
    unit: str
    runs: Sequence[float]

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return median(self.runs)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked of a figure: the floor that it has to reach, and what we are after; `meaning` in a few words.

    Where less is better the floor is a ceiling.
    """

    floor: float
    aim: float
    meaning: str
    less_is_better: bool = False

    def reached(self, figure: float) -> str:
        """``aim``, ``floor`` or ``missed``."""
        sign = -1 if self.less_is_better else 1
        if figure * sign >= self.aim * sign:
            return "aim"
        return "floor" if figure * sign >= self.floor * sign else "missed"


GOALS: Final = {
    "drain_0ms_per_s": Goal(4_000, 6_000, "one sender, provider answers at once"),
    "drain_20ms_per_s": Goal(3_500, 5_500, "one sender, provider takes 20 ms"),
    "drain_vs_textbook_0ms": Goal(7, 12, "times the textbook design, at once"),
    "drain_vs_textbook_20ms": Goal(70, 120, "times the textbook design, 20 ms"),
    "drain_vs_http_limit": Goal(0.35, 0.55, "of what its HTTP client alone can do"),
    "record_vs_per_message_tx": Goal(15, 30, "recording in batches, times one transaction per message"),
    "router_per_s": Goal(60_000, 90_000, "the router, records of 300 bytes"),
    "router_vs_bare_loop": Goal(0.6, 0.8, "of a bare consume-produce loop"),
    "at_most_once_vs_effectively_once": Goal(0.8, 0.9, "of the rate under effectively-once, 20 ms"),
    "bounded_vs_effectively_once": Goal(0.8, 0.9, "of the rate under effectively-once, 20 ms"),
    "latency_p50_ms": Goal(40, 20, "produce to the provider's receipt at 500/s", less_is_better=True),
    "latency_p99_ms": Goal(150, 60, "the same, 99 % within", less_is_better=True),
    "isolation_throughput": Goal(0.9, 0.97, "of the other channels' pace is kept while firebase hangs"),
    "isolation_p99_ratio": Goal(2, 1.2, "times their p99 without the fault", less_is_better=True),
    "isolation_host_throughput": Goal(0.9, 0.97, "of 99 webhook hosts' pace is kept while one hangs"),
    "memory_growth": Goal(
        1.10, 1.02, "resident size after 200,000 deliveries over that after 20,000", less_is_better=True
    ),
    "memory_mb": Goal(130, 90, "resident size of a sender after 200,000 deliveries", less_is_better=True),
    "scale_two_processes": Goal(1.7, 1.9, "two senders over one, 20 ms, 16 in flight"),
    "replay_per_s": Goal(10_000, 10_000, "dead letters published by replay, progress rows included"),
    "metrics_overhead": Goal(
        1.03, 1.0, "CPU of a row with metrics on and scraped, over that without", less_is_better=True
    ),
    "attempts_overhead": Goal(0.05, 0.05, "CPU for RINGONCE_ATTEMPTS=failures, no call fails", less_is_better=True),
}
"""The figures that have a floor; every other one is there to explain them."""


def steady_rate(times: Sequence[float], skip: float = 0.1, drop: float = 0.05) -> float:
    """Events per second over the middle of a run.

    The first `skip` of the events and the last `drop` of them are left out: joining the group and warming up, and the
    end where some partitions have run dry. `times`: seconds, sorted; events of one batch share theirs.

    Raises:
        ValueError: too few events to say anything.
    """
    if len(times) < 20:  # noqa: PLR2004 - less has no middle
        raise ValueError(f"{len(times)} events have no rate")
    first, last = times[int(len(times) * skip)], times[int(len(times) * (1 - drop)) - 1]
    if last <= first:
        raise ValueError("everything happened at once")
    return (bisect_right(times, last) - bisect_right(times, first)) / (last - first)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("no values")
    # A hair less: 0.99 * 100 must not become the hundredth.
    return sorted(values)[max(0, ceil(len(values) * share - 1e-9) - 1)]


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Run by run, of two things measured in turns."""
    return [above / below for above, below in zip(over, under, strict=True)]
