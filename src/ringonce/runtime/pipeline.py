"""The frame that a sender and a DLQ recorder share: from the consumer's thread to the commit, and back out in order.

A handler is put into it that says what becomes of each record. The frame owns the partitions, the recorder, the commits
and the order in which everything stops:

1. nothing new begins; polling goes on, so that the group stays quiet;
2. what is under way ends, or is cancelled at the deadline;
3. rows are written, forwards acknowledged;
4. offsets are committed and the group is left;
5. connections are closed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from ringonce.errors import InternalError
from ringonce.kafka.port import by_topic
from ringonce.observe.events import PartitionsAssigned, PartitionsLost, PartitionsRevoked, Started, Stopped
from ringonce.runtime.failpoints import Failpoints, Point
from ringonce.runtime.intake import Intake
from ringonce.runtime.recorder import Recorder
from ringonce.runtime.tries import ATTEMPT_DEADLINE
from ringonce.store.port import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from ringonce.domain.notification import Channel
    from ringonce.domain.stages import Stage
    from ringonce.kafka.port import Offsets, Partition, Record
    from ringonce.kafka.thread import ConsumerThread, Owner
    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.intake import Holding
    from ringonce.runtime.work import Work
    from ringonce.store.port import Store

TICK: Final = 0.1
COMMIT_INTERVAL: Final = 0.5
DRAIN_DEADLINE: Final = ATTEMPT_DEADLINE + 1.0
"""Seconds for which a partition that goes may still finish what is under way."""
STOP_DEADLINE: Final = 10.0
"""Seconds for which a process that stops may still finish what is under way."""


class Handler(Protocol):
    """What becomes of each record."""

    def ready(self, work: Work) -> None:
        """A record came and is eligible."""
        ...

    def done(self, work: Work) -> None:
        """A record is finished, or was given up."""
        ...

    def leave(self, holding: Holding, *, ours: bool) -> None:
        """The partition goes. Begin nothing new for it; give up what is not under way.

        With `ours` it may still be forwarded for; without, only deliveries that are known may be recorded.
        """
        ...

    def tick(self, *, full: bool) -> None:
        """Called every `TICK` seconds; `full` when no more records can be taken in."""
        ...

    def paused(self, partitions: Sequence[Partition]) -> Collection[Partition] | None:
        """Which of our partitions should rest now; None for all of them, whichever they come to be."""
        ...

    def waits(self) -> bool:
        """Whether something is declared away, or to be tried again at a time that is known: that is no standstill."""
        ...

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """What has to run beside the frame."""
        ...

    def cancel(self) -> None:
        """The deadline has passed: break off what is under way to a provider."""
        ...

    async def close(self) -> int:
        """Flush and close what the handler opened; how many forwards' fate is open."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """What a role is: modes are data.

    `stages` maps each consumed topic to its stage; `channel` is None, and `name` empty, for the router's DLQ.
    """

    role: str
    consumer: str
    name: str
    channel: Channel | None
    stages: Mapping[str, Stage]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every role needs of the world."""

    node: str
    store: Store
    clock: Clock
    emit: Emit
    failpoints: Failpoints


class Pipeline:
    """One role of one process. Implements `kafka.thread.Owner`.

    `make_consumer` is given the owner, which is this pipeline.
    """

    def __init__(
        self, profile: Profile, around: Surroundings, make_consumer: Callable[[Owner], ConsumerThread]
    ) -> None:
        self.profile = profile
        self.around = around
        self.recorder = Recorder(
            around.store,
            Gate(profile.consumer, around.node),
            around.clock,
            around.emit,
            around.failpoints,
            self.settled,
        )
        self._emit = around.emit
        self._clock = around.clock
        self._intake = Intake(profile.stages, profile.channel, around.clock, self._ready)
        self._handler: Handler | None = None
        self._arrived = 0
        self._stopping = False
        self.beat = around.clock.monotonic()
        """When the event loop was last seen to turn (monotonic)."""
        self.progress = self.beat
        """When eligible work was last finished, or there was none, or it waited for something declared (monotonic)."""
        self._moved = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.consumer = make_consumer(self)
        self.assigned_once = asyncio.Event()
        """Set once the first partitions have come."""

    @property
    def handler(self) -> Handler:
        """Says what becomes of each record."""
        assert self._handler is not None  # noqa: S101 - attached before anything runs
        return self._handler

    @property
    def intake(self) -> Intake:
        """What has been taken in; to be looked at only."""
        return self._intake

    def attach(self, handler: Handler) -> None:
        """Put the handler in; once, before `run`."""
        self._handler = handler

    def _ready(self, work: Work) -> None:
        self.handler.ready(work)

    # What the handler's parts report

    def settled(self, work: Work) -> None:
        """The work's terminal action is durable."""
        self._intake.settle(work)
        self._over(work)

    def abandoned(self, work: Work) -> None:
        """The work will not be finished here; whoever owns its partition gets it again."""
        self._intake.abandon(work)
        self._over(work)

    def _over(self, work: Work) -> None:
        self.progress = self._clock.monotonic()
        self.handler.done(work)
        self._moved.set()

    def may_publish(self, work: Work) -> bool:
        """Whether the work's partition is ours beyond doubt."""
        return not work.tenure.closed and not self.consumer.stale()

    # kafka.thread.Owner

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.assigned`."""
        self._intake.assigned(partitions)
        if self._stopping:
            self._intake.leaving(partitions)
        if partitions:
            self._emit(PartitionsAssigned(by_topic(partitions)))
            self.assigned_once.set()

    def arrived(self, records: Sequence[Record]) -> None:
        """See `Owner.arrived`."""
        self._arrived += len(records)
        self._intake.arrived(records)
        # The thread paused what it took for not due; seen from here, a moment later, it may have become due.
        self._release()
        self._make_room()

    async def revoked(self, partitions: Sequence[Partition]) -> Offsets:
        """See `Owner.revoked`."""
        going = self._leave(partitions, ours=True)
        await self._emptied(going, DRAIN_DEADLINE)
        offsets = self._intake.marks(going)
        self._emit(PartitionsRevoked(by_topic(partitions), sum(len(holding.works) for holding in going)))
        self._intake.close(going)
        return offsets

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.lost`."""
        if not partitions:
            return
        self._emit(PartitionsLost(by_topic(partitions)))
        self._intake.close(self._leave(partitions, ours=False))

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """See `Owner.commit_failed`."""
        self._intake.uncommitted(partitions)

    def failed(self, error: BaseException) -> None:
        """See `Owner.failed`: a background task that dies takes the process down."""
        if not self._failure.done():
            self._failure.set_exception(error)

    # The frame

    def _leave(self, partitions: Sequence[Partition], *, ours: bool) -> list[Holding]:
        going = self._intake.leaving(partitions)
        for holding in going:
            self.handler.leave(holding, ours=ours)
        return going

    async def _emptied(self, going: Sequence[Holding], seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while any(holding.works for holding in going):
            self._moved.clear()
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return
            try:
                await asyncio.wait_for(self._moved.wait(), left)
            except TimeoutError:
                return

    def _release(self) -> None:
        self.consumer.release_but(self._intake.resting())

    def _make_room(self) -> None:
        self.consumer.allow(self._arrived + self._intake.room())

    async def _tick(self) -> None:
        commit_at = 0.0
        while True:
            await asyncio.sleep(TICK)
            self.beat = self._clock.monotonic()
            if not self._intake.active or self.recorder.held or self.handler.waits():
                self.progress = self.beat
            self._intake.promote()
            self._release()
            self.handler.tick(full=self._intake.room() == 0)
            self._make_room()
            resting = None if self._stopping else self.handler.paused(self._intake.partitions)
            self.consumer.paused = None if resting is None else {*resting, *self._intake.too_wide()}
            if self._clock.monotonic() >= commit_at:
                commit_at = self._clock.monotonic() + COMMIT_INTERVAL
                self._commit()

    def _commit(self) -> None:
        if self.consumer.stale():
            return
        offsets = self._intake.committable()
        if offsets:
            self.around.failpoints.hit(Point.BEFORE_COMMIT)
            self.consumer.commit(offsets)
            self._intake.committed(offsets)

    async def run(self, stop: asyncio.Event) -> int:
        """Work until `stop` is set; how many records had to be left behind.

        Raises:
            InternalError: something inside died.
        """
        tasks = [self._spawn(coroutine) for coroutine in (self.recorder.run(), self._tick(), *self.handler.tasks())]
        asyncio.get_running_loop().set_exception_handler(self._stumbled)
        self.consumer.start()
        self._emit(Started(self.profile.role, self.around.node))
        stopping = asyncio.ensure_future(stop.wait())
        ends: set[asyncio.Future[Any]] = {stopping, self._failure}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                raise InternalError(f"{self.profile.role}: a background task died") from self._failure.exception()
            left = await self._stop()
            self._emit(Stopped(self.profile.role, self.around.node, left))
            return left
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)

    def _stumbled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback has raised: whatever it was about is not done, so the process must not go on."""
        loop.default_exception_handler(context)
        self.failed(context.get("exception") or InternalError(str(context.get("message"))))

    def _spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._watch)
        return task

    def _watch(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    async def _stop(self) -> int:
        self._stopping = True
        self.consumer.paused = None
        going = self._leave(self._intake.partitions, ours=True)
        await self._emptied(going, STOP_DEADLINE)
        self.handler.cancel()
        # What is on its way to the database or the broker gets a little longer than what was on its way to a provider.
        await self._emptied(going, DRAIN_DEADLINE)
        left = sum(len(holding.works) for holding in going)
        await self.consumer.stop()
        return left + await self.handler.close()
