"""A member of a consumer group, driven from one thread.

librdkafka runs every callback inside `poll`, so all of this happens in the thread that calls it, and nothing here needs
a lock. The asyncio side reaches it through `kafka.thread`.

Things that will bite:

- `pause` throws prefetched records away, so a partition is woken at most once a second.
- librdkafka keeps a partition paused that leaves and returns, and says so nowhere: whatever comes is resumed, and what
  has to rest is derived again.
- While one thread asks the broker something by way of a consumer, `poll` and `consume` of that consumer wait in any
  other thread. What has to be asked is asked through another client.
- The member may have been evicted without knowing (a stopped process, a starved thread). Whenever two polls lie further
  apart than it is sure of being a member (`ConsumerSettings.certain`) it counts itself as having lost everything and
  joins anew.
"""

from __future__ import annotations

import logging
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from ringonce.kafka.lookout import Lookout
from ringonce.kafka.port import Offsets, Partition, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ringonce.kafka.port import Headers
    from ringonce.kafka.settings import ConsumerSettings

log = logging.getLogger(__name__)

POLL: Final = 0.1
"""Seconds one poll waits for a first record."""

LOOK: Final = 10.0
"""Seconds of silence after which the broker is asked whether there is really nothing, and between two such looks."""
WAKE_INTERVAL: Final = 1.0
"""Seconds between two wakings of one partition."""


class Member(Protocol):
    """Who owns the partitions; called from within `poll`, in its thread."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """These are ours from now on."""
        ...

    def revoked(self, partitions: Sequence[Partition]) -> Offsets:
        """These go: finish what can be finished and return the offsets to commit."""
        ...

    def lost(self, partitions: Sequence[Partition]) -> None:
        """These are gone already; nothing may be committed, forwarded or released for them."""
        ...

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """A commit did not arrive; what it stood for is to be committed again."""
        ...


@cache
def _partition(topic: str, number: int) -> Partition:
    """One object for each partition: it is looked up by it for every record."""
    return Partition(topic, number)


class Polled(Protocol):
    """A polled message that carries no error: what the library's own type allows to be missing is there."""

    topic: Callable[[], str]
    partition: Callable[[], int]
    offset: Callable[[], int]
    timestamp: Callable[[], tuple[int, int]]
    key: Callable[[], bytes | None]
    value: Callable[[], bytes | None]
    headers: Callable[[], Headers | None]


def to_record(message: Message) -> Record:
    """A polled message that carries no error."""
    polled = cast("Polled", message)
    try:
        headers = polled.headers() or []
    except UnicodeDecodeError:  # a header whose name is no UTF-8: ours all are, and no other is acted upon
        headers = []
    partition = _partition(polled.topic(), polled.partition())
    # What a named tuple's own constructor does, without the Python function that it is: once for every record.
    return tuple.__new__(
        Record, (partition, polled.offset(), polled.timestamp()[1], polled.key(), polled.value(), headers)
    )


class GroupConsumer:
    """One member of one group."""

    def __init__(self, settings: ConsumerSettings, topics: Sequence[str], member: Member) -> None:
        self._settings = settings
        self._topics = list(topics)
        self._member = member
        self._assignment: set[Partition] = set()
        self._paused: set[Partition] = set()
        self._woken: dict[Partition, float] = {}
        self._interrupted: list[Exception] = []
        self.last_poll = monotonic()
        self.fed = self.last_poll
        """When records last came, or none were there to come (monotonic); old when fetching has silently stopped."""
        self._look_at = self.fed + LOOK
        self._lookout: Lookout | None = None
        self._read_to: dict[Partition, int] = {}
        self._consumer = self._join()

    def _join(self) -> Consumer:
        configuration = {
            **self._settings.librdkafka(on_commit=self._on_commit),
            "enable.partition.eof": True,  # tells how far a partition was read, past what is no record
        }
        consumer = Consumer(configuration, logger=log)
        consumer.subscribe(self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        return consumer

    @property
    def assignment(self) -> Collection[Partition]:
        """The partitions that this member owns."""
        return self._assignment

    def stale(self) -> bool:
        """Whether the last poll is so long ago that the group may have given our partitions to others."""
        return monotonic() - self.last_poll > self._settings.certain

    def poll(self, most: int, timeout: float = POLL) -> list[Record]:
        """Up to `most` records; waits up to `timeout` seconds for the first one.

        With `most` 0 it serves callbacks only; the caller has paused what it owns, and a record that arrives all the
        same is returned.
        """
        if self.stale():
            self._rejoin()
        # consume() waits out its timeout unless its batch is full: poll for one, then take what is there.
        first = self._consumer.poll(timeout if most else min(timeout, POLL))
        self._raise_interrupted()
        # Asked before this poll counts: the process may have been stopped within it, for longer than the group waits.
        if self.stale():
            self._rejoin()
            return []
        self.last_poll = monotonic()
        if first is None:
            if most:
                self._look_for_missed()
            else:
                self._eat()
            return []
        self._eat()
        messages = [first]
        if most > 1:
            messages += self._consumer.consume(most - 1, 0)
            self._raise_interrupted()
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(to_record(message))
            else:
                self._heard(message, error)
        return records

    def _eat(self) -> None:
        self.fed = monotonic()
        self._look_at = self.fed + LOOK

    def _look_for_missed(self) -> None:
        """After a long silence, have the broker asked whether there is really nothing: a fetcher can die silently."""
        if self._lookout is not None:
            if self._lookout.missed is None:
                return  # still asking
            if not self._lookout.missed:
                self.fed = max(self.fed, self._lookout.began)
            self._lookout = None
        if monotonic() >= self._look_at:
            self._look_at = monotonic() + LOOK
            self._lookout = Lookout(self._settings, self._reached())

    def _reached(self) -> dict[Partition, int | None]:
        """How far each partition that is fetched was read; None where nothing has come yet."""
        fetched = [TopicPartition(*partition) for partition in self._assignment - self._paused]
        reached: dict[Partition, int | None] = {}
        for place in self._consumer.position(fetched) if fetched else ():
            partition = Partition(place.topic, place.partition)
            offset = max(place.offset, self._read_to.get(partition, -1))
            reached[partition] = offset if offset >= 0 else None
        return reached

    def _end_lookout(self) -> None:
        """What it finds is about an assignment that is over."""
        if self._lookout is not None:
            self._lookout.end()
            self._lookout = None

    def _raise_interrupted(self) -> None:
        """Callbacks must not raise through librdkafka; what went wrong in one surfaces here."""
        if self._interrupted:
            raise self._interrupted.pop(0)

    def _heard(self, message: Message, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - how the library names its own codes
            partition = _partition(cast("str", message.topic()), cast("int", message.partition()))
            self._read_to[partition] = cast("int", message.offset())
        else:
            self._complain(error)

    def _complain(self, error: KafkaError) -> None:
        # Everything that librdkafka reports here it goes on to repair by itself.
        log.warning("consumer: %s", error.name(), extra={"reason": error.str()})

    def pause_only(self, wanted: Collection[Partition]) -> None:
        """Make the paused partitions exactly those in `wanted`, waking each at most once a second."""
        now = monotonic()
        to_pause = [
            partition for partition in wanted if partition in self._assignment and partition not in self._paused
        ]
        to_resume = [
            partition
            for partition in self._paused
            if partition not in wanted and now - self._woken.get(partition, -WAKE_INTERVAL) >= WAKE_INTERVAL
        ]
        if to_pause:
            self._consumer.pause([TopicPartition(*partition) for partition in to_pause])
            self._paused.update(to_pause)
        if to_resume:
            self._consumer.resume([TopicPartition(*partition) for partition in to_resume])
            self._paused.difference_update(to_resume)
            self._woken.update(dict.fromkeys(to_resume, now))

    def commit(self, offsets: Offsets, *, wait: bool = False) -> None:
        """Commit; a failure is told to the member, and the same offsets are offered again.

        Nothing is committed for what is not (or may no longer be) ours.
        """
        if self.stale():
            return
        ours = {partition: offset for partition, offset in offsets.items() if partition in self._assignment}
        if not ours:
            return
        request = [TopicPartition(partition.topic, partition.number, offset) for partition, offset in ours.items()]
        try:
            # Within a rebalance only a commit that waits can still be accepted; elsewhere waiting would stop the polls.
            if wait:
                self._consumer.commit(offsets=request, asynchronous=False)
            else:
                self._consumer.commit(offsets=request, asynchronous=True)
        except KafkaException as error:
            self._commit_failed(error.args[0], list(ours))

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        failed = [Partition(p.topic, p.partition) for p in partitions if error is not None or p.error is not None]
        if failed:
            self._commit_failed(error, failed)

    def _commit_failed(self, error: KafkaError | None, partitions: Sequence[Partition]) -> None:
        log.warning("commit failed", extra={"reason": None if error is None else error.name()})
        self._member.commit_failed(partitions)

    def close(self) -> None:
        """Leave the group: the partitions are revoked (the member is asked one last time) and others may have them."""
        self._end_lookout()
        self._consumer.close()
        self._assignment.clear()
        self._paused.clear()

    # Callbacks

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        came = [Partition(p.topic, p.partition) for p in partitions]
        self._assignment.update(came)
        self._paused.difference_update(came)

        def take_over() -> None:
            if partitions:
                consumer.resume(partitions)
            self._member.assigned(came)

        self._guard(take_over)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        gone = [Partition(p.topic, p.partition) for p in partitions]
        if self.stale():
            self._give_up(gone)
            return
        self.last_poll = monotonic()  # we are being served; the drain that follows has the session timeout to itself

        def leave() -> None:
            self.commit(self._member.revoked(gone), wait=True)

        self._guard(leave)
        self._forget(gone)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up([Partition(p.topic, p.partition) for p in partitions])

    def _give_up(self, partitions: Sequence[Partition]) -> None:
        ours = [partition for partition in partitions if partition in self._assignment]
        self._forget(ours)
        if ours:
            self._guard(lambda: self._member.lost(ours))

    def _forget(self, partitions: Sequence[Partition]) -> None:
        self._assignment.difference_update(partitions)
        self._paused.difference_update(partitions)
        for partition in partitions:
            self._woken.pop(partition, None)
            self._read_to.pop(partition, None)

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - an exception must not cross librdkafka; poll raises it
            self._interrupted.append(error)

    def _rejoin(self) -> None:
        log.warning("too long without a poll to be sure of the group: counting every partition as lost, joining anew")
        # `last_poll` stays old until the member has heard of it: until then nobody may forward or commit.
        self._give_up(list(self._assignment))
        self._end_lookout()
        self._consumer.close()
        self._raise_interrupted()
        self.last_poll = monotonic()
        self._consumer = self._join()
