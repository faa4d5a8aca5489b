"""One thing of ours that is being waited for, and how the world hears of it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from ringonce.observe.events import Held, Resumed

if TYPE_CHECKING:
    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock

REMIND: Final = 30.0
"""Seconds between two alarms while a hold lasts."""


class Hold:
    """Says once that something is away, again every half minute while it is, and once that it is back."""

    def __init__(self, what: str, clock: Clock, emit: Emit) -> None:
        self._what = what
        self._clock = clock
        self._emit = emit
        self._since = -inf
        self._alarm_at = -inf
        self.lasting = False
        """Whether it is away; not to be set from outside."""
        self.ended_at = -inf
        """When it was last over (monotonic)."""

    def lasts(self, reason: str, waiting: int) -> None:
        """It is away; `waiting` pieces of work stand behind it."""
        now = self._clock.monotonic()
        if not self.lasting:
            self.lasting, self._since, self._alarm_at = True, now, now
        if now >= self._alarm_at:
            self._alarm_at = now + REMIND
            self._emit(Held(self._what, reason, waiting, now - self._since))

    def over(self) -> None:
        """It answers; nothing happens when it was not away."""
        if self.lasting:
            self.lasting, self.ended_at = False, self._clock.monotonic()
            self._emit(Resumed(self._what, self.ended_at - self._since))
