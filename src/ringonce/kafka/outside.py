"""Groups and their topics seen by somebody who belongs to none: what lies before each, and since when."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ringonce.errors import ServerUnreachable
from ringonce.kafka.consumer import to_record
from ringonce.kafka.offsets import standings
from ringonce.kafka.port import Partition
from ringonce.kafka.settings import ConsumerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ringonce.kafka.port import Record

log = logging.getLogger(__name__)

PATIENCE: Final = 5.0
"""Seconds within which the first records have to come."""
POLL: Final = 0.5

FRUGAL: Final = {
    # One record of each partition is wanted; the broker sends a whole batch at least.
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 256,
    "fetch.message.max.bytes": 16_384,
    "enable.partition.eof": True,
    "log_level": 3,
}


class Ahead(NamedTuple):
    """What lies before a group in one topic. `size` is what the topic holds, done or not."""

    lag: int
    size: int
    firsts: Sequence[Record]
    """Of each partition with something in it the first record that is not committed."""


class Outside:
    """Looks at groups and topics; ``with Outside(…) as outside:``. For one thread.

    Args:
        bootstrap: the brokers.
        client_id: how the brokers know us.
        reader: a group's name that nobody uses; it is joined by nobody, and nothing is committed for it.
    """

    def __init__(self, bootstrap: str, client_id: str, reader: str) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._groups: dict[str, Consumer] = {}
        self._reader = self._client(reader)
        self._known: dict[tuple[str, Partition], tuple[int, Record]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in (*self._groups.values(), self._reader):
            consumer.close()

    def _client(self, group: str) -> Consumer:
        settings = ConsumerSettings(self._bootstrap, group, self._client_id, extra=FRUGAL)
        return Consumer(settings.librdkafka(), logger=log)

    def ahead(self, group: str, topic: str) -> Ahead:
        """What lies before `group` in `topic`.

        Raises:
            ServerUnreachable: the broker did not answer, or has no such topic.
        """
        if group not in self._groups:
            # One for each group: the library's admin client can take the process down when it asks for a group whose
            # coordinator is not ready.
            self._groups[group] = self._client(group)
        found = standings(self._groups[group], self._bootstrap, topic)
        wanted = {Partition(topic, number): place.start for number, place in found.items() if place.high > place.start}
        return Ahead(
            sum(place.high - place.start for place in found.values()),
            sum(place.high - place.low for place in found.values()),
            self._firsts(group, wanted),
        )

    def _firsts(self, group: str, wanted: Mapping[Partition, int]) -> list[Record]:
        """The records at these offsets, or the first ones after; what has not moved since is not read again."""
        firsts: dict[Partition, Record] = {}
        for partition, offset in wanted.items():
            known = self._known.get((group, partition))
            if known is not None and known[0] == offset:
                firsts[partition] = known[1]
        missing = {partition: offset for partition, offset in wanted.items() if partition not in firsts}
        read = self._read(missing) if missing else {}
        for partition, record in read.items():
            # Not its value: it is kept for as long as it is the first, and may be large.
            kept = record._replace(value=None)
            firsts[partition] = kept
            self._known[group, partition] = wanted[partition], kept
        return list(firsts.values())

    def _read(self, wanted: Mapping[Partition, int]) -> dict[Partition, Record]:
        found: dict[Partition, Record] = {}
        open_ = set(wanted)
        deadline = monotonic() + PATIENCE
        try:
            places = [TopicPartition(*partition, offset) for partition, offset in wanted.items()]
            self._reader.assign(places)
            self._reader.resume(places)  # librdkafka keeps a partition paused that leaves and returns
            while open_:
                if monotonic() > deadline:
                    raise ServerUnreachable("Kafka", self._bootstrap, f"no record for {PATIENCE:g} s")
                message = self._reader.poll(POLL)  # and not consume(), which waits until its batch is full
                if message is None:
                    continue
                partition, error = Partition(message.topic() or "", message.partition() or 0), message.error()
                if error is None:
                    found.setdefault(partition, to_record(message))
                elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - how the library names its own codes
                    continue  # at the end there are marks of transactions only, or it was emptied meanwhile
                open_.discard(partition)
                self._reader.pause([TopicPartition(*partition)])  # what else was fetched of it stands before the others
        except KafkaException as error:
            raise ServerUnreachable("Kafka", self._bootstrap, error.args[0].str()) from error
        finally:
            self._reader.unassign()
        return found
