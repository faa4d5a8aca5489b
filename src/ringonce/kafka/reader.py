"""Reads a topic from where a group left off to the end that it has now, without joining the group."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, TopicPartition

from ringonce.kafka.consumer import to_record
from ringonce.kafka.offsets import standings
from ringonce.kafka.patience import ask

if TYPE_CHECKING:
    from ringonce.kafka.port import Record
    from ringonce.kafka.settings import ConsumerSettings

log = logging.getLogger(__name__)

PATIENCE: Final = 1.0


class BoundedReader:
    """A reader with an end.

    Raises:
        ServerUnreachable: the broker did not answer.
    """

    def __init__(self, membership: ConsumerSettings, topic: str) -> None:
        self._bootstrap = membership.bootstrap
        self._consumer = Consumer(membership.librdkafka(), logger=log)
        found = standings(self._consumer, membership.bootstrap, topic)
        self._topic = topic
        self._ends = {number: place.high for number, place in found.items()}
        self._positions = {number: place.start for number, place in found.items()}
        ahead = [number for number, end in self._ends.items() if self._positions[number] < end]
        self._consumer.assign([TopicPartition(topic, number, self._positions[number]) for number in ahead])

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
        ask(self._bootstrap, lambda: self._consumer.commit(offsets=offsets, asynchronous=False))

    def close(self) -> None:
        """Done reading."""
        self._consumer.close()
