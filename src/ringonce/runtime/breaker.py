"""The circuit breaker around one destination.

pybreaker keeps the state; the Gate decides what it hears and owns the clock:

- pybreaker's open period runs on the wall clock, which can be set back: here it is a monotonic one.
- A cancelled or excluded call counts as a success there, and would close a half-open breaker: it is not told of them.
- Half-open admits everybody there: here one probe at a time.

Source of the states: M. Nygard, Release It!, "Circuit Breaker".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import pybreaker

from ringonce.observe.events import BreakerChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock

THRESHOLD: Final = 5
"""Consecutive failed deliveries that open the breaker."""

OPEN_PERIOD: Final = 5.0
"""Seconds that it stays open before a probe."""


class Permit(Enum):
    """What the Gate says to somebody who wants to call."""

    PASS = "pass"  # noqa: S105 - not a password
    PROBE = "probe"
    NONE = "none"


class _Failed(Exception):  # noqa: N818 - a signal to pybreaker only
    """What pybreaker hears of a failed delivery."""


class _Listener(pybreaker.CircuitBreakerListener):
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def state_change(
        self,
        cb: pybreaker.CircuitBreaker,  # noqa: ARG002 - pybreaker's signature
        old_state: pybreaker.CircuitBreakerState | None,
        new_state: pybreaker.CircuitBreakerState,
    ) -> None:
        self._gate.changed("" if old_state is None else str(old_state.name), str(new_state.name))


class Gate:
    """Admits calls to one destination. `on_open` is called whenever it opens; `period` is how long it stays so."""

    def __init__(
        self, destination: str, clock: Clock, emit: Emit, on_open: Callable[[Gate], None], period: float = OPEN_PERIOD
    ) -> None:
        self.destination = destination
        self._period = period
        self._clock = clock
        self._emit = emit
        self._on_open = on_open
        self.closed = True
        """Whether calls are admitted freely."""
        self._probing = False
        self._retry_at = 0.0
        self._cause = ""
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=THRESHOLD,
            reset_timeout=period,
            throw_new_error_on_trip=False,  # else the delivery that trips it looks like one never made
            listeners=[_Listener(self)],
        )

    @property
    def retry_at(self) -> float:
        """When the next probe may go (monotonic); meaningless while closed."""
        return self._retry_at

    def wants_probe(self) -> bool:
        """Whether a probe would be admitted now."""
        return not self.closed and not self._probing and self._clock.monotonic() >= self._retry_at

    def ask(self) -> Permit:
        """May a call start? A PROBE is given to one at a time; it ends with `probed` or `give_back`."""
        if self.closed:
            return Permit.PASS
        if not self.wants_probe():
            return Permit.NONE
        self._probing = True
        if self._breaker.current_state == pybreaker.STATE_OPEN:
            self._breaker.half_open()
        return Permit.PROBE

    def delivered(self, *, ok: bool, cause: str = "") -> None:
        """One delivery with its tries has ended. While not closed only the probe's result counts."""
        # A success means nothing to a breaker that has no failure to forget: the common case, asked for every record.
        if self.closed and not (ok and self._breaker.fail_counter == 0):
            self._tell(ok=ok, cause=cause)

    def probed(self, *, ok: bool, cause: str = "") -> None:
        """The probe has its result."""
        self._probing = False
        self._tell(ok=ok, cause=cause)

    def give_back(self) -> None:
        """The probe made no call, or was cancelled: nothing was learned, the state stays."""
        self._probing = False

    def _tell(self, *, ok: bool, cause: str) -> None:
        self._cause = "probe succeeded" if ok else cause
        try:
            with self._breaker.calling():
                if not ok:
                    raise _Failed  # noqa: TRY301 - this is how pybreaker is told
        except _Failed:
            pass

    def changed(self, before: str, after: str) -> None:
        """The breaker's state has changed."""
        self.closed = after == pybreaker.STATE_CLOSED
        self._emit(BreakerChanged(self.destination, before, after, self._cause))
        if after == pybreaker.STATE_OPEN:
            self._retry_at = self._clock.monotonic() + self._period
            self._on_open(self)
