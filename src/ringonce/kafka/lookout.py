"""Finds out whether a silent consumer has missed something: a fetcher of librdkafka's can die without a word.

It asks in a thread of its own and with a client of its own. A consumer's question waits behind the fetch that is under
way at the broker, a tenth of a second for each partition, and whoever polls that consumer meanwhile waits with it.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.kafka.port import Partition
    from ringonce.kafka.settings import ConsumerSettings

log = logging.getLogger(__name__)

ASKING: Final = 1.0
"""Seconds for one answer."""


class Lookout:
    """One look; it begins at once.

    Args:
        membership: whose partitions they are; the group is asked for what it has committed, and not joined.
        reached: by partition the offset up to which it was read, marks of transactions included; None where nothing has
            come yet, so that the group's own offset counts.
    """

    def __init__(self, membership: ConsumerSettings, reached: Mapping[Partition, int | None]) -> None:
        self.began = monotonic()
        self.missed: bool | None = None
        """Whether something lies there that was not fetched; None until that is known."""
        self._membership = membership
        self._reached = reached
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask nothing more. It is waited for no longer than for an answer: what it uses is nobody else's."""
        self._ending = True
        self._thread.join(ASKING)

    def _run(self) -> None:
        asking = Consumer({**self._membership.librdkafka(), "log_level": 0}, logger=log)
        try:
            self.missed = any(self._lies_before(asking, *one) for one in self._reached.items() if not self._ending)
        except KafkaException:
            self.missed = False  # the broker is away, which says nothing about the fetcher
        finally:
            asking.close()

    def _lies_before(self, asking: Consumer, partition: Partition, reached: int | None) -> bool:
        """Whether the partition has something that was not fetched; a transaction's marks at its end are something."""
        place = TopicPartition(*partition)
        ends = cast("tuple[int, int] | None", asking.get_watermark_offsets(place, timeout=ASKING))
        if ends is None:  # no answer in time
            return False
        low, high = ends
        if reached is None:
            (place,) = asking.committed([place], timeout=ASKING)
            reached = place.offset
        return high > max(low, reached)
