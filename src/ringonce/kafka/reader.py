"""Reads a topic from where a group left off to the end that it has now, without joining the group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ringonce.errors import ServerUnreachable
from ringonce.kafka.consumer import to_record

if TYPE_CHECKING:
    from ringonce.kafka.port import Record
    from ringonce.kafka.settings import ConsumerSettings

TIMEOUT: Final = 10.0
PATIENCE: Final = 1.0


class BoundedReader:
    """A reader with an end.

    Raises:
        ServerUnreachable: the broker did not answer.
    """

    def __init__(self, membership: ConsumerSettings, topic: str) -> None:
        self._membership = membership
        self._consumer = Consumer({**membership.librdkafka(), "enable.partition.eof": False})
        try:
            metadata = self._consumer.list_topics(topic, timeout=TIMEOUT).topics[topic]
            partitions = [TopicPartition(topic, number) for number in metadata.partitions]
            marks = {
                number: self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT)
                for number in metadata.partitions
            }
            start = self._consumer.committed(partitions, timeout=TIMEOUT)
        except KafkaException as error:
            raise ServerUnreachable("Kafka", membership.bootstrap, str(error.args[0])) from error
        for found in start:
            found.offset = max(found.offset, marks[found.partition][0])
        self._topic = topic
        self._ends = {number: high for number, (_, high) in marks.items()}
        self._positions = {found.partition: found.offset for found in start}
        self._consumer.assign([found for found in start if found.offset < self._ends[found.partition]])

    def next(self, most: int) -> list[Record] | None:
        """The next records, or None at the end. Gaps before the end (compaction, transactions) are stepped over."""
        while any(self._positions[number] < end for number, end in self._ends.items()):
            messages = self._consumer.consume(most, PATIENCE)
            records = []
            for message in messages:
                if message.error() is not None:
                    continue
                record = to_record(message)
                end = self._ends[record.partition.number]
                # What lies past the end is the next call's: the position must not move beyond it.
                self._positions[record.partition.number] = min(record.offset + 1, end)
                if record.offset < end:
                    records.append(record)
            if records:
                return records
            self._step_over_gaps()
        return None

    def _step_over_gaps(self) -> None:
        """Where the consumer stands may lie past the last record that there is."""
        for place in self._consumer.position([TopicPartition(self._topic, number) for number in self._ends]):
            reached = min(place.offset, self._ends[place.partition])
            self._positions[place.partition] = max(self._positions[place.partition], reached)

    def commit(self) -> None:
        """The group stands where this reader stands."""
        offsets = [TopicPartition(self._topic, number, offset) for number, offset in self._positions.items()]
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def close(self) -> None:
        """Done reading."""
        self._consumer.close()
