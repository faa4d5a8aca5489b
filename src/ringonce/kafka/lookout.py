"""Finds out whether a silent consumer has missed something: a fetcher of librdkafka's can die without a word.

It asks in a thread of its own. A question waits behind the fetch that is under way at the broker, a tenth of a second
for each partition, and nothing else may wait for that.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from confluent_kafka import KafkaException, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from confluent_kafka import Consumer

    from ringonce.kafka.port import Partition

ASKING: Final = 1.0
"""Seconds for one answer."""


class Lookout:
    """One look; it begins at once.

    Args:
        consumer: stays open until the look is over, or `end` has returned.
        partitions: those that are fetched.
        read_to: how far each was read where its end was seen, past what is no record.
    """

    def __init__(self, consumer: Consumer, partitions: Collection[Partition], read_to: Mapping[Partition, int]) -> None:
        self.began = monotonic()
        self.missed: bool | None = None
        """Whether something lies there that was not fetched; None until that is known."""
        self._consumer = consumer
        self._partitions = list(partitions)
        self._read_to = dict(read_to)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask nothing more; returns when nothing is being asked."""
        self._ending = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self.missed = any(self._lies_before(partition) for partition in self._partitions if not self._ending)
        except KafkaException:
            self.missed = False  # the broker is away, which says nothing about the fetcher

    def _lies_before(self, partition: Partition) -> bool:
        """Whether the partition has something that was not fetched; a transaction's marks at its end are something."""
        place = TopicPartition(*partition)
        ends = cast("tuple[int, int] | None", self._consumer.get_watermark_offsets(place, timeout=ASKING))
        if ends is None:  # no answer in time
            return False
        (position,) = self._consumer.position([place])
        if position.offset < 0:  # nothing has come yet: from where the group stands
            (position,) = self._consumer.committed([place], timeout=ASKING)
        return ends[1] > max(0, position.offset, self._read_to.get(partition, 0))
