"""How many calls may be in flight: a limit that follows the provider's latency instead of one fixed number.

Calls that wait for a distant provider cost nothing here, so more of them in flight mean more deliveries. Calls that
wait for us, or for a provider that has its hands full, only wait longer. Which of the two it is shows in the latency:
the limit rises while calls take about as long as the fastest of late, and falls when they take several times as long.

Source of the rule: the gradient limits of Netflix's concurrency-limits, after TCP Vegas (Brakmo, Peterson, 1995).
"""

from __future__ import annotations

from collections import deque
from math import inf, sqrt
from typing import Final

START: Final = 64
"""Calls in flight to begin with, and never fewer unless the bound is lower: a sender that waits for a quick provider is
busy with as many."""

TOLERANCE: Final = 4.0
"""How many times the fastest of late a call may take on average before the limit falls."""

STEEPEST: Final = 0.5
"""What is left of the limit at least after one window."""

REMEMBERED: Final = 100
"""Windows in which the fastest call is looked for."""

FEW: Final = 16
"""Calls that a window needs to say anything."""


class ConcurrencyLimit:
    """The limit of one sender, between `START` and `most`."""

    def __init__(self, most: int) -> None:
        self._least = min(START, most)
        self._most = most
        self._limit = float(self._least)
        self._fastest: deque[float] = deque(maxlen=REMEMBERED)
        self._calls = 0
        self._seconds = 0.0
        self._best = inf

    @property
    def slots(self) -> int:
        """How many calls may be in flight."""
        return int(self._limit)

    def delivered(self, seconds: float) -> None:
        """A call succeeded after so many seconds. Others say nothing: a provider in trouble may refuse very quickly."""
        self._calls += 1
        self._seconds += seconds
        self._best = min(self._best, seconds)

    def adjust(self, *, short: bool) -> int:
        """A window is over; the slots from now on. `short`: there was more to send than there were slots."""
        calls, seconds, best = self._calls, self._seconds, self._best
        if calls < FEW:
            return self.slots  # what there is of it goes into the next window
        self._calls, self._seconds, self._best = 0, 0.0, inf
        self._fastest.append(best)
        gradient = TOLERANCE * min(self._fastest) * calls / seconds if seconds else 1.0
        wanted = self._limit * max(STEEPEST, min(1.0, gradient)) + sqrt(self._limit)
        if wanted < self._limit or short:
            self._limit = max(self._least, min(self._most, wanted))
        return self.slots
