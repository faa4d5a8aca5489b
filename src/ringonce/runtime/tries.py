"""One delivery: up to `max_attempts` calls within one stage. The only retry layer there is.

tenacity paces the tries. It costs about 50 µs a call, so it is entered only after the first attempt has failed.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from tenacity import AsyncRetrying, RetryCallState

from ringonce.channels.port import Unsendable
from ringonce.domain.attempt import Attempt, Kept
from ringonce.domain.backoff import LONGEST_HONOURED, pause
from ringonce.domain.outcome import (
    Delivered,
    Indeterminate,
    Outcome,
    Rejected,
    http_status,
    is_failure,
    retry_after,
)
from ringonce.runtime.failpoints import Failpoints, Point

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from ringonce.channels.port import Carrier
    from ringonce.domain.disposition import Disposition
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.work import Work

    Call = Callable[[Work], Awaitable[Outcome]]
    """One call to the provider, and what it showed."""

ATTEMPT_DEADLINE: Final = 3.0
"""Seconds that one call may take, from connecting to the end of what is read of the answer."""


class Ending(Enum):
    """How a delivery ended."""

    FINAL = auto()  # the last outcome is the stage's
    INTERRUPTED = auto()  # tries that were left did not take place
    EXPIRED = auto()  # no attempt may start any more
    RULED = auto()  # the channel's semantics say what becomes of the record, whatever tries are left
    UNSURE = auto()  # the gate has to be asked again before anything is sent


class Finding(NamedTuple):
    """What a delivery brought. `outcome` is None when no call was made.

    `ruling` and `cause` are what becomes of it and why, where it is RULED; without a cause the outcome is one.
    """

    ending: Ending
    outcome: Outcome | None
    ruling: Disposition | None = None
    cause: str | None = None


class Withheld(Exception):  # noqa: N818 - what happened
    """What stands around a call did not let it take place, or does not let the tries go on after it."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.ending.name)


def unguarded(call: Call) -> Call:
    """The call itself: nothing stands around it."""
    return call


class Courier:
    """Makes the calls of one channel; `delivered` is told how many seconds each successful one took."""

    def __init__(
        self,
        carrier: Carrier,
        clock: Clock,
        random: Random,
        max_attempts: int,
        failpoints: Failpoints,
        delivered: Callable[[float], None],
        kept: Kept = Kept.FAILURES,
        around: Callable[[Call], Call] = unguarded,
    ) -> None:
        self._call = around(self._make_call)
        self._failpoints = failpoints
        self._delivered = delivered
        self._kept = kept
        self._carrier = carrier
        self._clock = clock
        self._random = random
        self._max_attempts = max_attempts
        self.attempted: Callable[[Outcome, float], None] | None = None
        """Told of each call's outcome and its seconds, where somebody counts them."""

    async def deliver(self, work: Work, go_on: Callable[[], bool]) -> Finding:
        """Try until it is decided, the tries are used up or it expires.

        `go_on` is asked before each further try; `work.interrupt` cuts the pause before it short.
        """
        if work.expired(self._clock.now()):
            return Finding(Ending.EXPIRED, work.outcome)
        try:
            outcome = await self._call(work)
        except Withheld as withheld:
            return withheld.finding
        if not self._worth_another(work, outcome):
            return Finding(Ending.FINAL, outcome)
        if not go_on():
            return Finding(Ending.INTERRUPTED, outcome)
        work.interrupt = interrupt = asyncio.Event()
        try:
            return await self._try_again(work, outcome, interrupt, go_on)
        finally:
            work.interrupt = None

    async def probe(self, work: Work) -> Finding:
        """One call, whatever it brings."""
        if work.expired(self._clock.now()):
            return Finding(Ending.EXPIRED, work.outcome)
        try:
            return Finding(Ending.FINAL, await self._call(work))
        except Withheld as withheld:
            return withheld.finding

    async def _try_again(
        self, work: Work, first: Outcome, interrupt: asyncio.Event, go_on: Callable[[], bool]
    ) -> Finding:
        outcomes = [first]

        async def attempt() -> Outcome:
            # tenacity's first "attempt" is the one already made: so its counting and pausing are ours.
            if outcomes:
                return outcomes.pop()
            return await self._call(work)

        async def wait(seconds: float) -> None:
            try:
                await asyncio.wait_for(interrupt.wait(), seconds)
            except TimeoutError:
                return

        retrying = AsyncRetrying(
            sleep=wait,
            wait=lambda state: pause(state.attempt_number, retry_after(_result(state)), self._random.random()),
            retry=lambda state: self._worth_another(work, _result(state)),
            stop=lambda _: False,
            retry_error_callback=_result,
            before=lambda state: self._check(work, go_on, state),
        )
        try:
            return Finding(Ending.FINAL, await retrying(attempt))
        except _Stop as stop:
            return Finding(stop.ending, work.outcome)
        except Withheld as withheld:
            return withheld.finding._replace(outcome=work.outcome)  # there was a call before

    def _check(self, work: Work, go_on: Callable[[], bool], state: RetryCallState) -> None:
        if state.attempt_number == 1:
            return
        if not go_on():
            raise _Stop(Ending.INTERRUPTED)
        if work.expired(self._clock.now()):
            raise _Stop(Ending.EXPIRED)

    def _worth_another(self, work: Work, outcome: Outcome) -> bool:
        if not is_failure(outcome) or work.single or work.spent >= self._max_attempts:
            return False
        asked = retry_after(outcome)
        return asked is None or asked <= LONGEST_HONOURED

    async def _make_call(self, work: Work) -> Outcome:
        """One call to the provider, counted."""
        notification = work.envelope.notification
        assert notification is not None  # noqa: S101 - a record without one is never admitted
        call = work.call
        if call is None:
            identity, hints = work.envelope.identity, work.envelope.hints
            try:
                call = self._carrier.prepare(notification, identity.key, hints.traceparent, work.record.value or b"")
            except Unsendable as error:
                work.outcome = Rejected(str(error))
                return work.outcome
            work.call = call
        deadline = ATTEMPT_DEADLINE
        if work.envelope.expires_at is not None:
            deadline = max(0.001, min(deadline, work.envelope.expires_at - self._clock.now()))
        self._failpoints.hit(Point.BEFORE_SEND)
        began = self._clock.monotonic()
        try:
            outcome = await call(deadline)
        except asyncio.CancelledError:
            # The request goes on without us: it is Indeterminate, and whoever cancelled decides what that means.
            work.maybe_reached = True
            seconds = self._clock.monotonic() - began
            self._tell(Indeterminate("cancelled"), seconds)
            self._keep(work, Indeterminate("cancelled"), seconds)
            work.attempts += 1
            raise
        seconds = self._clock.monotonic() - began
        if isinstance(outcome, Delivered):
            self._delivered(seconds)
        elif isinstance(outcome, Indeterminate):
            work.maybe_reached = True
        self._failpoints.hit(Point.AFTER_SEND)
        self._tell(outcome, seconds)
        self._keep(work, outcome, seconds)
        work.attempts += 1
        work.spent += 1
        work.outcome = outcome
        return outcome

    def _tell(self, outcome: Outcome, seconds: float) -> None:
        if self.attempted is not None:
            self.attempted(outcome, seconds)

    def _keep(self, work: Work, outcome: Outcome, seconds: float) -> None:
        """Have an attempt on the work's timeline, if it is one to keep; a first success costs nothing here."""
        first_success = isinstance(outcome, Delivered) and work.tried is None and work.attempts == 0
        if self._kept is Kept.OFF or (first_success and self._kept is Kept.FAILURES):
            return
        if work.tried is None:
            work.tried = []
        work.tried.append(Attempt(self._clock.now() - seconds, type(outcome).__name__, http_status(outcome), seconds))


class _Stop(Exception):  # noqa: N818 - leaves tenacity's loop between two tries
    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        super().__init__()


def _result(state: RetryCallState) -> Outcome:
    assert state.outcome is not None  # noqa: S101 - tenacity asks after an attempt only
    result: Outcome = state.outcome.result()
    return result
