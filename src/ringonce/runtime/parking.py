"""Where records wait that are to be tried again in a while, outside the send slots."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringonce.runtime.work import Work


class Parking:
    """Records by the time at which they go on (monotonic seconds)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Work]] = []
        self._ties = count()  # two records may go on at one moment, and records have no order

    def __len__(self) -> int:
        """How many records are kept."""
        return len(self._heap)

    def park(self, work: Work, until: float) -> None:
        """Keep a record."""
        heapq.heappush(self._heap, (until, next(self._ties), work))

    def due(self, now: float) -> list[Work]:
        """Take out what goes on now, the longest waiting first."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heapq.heappop(self._heap)[2])
        return found
