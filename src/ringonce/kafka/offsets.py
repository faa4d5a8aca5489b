"""Where a group stands in a topic, seen from outside, and how it is moved before it is used."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from ringonce.kafka.patience import TIMEOUT, ask

if TYPE_CHECKING:
    from ringonce.kafka.settings import ConsumerSettings

log = logging.getLogger(__name__)


class Standing(NamedTuple):
    """One partition: its first offset, its end, and what the group has committed, None where nothing."""

    low: int
    high: int
    committed: int | None

    @property
    def start(self) -> int:
        """Where the group would go on: what was committed, or what is still there."""
        return self.low if self.committed is None else max(self.low, self.committed)


def standings(consumer: Consumer, bootstrap: str, topic: str) -> dict[int, Standing]:
    """How the consumer's group stands in every partition of a topic.

    Raises:
        ServerUnreachable: the broker did not answer.
    """

    def look() -> dict[int, Standing]:
        numbers = sorted(consumer.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions)
        places = consumer.committed([TopicPartition(topic, number) for number in numbers], timeout=TIMEOUT)
        found = {}
        for place in places:
            low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
            found[place.partition] = Standing(low, high, place.offset if place.offset >= 0 else None)
        return found

    return ask(bootstrap, look)


def skip_backlog(membership: ConsumerSettings, topic: str) -> bool:
    """Commit the end offsets of `topic` for a group that has none there yet; whether that was done.

    Raises:
        ServerUnreachable: the broker did not answer.
    """
    consumer = Consumer(membership.librdkafka(), logger=log)
    try:
        found = standings(consumer, membership.bootstrap, topic)
        if any(place.committed is not None for place in found.values()):
            return False
        ends = [TopicPartition(topic, number, place.high) for number, place in found.items()]
        ask(membership.bootstrap, lambda: consumer.commit(offsets=ends, asynchronous=False))
        return True
    finally:
        consumer.close()
