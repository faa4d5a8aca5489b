"""The calls that are under way: who takes off next, and what a landing leads to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ringonce.domain.disposition import Reason
from ringonce.domain.outcome import describe, is_failure
from ringonce.runtime.tries import Ending
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.runtime.breaker import Gate
    from ringonce.runtime.gatekeeper import Gatekeeper
    from ringonce.runtime.lanes import Lane, Lanes, Ticket
    from ringonce.runtime.logbook import Logbook
    from ringonce.runtime.settlement import Settlement
    from ringonce.runtime.tries import Courier, Finding
    from ringonce.runtime.work import Work

WITHHELD: Final = frozenset({Ending.RULED, Ending.UNSURE})
"""Endings that are the semantics' doing."""


class Flights:
    """A task for each send slot in use.

    Args:
        lanes: who is next.
        gatekeeper: asked whether its answer is still good, and again where it is not.
        courier: makes the calls.
        logbook: notes them.
        settlement: carries out what they lead to.
        single: whether the channel has one destination: what waits behind its breaker stays where it is.
        abandoned: called for work that its next owner tries again.
        failed: told when a task dies.
    """

    def __init__(
        self,
        lanes: Lanes,
        gatekeeper: Gatekeeper,
        courier: Courier,
        logbook: Logbook,
        settlement: Settlement,
        *,
        single: bool,
        abandoned: Callable[[Work], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._lanes = lanes
        self._gatekeeper = gatekeeper
        self._courier = courier
        self._logbook = logbook
        self._settlement = settlement
        self._single = single
        self._abandoned = abandoned
        self._failed = failed
        self._flying: dict[Ticket, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._flying)

    def pump(self) -> None:
        """Give every free slot to whoever is next."""
        while (ticket := self._next()) is not None:
            task = asyncio.get_running_loop().create_task(self._fly(ticket))
            self._took_off(ticket, task)
            task.add_done_callback(self._watch)

    def interrupt(self, gate: Gate) -> None:
        """Tries that wait behind this breaker stop."""
        for work, lane, _ in self._flying:
            if lane.gate is gate and work.interrupt is not None:
                work.interrupt.set()

    def cancel(self) -> None:
        """Break off what is under way."""
        for task in self._flying.values():
            task.cancel()

    def _next(self) -> Ticket | None:
        """Who is next, with a slot; None when nobody is or no slot is free."""
        stale: list[Work] = []
        while (ticket := self._lanes.take()) is not None and not self._gatekeeper.fresh(ticket.work):
            if ticket.probe:
                ticket.lane.gate.give_back()
            self._lanes.release(ticket.lane)
            stale.append(ticket.work)
        if ticket is None and not self._single:
            for work in self._lanes.behind_open_gates():
                self._settlement.defer(work, Reason.BREAKER_OPEN)
        if stale:
            self._gatekeeper.resubmit(stale)
        else:
            self._gatekeeper.nudge()
        return ticket

    def _took_off(self, ticket: Ticket, task: asyncio.Task[None]) -> None:
        ticket.work.phase = Phase.FLYING
        self._flying[ticket] = task

    def _watch(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def _fly(self, ticket: Ticket) -> None:
        """Deliver, and go on with whoever is next: a task is made for a slot that was idle, not for every record."""
        task = self._flying[ticket]
        await self._deliver(ticket)
        while (following := self._next()) is not None:
            self._took_off(following, task)
            await self._deliver(following)

    async def _deliver(self, ticket: Ticket) -> None:
        work, lane = ticket.work, ticket.lane
        try:
            if ticket.probe:
                finding = await self._courier.probe(work)
            else:
                finding = await self._courier.deliver(work, lambda: self._may_go_on(work, lane))
        except asyncio.CancelledError:
            if ticket.probe:
                lane.gate.give_back()
            self._lanes.release(lane)
            work.phase = Phase.QUEUED
            self._settlement.leave_behind(work, ours=not work.tenure.closed)
            raise
        finally:
            del self._flying[ticket]
            if work.tried:
                self._logbook.take(work)
        self._lanes.release(lane)
        if ticket.probe:
            self._probed(work, lane, finding)
        else:
            self._landed(work, lane, finding)

    def _may_go_on(self, work: Work, lane: Lane) -> bool:
        """Whether tries that are left may take place."""
        return not work.tenure.leaving and lane.gate.closed and not self._lanes.over_share(lane)

    def _probed(self, work: Work, lane: Lane, finding: Finding) -> None:
        outcome = finding.outcome
        if finding.ending in WITHHELD:
            if outcome is None:
                lane.gate.give_back()
            else:
                lane.gate.probed(ok=not is_failure(outcome), cause=describe(outcome))
            self._withheld(work, finding)
            return
        if finding.ending is Ending.EXPIRED or outcome is None:
            lane.gate.give_back()
            self._settlement.expire(work, outcome)
            return
        failed = is_failure(outcome)
        lane.gate.probed(ok=not failed, cause=describe(outcome))
        if not failed:
            self._settlement.decide(work, outcome)
            return
        # A failed probe spends no attempt; what it may have reached is remembered all the same.
        work.attempts -= 1
        work.spent -= 1
        self._put_off(work, lane)

    def _landed(self, work: Work, lane: Lane, finding: Finding) -> None:
        outcome = finding.outcome
        was_closed = lane.gate.closed
        if outcome is not None:
            failed = is_failure(outcome)
            lane.gate.delivered(ok=not failed, cause=describe(outcome) if failed else "")
        if finding.ending in WITHHELD:
            self._withheld(work, finding)
        elif finding.ending is Ending.EXPIRED or outcome is None:
            self._settlement.expire(work, outcome)
        elif finding.ending is Ending.INTERRUPTED and work.tenure.leaving and not work.learned:
            self._abandoned(work)  # its next owner tries again, with all its tries
        elif finding.ending is Ending.INTERRUPTED and self._single and not was_closed:
            self._put_off(work, lane)  # it keeps what it spent
        else:
            self._settlement.decide(work, outcome)

    def _withheld(self, work: Work, finding: Finding) -> None:
        """The channel's semantics did not let it be sent, or not again."""
        if finding.ruling is not None:
            self._settlement.apply(work, finding.ruling, finding.cause or finding.outcome)
            return
        work.phase = Phase.QUEUED
        if work.tenure.leaving:
            self._settlement.leave_behind(work, ours=not work.tenure.closed)
        else:
            self._gatekeeper.resubmit([work])

    def _put_off(self, work: Work, lane: Lane) -> None:
        """Its breaker is open."""
        if work.tenure.leaving:
            work.phase = Phase.QUEUED
            self._settlement.leave_behind(work, ours=not work.tenure.closed)
        elif self._single:
            work.phase = Phase.QUEUED
            self._lanes.put_back(work, lane.name)
        else:
            self._settlement.defer(work, Reason.BREAKER_OPEN)
