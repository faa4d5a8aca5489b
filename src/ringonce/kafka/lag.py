"""How many records of a topic a group has still before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ringonce.errors import ServerUnreachable

if TYPE_CHECKING:
    from ringonce.kafka.settings import ConsumerSettings

TIMEOUT: Final = 5.0


class Lag:
    """Looks at one group's offsets from outside, without joining it.

    Raises, from `of`:
        ServerUnreachable: the broker did not answer.
    """

    def __init__(self, membership: ConsumerSettings) -> None:
        self._bootstrap = membership.bootstrap
        self._consumer = Consumer(membership.librdkafka())
        self._partitions: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def of(self, topic: str) -> int:
        """Records from the committed offsets to the end; from the beginning where nothing was committed."""
        try:
            return sum(self._lag(place) for place in self._committed(topic))
        except KafkaException as error:
            raise ServerUnreachable("Kafka", self._bootstrap, str(error.args[0])) from error

    def _committed(self, topic: str) -> list[TopicPartition]:
        if topic not in self._partitions:
            metadata = self._consumer.list_topics(topic, timeout=TIMEOUT)
            self._partitions[topic] = sorted(metadata.topics[topic].partitions)
        wanted = [TopicPartition(topic, number) for number in self._partitions[topic]]
        return self._consumer.committed(wanted, timeout=TIMEOUT)

    def _lag(self, place: TopicPartition) -> int:
        low, high = self._consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        return high - max(low, place.offset)
