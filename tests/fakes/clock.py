"""Time that only a test moves."""

from __future__ import annotations

import asyncio
import selectors
from typing import Final

EPOCH: Final = 1_700_000_000.0
"""Where the wall clocks of tests begin."""

STUCK: Final = 5.0
"""Real seconds after which a loop that waits for nothing but the outside world is given up."""


class FakeClock:
    """Implements `Clock`. `jump` moves the wall clock only, as an operator or NTP may."""

    def __init__(self, wall: float = EPOCH, monotonic: float = 1000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def now(self) -> float:
        """See `Clock.now`."""
        return self._wall

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._wall += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock is set forward, or back."""
        self._wall += seconds


class _Selector(selectors.DefaultSelector):
    """Never waits: where it would, time jumps to the end of the wait instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:  # no timer is set: only a thread or a socket can bring news
            events = super().select(STUCK)
            if not events:
                raise TimeoutError("the test waits for something that nothing will ever bring about")
            return events
        events = super().select(0)
        if not events and timeout > 0:
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time: when everybody waits, the clock jumps to the next timer."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual.now


class LoopClock(FakeClock):
    """The running loop's time as a `Clock`, so that timers and clock agree."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()

    def now(self) -> float:
        """See `Clock.now`."""
        return super().now() + self._loop.time() - self._start

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return super().monotonic() + self._loop.time() - self._start
