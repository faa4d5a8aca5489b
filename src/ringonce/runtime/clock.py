"""Time as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock."""

    def now(self) -> float:
        """Seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever rise."""
        ...


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
