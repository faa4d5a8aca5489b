"""Sends dead-lettered records again: the value unchanged, a new identity in the headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.domain.identity import MAX_REPLAYS, replay_id
from ringonce.kafka import headers as names
from ringonce.kafka.port import PublishFailed, Unpublishable
from ringonce.runtime.envelope import open_record
from ringonce.runtime.failpoints import Failpoints, Point

if TYPE_CHECKING:
    from ringonce.domain.notification import Channel
    from ringonce.kafka.port import Headers, Record
    from ringonce.kafka.producer import KafkaProducer
    from ringonce.kafka.reader import BoundedReader
    from ringonce.runtime.clock import Clock

OPEN_AT_MOST: Final = 1000


def replay_headers(record: Record, channel: Channel, now: float) -> Headers | None:
    """The headers of a record's next replay, or None when it has been replayed too often.

    `origin`, `maybe.reached` and an explicit `idempotency.key` stay; the counts of the last run go.
    """
    envelope = open_record(record, channel, now)
    identity = envelope.identity
    count = identity.replay + 1
    if count > MAX_REPLAYS:
        return None
    return names.replace(
        record.headers,
        {
            names.ORIGIN: str(envelope.origin),
            names.NOTIFICATION_ID: replay_id(identity.root, count),
            names.REPLAY_OF: identity.root,
            names.REPLAY_COUNT: str(count),
            names.RETRY_COUNT: None,
            names.ATTEMPTS: None,
            names.DEFERRED_SINCE: None,
            names.ERROR_CLASS: None,
            names.ERROR_MESSAGE: None,
            names.ERROR_TIMESTAMP: None,
            names.ERROR_STATUS: None,
            names.ORIGINAL_TOPIC: None,
            names.PREVIOUS_TOPIC: None,
            names.FORWARD_REASON: None,
        },
    )


class Replay:
    """Replays one channel's DLQ up to the end that it has now."""

    def __init__(
        self,
        reader: BoundedReader,
        producer: KafkaProducer,
        topic: str,
        channel: Channel,
        clock: Clock,
        failpoints: Failpoints,
    ) -> None:
        self._reader = reader
        self._producer = producer
        self._topic = topic
        self._channel = channel
        self._clock = clock
        self._failpoints = failpoints
        self._open = 0
        self._failures: list[tuple[Record, Headers]] = []
        self.published = 0
        self.skipped = 0

    def run(self) -> None:
        """Publish everything; progress is committed only past what has been acknowledged."""
        while (batch := self._reader.next(OPEN_AT_MOST)) is not None:
            for record in batch:
                headers = replay_headers(record, self._channel, self._clock.now())
                if headers is None:
                    self.skipped += 1
                else:
                    self._publish(record, headers)
            self._settle()
            self._reader.commit()

    def _publish(self, record: Record, headers: Headers) -> None:
        self._open += 1

        def done(failure: PublishFailed | None) -> None:
            self._open -= 1
            if failure is None:
                self.published += 1
                self._failpoints.hit(Point.AFTER_PUBLISH)
            elif isinstance(failure, Unpublishable):
                self.skipped += 1  # it stays in the DLQ, where its row already says why
            else:
                self._failures.append((record, headers))

        self._producer.publish(self._topic, record.key, record.value, headers, done)
        self._producer.poll(0)

    def _settle(self) -> None:
        while self._open or self._failures:
            again, self._failures = self._failures, []
            for record, headers in again:
                self._publish(record, headers)
            self._producer.poll(0.1)
