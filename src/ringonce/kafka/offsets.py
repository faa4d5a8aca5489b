"""Moves a group's offsets before it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ringonce.errors import ServerUnreachable

if TYPE_CHECKING:
    from ringonce.kafka.settings import ConsumerSettings

TIMEOUT = 10.0


def skip_backlog(membership: ConsumerSettings, topic: str) -> bool:
    """Commit the end offsets of `topic` for a group that has none there yet; whether that was done.

    Raises:
        ServerUnreachable: the broker did not answer.
    """
    consumer = Consumer(membership.librdkafka())
    try:
        metadata = consumer.list_topics(topic, timeout=TIMEOUT).topics[topic]
        partitions = [TopicPartition(topic, number) for number in metadata.partitions]
        if any(found.offset >= 0 for found in consumer.committed(partitions, timeout=TIMEOUT)):
            return False
        for partition in partitions:
            partition.offset = consumer.get_watermark_offsets(partition, timeout=TIMEOUT)[1]
        consumer.commit(offsets=partitions, asynchronous=False)
    except KafkaException as error:
        raise ServerUnreachable("Kafka", membership.bootstrap, str(error.args[0])) from error
    else:
        return True
    finally:
        consumer.close()
