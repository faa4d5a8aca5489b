"""The sender: from a record that is eligible to its outcome, and from the outcome to what becomes of the record.

    ready → gate look-up → admit (breaker, share, expiry) → send → Outcome → decide → record | forward | hold | skip

Everything here runs in the event loop. What is between the gate and a slot is here, and what the frame asks of a role;
`flights` makes the calls, and `settlement` carries out what they lead to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ringonce.channels.port import BadTarget
from ringonce.channels.registry import Destinations
from ringonce.domain.attempt import Kept
from ringonce.domain.concurrency import ConcurrencyLimit
from ringonce.domain.disposition import Reason
from ringonce.domain.semantics import EFFECTIVELY_ONCE, Semantics
from ringonce.runtime.breaker import Gate
from ringonce.runtime.flights import Flights
from ringonce.runtime.gatekeeper import Gatekeeper
from ringonce.runtime.guard import guard_for
from ringonce.runtime.lanes import Lanes
from ringonce.runtime.logbook import Logbook
from ringonce.runtime.roots import Roots
from ringonce.runtime.settlement import Settlement
from ringonce.runtime.surety import Surety
from ringonce.runtime.tries import Courier
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
    from random import Random

    from ringonce.channels.port import Carrier
    from ringonce.channels.registry import ChannelRow
    from ringonce.domain.outcome import Outcome
    from ringonce.kafka.port import Partition
    from ringonce.kafka.thread import ProducerThread
    from ringonce.kafka.topics import TopicNames
    from ringonce.runtime.intake import Holding
    from ringonce.runtime.pipeline import Pipeline
    from ringonce.runtime.work import Work
    from ringonce.store.claims import Claims

AHEAD: Final = 5
"""Records that may wait behind the gate for each send slot, few enough to stay fresh."""

LOOK_UP: Final = 3
"""Records for each slot from which on a look-up is worth it: for the client it costs as much as tens of them."""

SCOUT: Final = 1.0
"""Seconds for which one partition is resumed in search of a record to probe with."""

FLUSH: Final = 5.0


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
        self._single = row.destinations is Destinations.ONE
        self._pipeline = pipeline
        self._clock, self._emit = clock, emit
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
        self._settlement = Settlement(pipeline, row, means.producer, means.names)
        self._forwarder = self._settlement.forwarder
        self._parking = self._settlement.parking
        self._flights = Flights(
            self._lanes,
            self._gatekeeper,
            self._courier,
            self._logbook,
            self._settlement,
            single=self._single,
            abandoned=pipeline.abandoned,
            failed=pipeline.failed,
        )

    def _make_gate(self, destination: str) -> Gate:
        return Gate(destination, self._clock, self._emit, self._flights.interrupt, self._breaker_period)

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
            self._settlement.reject(work, work.envelope.fault)
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
            self._settlement.expire(work, work.outcome)
            return
        try:
            destination = self._carrier.destination(notification)
        except BadTarget as error:
            self._settlement.reject(work, str(error))
            return
        self._lanes.offer(work, destination)
        self._flights.pump()

    def done(self, work: Work) -> None:
        """See `Handler.done`."""
        following = self._roots.free(work)
        if following is not None:
            self._gatekeeper.resubmit([following])

    # pipeline.Handler

    def leave(self, holding: Holding, *, ours: bool) -> None:
        """See `Handler.leave`."""
        self._lanes.discard(holding.tenure)
        for work in list(holding.works.values()):
            if work.phase is Phase.QUEUED:
                self._settlement.leave_behind(work, ours=ours)
            elif work.interrupt is not None:
                work.interrupt.set()

    def tick(self, *, full: bool) -> None:
        """See `Handler.tick`."""
        self._lanes.slots = self._limit.adjust(short=self._lanes.short)
        self._lanes.short = False
        if full and not self._single:
            # Whoever sits on the room without using it makes some.
            for work in self._lanes.overflow():
                self._settlement.defer(work, Reason.BUSY)
        self._gatekeeper.resubmit(self._parking.due(self._clock.monotonic()))
        self._gatekeeper.distrust(self._recorder.resumed_at)
        self._flights.pump()

    def paused(self, partitions: Sequence[Partition]) -> Collection[Partition] | None:
        """See `Handler.paused`: with the one breaker open everything rests, but for a scout when nothing is held."""
        if not self._single or self._lanes.lane(self._name).gate.closed:
            return ()
        if self._lanes.waiting or len(self._gatekeeper) or len(self._flights) or not partitions:
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
        self._flights.cancel()

    async def close(self) -> int:
        """See `Handler.close`."""
        left = await asyncio.get_running_loop().run_in_executor(None, self._producer.stop, FLUSH)
        await self._logbook.written()
        await self._carrier.close()
        return left
