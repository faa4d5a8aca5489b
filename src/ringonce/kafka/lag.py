"""How many records of a topic a group has still before it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer

from ringonce.kafka.offsets import standings

if TYPE_CHECKING:
    from ringonce.kafka.settings import ConsumerSettings

log = logging.getLogger(__name__)


class Lag:
    """Looks at one group's offsets from outside, without joining it."""

    def __init__(self, membership: ConsumerSettings) -> None:
        self._bootstrap = membership.bootstrap
        self._consumer = Consumer(membership.librdkafka(), logger=log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def of(self, topic: str) -> int:
        """Records from the committed offsets to the end; from the beginning where nothing was committed.

        Raises:
            ServerUnreachable: the broker did not answer.
        """
        found = standings(self._consumer, self._bootstrap, topic)
        return sum(place.high - place.start for place in found.values())
