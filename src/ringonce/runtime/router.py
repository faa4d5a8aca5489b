"""The router: from the entry topic to each channel's, byte for byte, and no other logic.

One thread consumes, produces and commits; delivery reports run in it too, so nothing here needs a lock. What is
committed has been acknowledged by every in-sync replica.
"""

from __future__ import annotations

import hashlib
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from ringonce.domain.disposition import Reason
from ringonce.domain.ledger import Tenure
from ringonce.domain.notification import Channel
from ringonce.kafka import headers as names
from ringonce.kafka.codec import Undecodable, decode_channel
from ringonce.kafka.headers import Entered
from ringonce.kafka.port import PublishFailed, by_topic
from ringonce.kafka.port import Unpublishable as CannotPublish
from ringonce.observe.events import (
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Started,
    Stopped,
    Unpublishable,
)
from ringonce.runtime.envelope import open_record
from ringonce.runtime.failpoints import Failpoints, Point
from ringonce.runtime.hold import Hold

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ringonce.kafka.consumer import GroupConsumer, Member
    from ringonce.kafka.port import Headers, Offsets, Partition, Record
    from ringonce.kafka.producer import KafkaProducer
    from ringonce.kafka.topics import TopicNames
    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock

BATCH: Final = 500
MOST_OPEN: Final = 20_000
"""Records not acknowledged, those that are published again included; beyond that nothing more is consumed."""
MOST_OPEN_BYTES: Final = 64 * 1024 * 1024
COMMIT_INTERVAL: Final = 0.5
AGAIN: Final = 1.0
DRAIN_DEADLINE: Final = 5.0
PATIENCE: Final = 0.3


class Copy(NamedTuple):
    """A record on its way to where it belongs."""

    record: Record
    tenure: Tenure
    topic: str
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    size: int


class Router:
    """Implements `kafka.consumer.Member`.

    Args:
        topics: the topic of each configured channel.
        names: the entry topics' names.
        node: stands in `router-node`.
        producer: acks=all.
        clock: for header times.
        emit: told of what happens.
        failpoints: where a test has it killed.
    """

    def __init__(
        self,
        topics: Mapping[Channel, str],
        names: TopicNames,
        node: str,
        producer: KafkaProducer,
        clock: Clock,
        emit: Emit,
        failpoints: Failpoints,
    ) -> None:
        self._failpoints = failpoints
        self._topics = {int(channel): topic for channel, topic in topics.items()}
        self._entry = names.entry
        self._dlq = names.entry_dlq
        self._node = node
        self._entered = Entered(node)
        self._producer = producer
        self._clock = clock
        self._emit = emit
        self._tenures: dict[Partition, Tenure] = {}
        self._open = 0
        self._open_bytes = 0
        self._again: list[tuple[float, Copy]] = []
        self.beat = monotonic()
        """When the loop was last seen to turn (monotonic)."""
        self.fed = self.beat
        """When records last came, or none were there to come (monotonic)."""
        self._hold = Hold("broker", clock, emit)
        self.acknowledged: Callable[[str], None] | None = None
        """Told of the topic of each record that is where it belongs, where somebody counts them."""

    @property
    def held(self) -> int:
        """How many records wait for a broker that does not take them."""
        return self._open + len(self._again) if self._hold.lasting else 0

    @property
    def open(self) -> int:
        """How many records are on their way."""
        return self._open + len(self._again)

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return len(self._tenures)

    def run(self, stop: threading.Event, join: Callable[[Member], GroupConsumer]) -> int:
        """Route until `stop` is set; how many records' fate is open then (they come again)."""
        consumer = join(self)
        self._emit(Started("router", self._node))
        commit_at, full_since = 0.0, None
        while not stop.is_set():
            now = self.beat = monotonic()
            full = self._open + len(self._again) >= MOST_OPEN or self._open_bytes >= MOST_OPEN_BYTES
            full_since = (full_since or now) if full else None
            starved = full_since is not None and now - full_since > PATIENCE
            consumer.pause_only(set(consumer.assignment) if starved else ())
            if full and not starved:
                self._producer.poll(0.05)
            else:
                self._route(consumer.poll(0 if full else BATCH))
                self.fed = consumer.fed
                self._producer.poll(0)
            self._publish_again(now)
            if now >= commit_at:
                commit_at = now + COMMIT_INTERVAL
                self._commit(consumer)
        self._settle(DRAIN_DEADLINE)
        consumer.close()
        left = self._open + len(self._again)
        self._emit(Stopped("router", self._node, left))
        return left

    def _route(self, records: Sequence[Record]) -> None:
        for record in records:
            tenure = self._tenures.get(record.partition)
            if tenure is not None and tenure.deliver(record.offset):
                self._publish(self._address(record, tenure))

    def _address(self, record: Record, tenure: Tenure) -> Copy:
        """Where a record goes."""
        unreadable = None
        try:
            channel = decode_channel(record.value)
        except Undecodable as error:
            channel, unreadable = int(Channel.UNSPECIFIED), str(error)
        topic = self._topics.get(channel)
        headers = self._entered(record, channel)
        if topic is None:
            unknown = f"channel {channel} is unset, unknown or not configured"
            fault = ("UnknownChannel", unknown) if unreadable is None else ("Undecodable", unreadable)
            topic, headers = self._dlq, names.replace(headers, self._obituary(*fault))
        return Copy(record, tenure, topic, record.value, headers, max(0, record.timestamp_ms), record.size)

    def _obituary(self, error_class: str, message: str) -> dict[str, str | None]:
        return {
            names.ERROR_CLASS: error_class,
            names.ERROR_MESSAGE: names.one_line(message),
            names.ERROR_TIMESTAMP: names.millis(self._clock.now()),
            names.ORIGINAL_TOPIC: self._entry,
            names.PREVIOUS_TOPIC: self._entry,
            names.FORWARD_REASON: Reason.PERMANENT.value,
        }

    def _publish(self, copy: Copy) -> None:
        self._open += 1
        self._open_bytes += copy.size
        self._producer.publish(
            copy.topic,
            copy.record.key,
            copy.value,
            copy.headers,
            partial(self._published, copy),
            copy.timestamp_ms,
        )

    def _published(self, copy: Copy, failure: PublishFailed | None) -> None:
        self._open -= 1
        self._open_bytes -= copy.size
        if failure is None:
            self._failpoints.hit(Point.AFTER_PRODUCE)
            copy.tenure.finish(copy.record.offset)
            if self.acknowledged is not None:
                self.acknowledged(copy.topic)
            if self._hold.lasting and not self._again:
                self._hold.over()
        elif isinstance(failure, CannotPublish) and copy.value is not None:
            self._bury(copy, failure)
        else:
            # Its fate is unknown, or the broker will not have it now: again, and the offset waits.
            self._hold.lasts(failure.detail, self._open)
            self._again.append((monotonic() + AGAIN, copy))

    def _bury(self, copy: Copy, failure: PublishFailed) -> None:
        """It can never be published as it is: its headers go to the DLQ without the value."""
        value = copy.record.value or b""
        # As its headers are now: what they said when it came in is a stranger's word.
        envelope = open_record(copy.record._replace(headers=copy.headers), None, self._clock.now())
        self._emit(Unpublishable(envelope.identity.id, copy.topic, failure.detail))
        changes: dict[str, str | None] = {
            **self._obituary("Unpublishable", f"unpublishable: {failure.detail}"),
            names.ROOT_ID: envelope.identity.root,
            names.VALUE_SIZE: str(len(value)),
            names.VALUE_SHA256: hashlib.sha256(value).hexdigest(),
            names.TRACEPARENT: envelope.hints.traceparent,
        }
        ours = [(name, text) for name, text in copy.headers if name in names.RESERVED]
        self._publish(copy._replace(topic=self._dlq, value=None, headers=names.replace(ours, changes), timestamp_ms=0))

    def _publish_again(self, now: float) -> None:
        if not self._again or self._again[0][0] > now:
            return
        due = [copy for when, copy in self._again if when <= now]
        self._again = [(when, copy) for when, copy in self._again if when > now]
        for copy in due:
            if not copy.tenure.closed:
                self._publish(copy)

    def _committable(self) -> Offsets:
        marks = {partition: tenure.committable() for partition, tenure in self._tenures.items()}
        return {partition: mark for partition, mark in marks.items() if mark is not None}

    def _commit(self, consumer: GroupConsumer) -> None:
        offsets = self._committable()
        if offsets and not consumer.stale():
            consumer.commit(offsets)
            for partition, offset in offsets.items():
                self._tenures[partition].committed(offset)

    def _settle(self, seconds: float) -> None:
        """Wait for the acknowledgements that are still open."""
        deadline = monotonic() + seconds
        while self._open and monotonic() < deadline:
            self._producer.poll(0.05)

    # kafka.consumer.Member

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """See `Member.assigned`."""
        self._tenures.update({partition: Tenure(*partition) for partition in partitions})
        self._emit(PartitionsAssigned(by_topic(partitions)))

    def revoked(self, partitions: Sequence[Partition]) -> Offsets:
        """See `Member.revoked`."""
        self._settle(DRAIN_DEADLINE)
        going = {partition: self._tenures[partition] for partition in partitions if partition in self._tenures}
        offsets = {partition: mark for partition, tenure in going.items() if (mark := tenure.mark) is not None}
        left = sum(tenure.unfinished for tenure in going.values())
        self._emit(PartitionsRevoked(by_topic(partitions), left))
        self._forget(partitions)
        return offsets

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Member.lost`."""
        if partitions:
            self._emit(PartitionsLost(by_topic(partitions)))
        self._forget(partitions)

    def _forget(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            tenure = self._tenures.pop(partition, None)
            if tenure is not None:
                tenure.close()

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """See `Member.commit_failed`."""
        for partition in partitions:
            if partition in self._tenures:
                self._tenures[partition].uncommitted()
