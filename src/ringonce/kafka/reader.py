"""Reads a topic to the end that it has now, without joining a group."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import Consumer, TopicPartition

from ringonce.errors import ServerUnreachable
from ringonce.kafka.consumer import to_record
from ringonce.kafka.offsets import standings
from ringonce.kafka.patience import ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.kafka.port import Record
    from ringonce.kafka.settings import ConsumerSettings

log = logging.getLogger(__name__)

PATIENCE: Final = 1.0
"""Seconds one call waits for records."""
SILENCE: Final = 30.0
"""Seconds without any after which a broker that should have some counts as away."""


class BoundedReader:
    """A reader with an end; it begins where the group stands, until `seek` says otherwise.

    Offsets are by partition number: `lows` where the topic begins, `starts` where the group stands, `ends` its end.

    Raises:
        ServerUnreachable: the broker did not answer.
    """

    def __init__(self, membership: ConsumerSettings, topic: str) -> None:
        self.bootstrap = membership.bootstrap
        self._consumer = Consumer(membership.librdkafka(), logger=log)
        found = standings(self._consumer, membership.bootstrap, topic)
        self._topic = topic
        self.lows = {number: place.low for number, place in found.items()}
        self.starts = {number: place.start for number, place in found.items()}
        self.ends = {number: place.high for number, place in found.items()}
        self._positions: dict[int, int] = {}
        self._heard = 0.0
        self.seek(self.starts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def limit(self, ends: Mapping[int, int]) -> None:
        """End earlier: never beyond what is there now, and not at all in partitions that are not named."""
        self.ends = {number: min(end, ends.get(number, 0)) for number, end in self.ends.items()}

    def seek(self, starts: Mapping[int, int]) -> None:
        """Read from these offsets, or from the topic's beginning where it begins later or nothing is said."""
        self._positions = {number: max(low, starts.get(number, low)) for number, low in self.lows.items()}
        ahead = [number for number, end in self.ends.items() if self._positions[number] < end]
        self._consumer.assign([TopicPartition(self._topic, number, self._positions[number]) for number in ahead])
        self._heard = monotonic()

    def next(self, most: int) -> list[Record] | None:
        """Up to `most` records, none when a second has brought none, or None at the end.

        Gaps before the end (compaction, transactions) are stepped over.

        Raises:
            ServerUnreachable: nothing has come for half a minute, and there is something.
        """
        ahead = sum(max(0, end - self._positions[number]) for number, end in self.ends.items())
        if not ahead:
            return None
        # No more than there are: consume() waits out its timeout unless its batch is full.
        messages = self._consumer.consume(min(most, ahead), PATIENCE)
        records = []
        for message in messages:
            if message.error() is not None:
                continue
            record = to_record(message)
            end = self.ends[record.partition.number]
            # What lies past the end is the next call's: the position must not move beyond it.
            self._positions[record.partition.number] = max(
                self._positions[record.partition.number], min(record.offset + 1, end)
            )
            if record.offset < end:
                records.append(record)
        if not records:
            self._step_over_gaps()
        now = monotonic()
        if records:
            self._heard = now
        elif now - self._heard > SILENCE and self._before_the_end():
            raise ServerUnreachable("Kafka", self.bootstrap, f"no record of {self._topic} for {SILENCE:g} s")
        return records

    def _before_the_end(self) -> bool:
        """Whether the end has not been reached."""
        return any(self._positions[number] < end for number, end in self.ends.items())

    def _step_over_gaps(self) -> None:
        """Where the consumer stands may lie past the last record that there is."""
        for place in self._consumer.position([TopicPartition(self._topic, number) for number in self.ends]):
            reached = min(place.offset, self.ends[place.partition])
            self._positions[place.partition] = max(self._positions[place.partition], reached)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """The group stands at these offsets.

        Raises:
            ServerUnreachable: the broker did not answer.
        """
        places = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
        if places:
            ask(self.bootstrap, lambda: self._consumer.commit(offsets=places, asynchronous=False))

    def close(self) -> None:
        """Done reading."""
        self._consumer.close()
