"""The threads in which librdkafka is served, and their way into the event loop.

Everything a thread learns reaches the loop through `call_soon_threadsafe`, in order; what the loop wants is left in
plain attributes that one side writes and the other reads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Final, Protocol

from ringonce.kafka.consumer import POLL, GroupConsumer
from ringonce.kafka.producer import KafkaProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ringonce.kafka.port import Headers, Offsets, Partition, PublishFailed, Record
    from ringonce.kafka.producer import Told
    from ringonce.kafka.settings import ConsumerSettings, ProducerSettings

BATCH: Final = 100
"""Records of one poll. The event loop opens them in one go, and nothing else happens there meanwhile."""
PATIENCE: Final = 0.3
"""Seconds without room after which partitions are paused; before that it is cheaper not to poll."""


class Owner(Protocol):
    """The loop's side; every method runs in the event loop."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """These are ours."""
        ...

    def arrived(self, records: Sequence[Record]) -> None:
        """These were polled."""
        ...

    async def revoked(self, partitions: Sequence[Partition]) -> Offsets:
        """Finish what can be finished; the offsets to commit. Must end within `drain_deadline`."""
        ...

    def lost(self, partitions: Sequence[Partition]) -> None:
        """These are gone."""
        ...

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """Their offsets are to be committed again."""
        ...

    def failed(self, error: BaseException) -> None:
        """The thread has died; so must the process."""
        ...


class ConsumerThread:
    """Polls for an event loop: one member of the group for each topic.

    One member for all topics would be fewer connections. But the sticky assignor balances what a member holds over all
    topics together: of two senders one could end up with the whole main topic, and the other with the retry stages.

    Args:
        settings: the membership.
        topics: what to subscribe to; the first one is the busiest.
        delays: seconds by topic; a partition of such a topic is paused as soon as a record of it is not due, so that at
            most one polled batch of it is kept.
        owner: told of everything.
        loop: where the owner lives.
        drain_deadline: seconds that a revocation may take.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        topics: Sequence[str],
        delays: Mapping[str, float],
        owner: Owner,
        loop: asyncio.AbstractEventLoop,
        drain_deadline: float,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._delays = delays
        self._owner = owner
        self._loop = loop
        self._drain_deadline = drain_deadline
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)
        self._stopping = threading.Event()
        self._room = threading.Event()
        self._offsets: deque[Offsets] = deque()
        self._resting: set[Partition] = set()  # paused here because their records are not due
        self._stopped = asyncio.Event()
        self.paused: Collection[Partition] | None = frozenset()
        """What the loop wants paused; None for everything."""
        self.allowed = BATCH
        """How many records may be handed over in all, ever; the loop raises it as it finishes them."""
        self.handed = 0
        self._members: list[GroupConsumer] = []
        self.beat = monotonic()

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def allow(self, total: int) -> None:
        """Raise `allowed`."""
        self.allowed = total
        self._room.set()

    def release_but(self, resting: Collection[Partition]) -> None:
        """Only these have records that are not due."""
        for partition in list(self._resting):
            if partition not in resting:
                self._resting.discard(partition)

    def commit(self, offsets: Offsets) -> None:
        """Have offsets committed soon."""
        self._offsets.append(offsets)

    def stale(self) -> bool:
        """Whether we must count ourselves as having lost everything."""
        return any(member.stale() for member in self._members)

    @property
    def fed(self) -> float:
        """When records last came to every member, or none were there to come (monotonic)."""
        return min((member.fed for member in self._members), default=self.beat)

    async def stop(self) -> None:
        """Commit what `revoked` says one last time, leave the group, and end the thread."""
        self._stopping.set()
        self._room.set()
        if self._thread.is_alive():
            await self._stopped.wait()

    # In the thread

    def _run(self) -> None:
        try:
            self._members = [GroupConsumer(self._settings, [topic], self) for topic in self._topics]
            full_since = None
            while not self._stopping.is_set():
                self.beat = monotonic()
                room = min(BATCH, self.allowed - self.handed)
                if room > 0:
                    full_since = None
                elif full_since is None:
                    full_since = monotonic()
                self._step(room, starved=full_since is not None and monotonic() - full_since > PATIENCE)
            for member in self._members:
                member.close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the process must hear of it
            self._tell(self._owner.failed, error)
        finally:
            self._tell(self._stopped.set)

    def _step(self, room: int, *, starved: bool) -> None:
        while self._offsets:
            offsets = self._offsets.popleft()
            for member in self._members:
                member.commit(offsets)
        everything = starved or self.paused is None
        wanted = self._resting | set(self.paused or ())
        for member in self._members:
            member.pause_only(set(member.assignment) if everything else wanted)
        if room <= 0 and not everything:
            self._room.clear()
            if self.allowed - self.handed <= 0:  # it may have been raised before the clear
                self._room.wait(POLL)
            return
        # The first topic is waited for, the others are looked at in passing: theirs are the retry stages, which are
        # measured in seconds.
        for member in self._members:
            records = member.poll(max(room, 0), POLL if member is self._members[0] else 0.0)
            if records:
                room -= len(records)
                self._rest(records)
                self.handed += len(records)
                self._tell(self._owner.arrived, records)

    def _rest(self, records: Sequence[Record]) -> None:
        for record in records:
            delay = self._delays.get(record.partition.topic)
            if delay and record.timestamp_ms / 1000 + delay > time():
                self._resting.add(record.partition)

    def _tell(self, call: Callable[..., object], *args: object) -> None:
        # A loop that is closed has nobody left to tell.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *args)

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """See `Member.assigned`."""
        self._resting.difference_update(partitions)
        self._tell(self._owner.assigned, partitions)

    def revoked(self, partitions: Sequence[Partition]) -> Offsets:
        """See `Member.revoked`: the loop drains while this thread waits; librdkafka keeps up the heartbeats."""
        started = monotonic()
        draining = asyncio.run_coroutine_threadsafe(self._owner.revoked(partitions), self._loop)
        try:
            return draining.result(timeout=self._drain_deadline + 1.0)
        except (FutureTimeout, CancelledError):
            draining.cancel()
            return {}
        finally:
            self._forget(partitions)
            self._excuse(monotonic() - started)

    def _excuse(self, seconds: float) -> None:
        """Draining for one topic kept this thread from polling the others; that is no silence of theirs."""
        if seconds <= self._drain_deadline + 2.0:  # longer: the process was stopped meanwhile, and all is as it looks
            for member in self._members:
                member.last_poll += seconds

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Member.lost`."""
        self._forget(partitions)
        heard = threading.Event()

        def tell() -> None:
            self._owner.lost(partitions)
            heard.set()

        # This thread goes on only when the loop knows: until then the old last poll keeps it from forwarding.
        self._tell(tell)
        heard.wait(self._drain_deadline)

    def _forget(self, partitions: Sequence[Partition]) -> None:
        self._resting.difference_update(partitions)
        # What was handed over and not sent must not be sent once the partition is gone: if it came back within the same
        # poll, after another member had gone on, that would set the group back.
        for offsets in list(self._offsets):
            for partition in partitions:
                offsets.pop(partition, None)

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """See `Member.commit_failed`."""
        self._tell(self._owner.commit_failed, partitions)


class ProducerThread:
    """Publishes from an event loop; delivery reports come back into it, many at a time. Implements `Publisher`."""

    def __init__(
        self, settings: ProducerSettings, loop: asyncio.AbstractEventLoop, failed: Callable[[BaseException], None]
    ) -> None:
        self._producer = KafkaProducer(settings)
        self._loop = loop
        self._failed = failed
        self._stopping = threading.Event()
        self._reports: deque[tuple[Callable[[PublishFailed | None], None], PublishFailed | None]] = deque()
        self._awaited = False  # whether the loop has been told of reports that it has not taken yet
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def watch(self, timed: Callable[[float], None]) -> None:
        """Have it told, in the thread, how many seconds each acknowledged record took."""
        self._producer.timed = timed

    def trace(self, traced: Callable[[str, Headers], tuple[Headers, Told]]) -> None:
        """Have each record traced; see `KafkaProducer.traced`."""
        self._producer.traced = traced

    def start(self) -> None:
        """Serve delivery reports from now on."""
        self._thread.start()

    def publish(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        done: Callable[[PublishFailed | None], None],
        timestamp_ms: int = 0,
    ) -> None:
        """See `Publisher.publish`; `done` runs in the event loop."""

        def report(failure: PublishFailed | None) -> None:
            # First the report, then the look at the flag, which the loop clears before it takes what is there: of two
            # threads that report at once (a publish may fail in the loop's own) neither can rely on the other in vain.
            self._reports.append((done, failure))
            if not self._awaited:
                self._awaited = True
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._deliver_reports)

        self._producer.publish(topic, key, value, headers, report, timestamp_ms)

    def _deliver_reports(self) -> None:
        self._awaited = False
        for done, failure in [self._reports.popleft() for _ in range(len(self._reports))]:
            done(failure)

    def stop(self, timeout: float) -> int:
        """Flush for up to `timeout` seconds and end the thread; how many records' fate is still open."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout + 1.0)
        return self._producer.flush(timeout)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._producer.poll(POLL)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the process must hear of it
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._failed, error)
