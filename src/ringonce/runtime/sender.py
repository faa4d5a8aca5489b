"""The sender: from a record that is eligible to its outcome, and from the outcome to what becomes of the record.

    ready → gate look-up → admit (breaker, share, expiry) → send → Outcome → decide → record | forward | hold | skip

Everything here runs in the event loop. The decisions are the domain's; this module carries them out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from ringonce.channels.port import BadTarget
from ringonce.channels.registry import Destinations
from ringonce.domain.attempt import Kept
from ringonce.domain.concurrency import ConcurrencyLimit
from ringonce.domain.disposition import Disposition, Forward, Hold, Reason, Record, Skip, Status, decide, defer
from ringonce.domain.outcome import Delivered, Outcome, Rejected, describe, is_failure
from ringonce.domain.semantics import EFFECTIVELY_ONCE, Semantics
from ringonce.runtime.breaker import Gate
from ringonce.runtime.forwarder import Forwarder
from ringonce.runtime.gatekeeper import Gatekeeper
from ringonce.runtime.guard import guard_for
from ringonce.runtime.lanes import Lanes
from ringonce.runtime.logbook import Logbook
from ringonce.runtime.parking import Parking
from ringonce.runtime.roots import Roots
from ringonce.runtime.surety import Surety
from ringonce.runtime.tries import Courier, Ending
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
    from random import Random

    from ringonce.channels.port import Carrier
    from ringonce.channels.registry import ChannelRow
    from ringonce.kafka.port import Partition
    from ringonce.kafka.thread import ProducerThread
    from ringonce.kafka.topics import TopicNames
    from ringonce.runtime.intake import Holding
    from ringonce.runtime.lanes import Lane, Ticket
    from ringonce.runtime.pipeline import Pipeline
    from ringonce.runtime.tries import Finding
    from ringonce.runtime.work import Work
    from ringonce.store.claims import Claims

AHEAD: Final = 5
"""Records that may wait behind the gate for each send slot, few enough to stay fresh."""

LOOK_UP: Final = 3
"""Records for each slot from which on a look-up is worth it: for the client it costs as much as tens of them."""

SCOUT: Final = 1.0
"""Seconds for which one partition is resumed in search of a record to probe with."""

FLUSH: Final = 5.0

WITHHELD: Final = frozenset({Ending.RULED, Ending.UNSURE})
"""Endings that are the semantics' doing."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a sender delivers with, beside what every role has."""

    carrier: Carrier
    producer: ProducerThread
    names: TopicNames
    random: Random
    max_in_flight: int
    max_attempts: int
    breaker_period: float
    kept: Kept = Kept.FAILURES
    semantics: Semantics = EFFECTIVELY_ONCE
    claims: Claims | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a sender stands at a moment: send slots, breakers, and how many records wait for what."""

    in_flight: int
    slots: int
    breakers: int
    held: Mapping[str, int]


class Sender:
    """Delivers for one channel. Implements `pipeline.Handler`."""

    def __init__(self, pipeline: Pipeline, row: ChannelRow, means: Means) -> None:
        clock, emit = pipeline.around.clock, pipeline.around.emit
        self._name = row.name
        self._ladder = row.ladder
        self._single = row.destinations is Destinations.ONE
        self._pipeline = pipeline
        self._clock = clock
        self._breaker_period = means.breaker_period
        self._recorder = pipeline.recorder
        self._carrier = means.carrier
        self._producer = means.producer
        self._roots = Roots()
        surety = Surety(
            row.name,
            f"{pipeline.around.node}/{means.random.getrandbits(32):08x}",
            clock,
            emit,
            ours=pipeline.may_publish,
            settled=pipeline.settled,
            abandoned=pipeline.abandoned,
            again=lambda work: self._gatekeeper.resubmit([work]),
        )
        self._limit = ConcurrencyLimit(means.max_in_flight)
        self._guard = guard_for(means.semantics, means.claims, surety)
        self._courier = Courier(
            means.carrier,
            clock,
            means.random,
            means.max_attempts,
            pipeline.around.failpoints,
            self._limit.delivered,
            means.kept,
            self._guard.around,
        )
        self._logbook = Logbook(pipeline.around.store, pipeline.around.node, row.name, emit)
        self._lanes = Lanes(self._limit.slots, clock, self._make_gate)
        self._gatekeeper = Gatekeeper(
            pipeline.around.store,
            pipeline.profile.consumer,
            clock,
            emit,
            self._roots,
            wanted=self._wanted,
            admit=self._admit,
            skip=self._guard.skip,
        )
        self._forwarder = Forwarder(
            means.producer,
            partial(means.names.stage, row.name),
            clock,
            emit,
            allowed=pipeline.may_publish,
            settled=pipeline.settled,
            unpublishable=self._unpublishable,
            abandoned=pipeline.abandoned,
        )
        self._flying: dict[Ticket, asyncio.Task[None]] = {}
        self._parking = Parking()

    def _make_gate(self, destination: str) -> Gate:
        return Gate(destination, self._clock, self._pipeline.around.emit, self._gate_opened, self._breaker_period)

    # For those who look

    def watch(self, attempted: Callable[[Outcome, float], None]) -> None:
        """Have each call's outcome and seconds told."""
        self._courier.attempted = attempted

    def standing(self) -> Standing:
        """How it stands. For a thread that only looks: what changes under its eyes may raise RuntimeError."""
        lanes, gatekeeper, recorder, forwarder = self._lanes, self._gatekeeper, self._recorder, self._forwarder
        behind = lanes.behind()
        if behind and self._single:
            behind += len(gatekeeper)  # with the one breaker open nothing passes the gate either
        away = (recorder.pending if recorder.held else 0) + (len(gatekeeper) if gatekeeper.held else 0)
        held = {
            "breaker": behind,
            "database": away,
            "broker": forwarder.pending if forwarder.held else 0,
            "last-chance": len(self._parking),
        }
        return Standing(lanes.in_flight, lanes.slots, len(lanes), held)

    @property
    def broker_away(self) -> bool:
        """Whether a forward waits for the broker."""
        return self._forwarder.held

    # In

    def ready(self, work: Work) -> None:
        """A record is eligible."""
        if work.envelope.fault is not None:
            self._reject(work, work.envelope.fault)
        else:
            self._gatekeeper.submit(work)

    def _wanted(self) -> int:
        """How many more records the lanes can use; 0 until a look-up is worth it: the gate is asked in batches."""
        waiting = self._lanes.waiting if self._single else self._lanes.startable()
        room = AHEAD * self._lanes.slots - waiting
        return room if room >= LOOK_UP * self._lanes.slots else 0

    def _admit(self, work: Work) -> None:
        """The gate knows nothing of it: it may be sent."""
        notification = work.envelope.notification
        assert notification is not None  # noqa: S101 - what cannot be decoded never comes here
        if work.expired(self._clock.now()):
            self._apply(work, Record(Status.EXPIRED), work.outcome)
            return
        try:
            destination = self._carrier.destination(notification)
        except BadTarget as error:
            self._reject(work, str(error))
            return
        self._lanes.offer(work, destination)
        self._pump()

    # Out

    def _pump(self) -> None:
        """Give every free slot to whoever is next."""
        while (ticket := self._next()) is not None:
            task = asyncio.get_running_loop().create_task(self._fly(ticket))
            self._took_off(ticket, task)
            task.add_done_callback(self._watch)

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
                self._defer(work, Reason.BREAKER_OPEN)
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
            self._pipeline.failed(error)

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
            self._leave_behind(work, ours=not work.tenure.closed)
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
            self._apply(work, Record(Status.EXPIRED), outcome)
            return
        failed = is_failure(outcome)
        lane.gate.probed(ok=not failed, cause=describe(outcome))
        if not failed:
            self._decide(work, outcome)
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
            self._apply(work, Record(Status.EXPIRED), outcome)
        elif finding.ending is Ending.INTERRUPTED and work.tenure.leaving and not work.learned:
            self._pipeline.abandoned(work)  # its next owner tries again, with all its tries
        elif finding.ending is Ending.INTERRUPTED and self._single and not was_closed:
            self._put_off(work, lane)  # it keeps what it spent
        else:
            self._decide(work, outcome)

    def _withheld(self, work: Work, finding: Finding) -> None:
        """The channel's semantics did not let it be sent, or not again."""
        if finding.ruling is not None:
            self._apply(work, finding.ruling, finding.cause or finding.outcome)
            return
        work.phase = Phase.QUEUED
        if work.tenure.leaving:
            self._leave_behind(work, ours=not work.tenure.closed)
        else:
            self._gatekeeper.resubmit([work])

    def _put_off(self, work: Work, lane: Lane) -> None:
        """Its breaker is open."""
        if work.tenure.leaving:
            work.phase = Phase.QUEUED
            self._leave_behind(work, ours=not work.tenure.closed)
        elif self._single:
            work.phase = Phase.QUEUED
            self._lanes.put_back(work, lane.name)
        else:
            self._defer(work, Reason.BREAKER_OPEN)

    def _decide(self, work: Work, outcome: Outcome) -> None:
        self._apply(work, decide(outcome, work.situation(), self._ladder, self._clock.now()), outcome)

    def _reject(self, work: Work, reason: str) -> None:
        work.outcome = Rejected(reason)
        self._decide(work, work.outcome)

    def _defer(self, work: Work, reason: Reason) -> None:
        self._apply(work, defer(reason, work.situation(), self._ladder, self._clock.now()), work.outcome)

    def _apply(self, work: Work, disposition: Disposition, outcome: Outcome | str | None) -> None:
        """Carry out what was decided; `outcome`, or what stands for it, is written down as the error."""
        match disposition:
            case Record(status) if work.tenure.closed and status is not Status.DELIVERED:
                self._pipeline.abandoned(work)  # its next owner sees for itself
            case Record(status):
                work.phase = Phase.SETTLING
                delivered = isinstance(outcome, Delivered)
                error = _error(outcome)
                sent_at = self._clock.now() if delivered else None
                self._recorder.submit(work.row(self._name, status, error, sent_at=sent_at), work)
            case Forward():
                work.phase = Phase.SETTLING
                self._forwarder.forward(work, disposition, outcome)
            case Hold(after):
                work.phase = Phase.QUEUED
                if work.tenure.leaving:
                    self._leave_behind(work, ours=not work.tenure.closed)
                    return
                work.single = True
                self._parking.park(work, self._clock.monotonic() + after)
            case Skip():
                self._pipeline.settled(work)

    def _unpublishable(self, work: Work, detail: str) -> None:
        """Its copy can never be published: the row is written here."""
        row = work.row(self._name, Status.DLQ, f"unpublishable: {detail}")
        self._recorder.submit(row, work)

    def done(self, work: Work) -> None:
        """See `Handler.done`."""
        following = self._roots.free(work)
        if following is not None:
            self._gatekeeper.resubmit([following])

    def _gate_opened(self, gate: Gate) -> None:
        """Tries that wait behind this breaker stop."""
        for work, lane, _ in self._flying:
            if lane.gate is gate and work.interrupt is not None:
                work.interrupt.set()

    # pipeline.Handler

    def leave(self, holding: Holding, *, ours: bool) -> None:
        """See `Handler.leave`."""
        self._lanes.discard(holding.tenure)
        for work in list(holding.works.values()):
            if work.phase is Phase.QUEUED:
                self._leave_behind(work, ours=ours)
            elif work.interrupt is not None:
                work.interrupt.set()

    def _leave_behind(self, work: Work, *, ours: bool) -> None:
        """Give up work that is not under way, but not the knowledge that it may have reached the provider."""
        put_off = defer(Reason.BREAKER_OPEN, work.situation(), self._ladder, self._clock.now())
        if ours and work.learned and not isinstance(put_off, Hold):
            self._apply(work, put_off, work.outcome)
        else:
            self._pipeline.abandoned(work)

    def tick(self, *, full: bool) -> None:
        """See `Handler.tick`."""
        self._lanes.slots = self._limit.adjust(short=self._lanes.short)
        self._lanes.short = False
        if full and not self._single:
            # Whoever sits on the room without using it makes some.
            for work in self._lanes.overflow():
                self._defer(work, Reason.BUSY)
        self._gatekeeper.resubmit(self._parking.due(self._clock.monotonic()))
        self._gatekeeper.distrust(self._recorder.resumed_at)
        self._pump()

    def paused(self, partitions: Sequence[Partition]) -> Collection[Partition] | None:
        """See `Handler.paused`: with the one breaker open everything rests, but for a scout when nothing is held."""
        if not self._single or self._lanes.lane(self._name).gate.closed:
            return ()
        if self._lanes.waiting or len(self._gatekeeper) or self._flying or not partitions:
            return None
        scout = sorted(partitions)[int(self._clock.monotonic() / SCOUT) % len(partitions)]
        return [partition for partition in partitions if partition != scout]

    def waits(self) -> bool:
        """See `Handler.waits`."""
        held = self._gatekeeper.held or self._guard.held or self._forwarder.held
        return held or len(self._parking) > 0 or bool(self._lanes.open_gates())

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """See `Handler.tasks`."""
        return [self._gatekeeper.run(), self._logbook.run(), *self._guard.tasks()]

    def cancel(self) -> None:
        """See `Handler.cancel`."""
        for task in self._flying.values():
            task.cancel()

    async def close(self) -> int:
        """See `Handler.close`."""
        left = await asyncio.get_running_loop().run_in_executor(None, self._producer.stop, FLUSH)
        await self._logbook.written()
        await self._carrier.close()
        return left


def _error(outcome: Outcome | str | None) -> str | None:
    """What stands in `last_error`."""
    if outcome is None or isinstance(outcome, str):
        return outcome
    return None if isinstance(outcome, Delivered) else describe(outcome)
