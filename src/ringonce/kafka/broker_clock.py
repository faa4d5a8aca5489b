"""The brokers' clocks against this machine's.

Kafka tells its time only to who produces: as the append time of a record in a topic with LogAppendTime. So a topic is
made for the question, with a partition on every broker, and deleted again whatever happens.
"""

from __future__ import annotations

import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ringonce.errors import RingonceError, ServerUnreachable
from ringonce.kafka.embedded import is_embedded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

TIMEOUT: Final = 10.0
READINGS: Final = 5
"""From each broker: the first has to wait for connections and for a partition that is new, the narrowest counts."""
STEM: Final = "ringonce-doctor-"
TOPIC_SETTINGS: Final = {
    "message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "1",  # the only replica is the one that there is
    "retention.ms": "60000",  # if the topic should stay, its records do not
}


class ClockUntold(RingonceError):  # noqa: N818 - what happened
    """The brokers' clocks cannot be told; the message says why."""

    exit_code = 4


class TopicLeft(RingonceError):  # noqa: N818 - what happened
    """The topic that was made for the question could not be deleted; `topic` is its name."""

    exit_code = 4

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic} could not be deleted: {reason}")


@dataclass(frozen=True, slots=True)
class Reading:
    """One record at one broker. Unix times in seconds: `appended` by its clock, the others by ours."""

    broker: int
    sent: float
    appended: float
    acknowledged: float

    @property
    def width(self) -> float:
        """How much the reading leaves open, in seconds."""
        return self.acknowledged - self.sent

    @property
    def skew(self) -> float:
        """By how many seconds the broker's clock is ahead of ours, at the least; negative where it is behind.

        0 where the append may have been between our two looks at the clock.
        """
        if self.appended > self.acknowledged:
            return self.appended - self.acknowledged
        return min(0.0, self.appended - self.sent)


def read_clocks(bootstrap: str, prefix: str = "", now: Callable[[], float] = time.time) -> list[Reading]:
    """The best reading of every broker's clock, ordered by the broker's id; none from an embedded broker.

    Args:
        bootstrap: the brokers' addresses.
        prefix: stands before the name of the topic that is made for it.
        now: this machine's clock, Unix time in seconds.

    Raises:
        ServerUnreachable: nobody answered there.
        ClockUntold: the broker refused the topic or a record.
        TopicLeft: the topic is still there.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        metadata = admin.list_topics(timeout=TIMEOUT)
    except KafkaException as error:
        raise ServerUnreachable("Kafka", bootstrap, _reason(error)) from error
    if is_embedded(metadata.cluster_id):
        return []
    with _topic(admin, f"{prefix}{STEM}{secrets.token_hex(4)}", len(metadata.brokers)) as topic:
        producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "log_level": 0})
        found: dict[int, Reading] = {}
        for partition in range(len(metadata.brokers)):
            best = min((_ask(producer, topic, partition, now) for _ in range(READINGS)), key=lambda each: each.width)
            found[best.broker] = best
    return [found[broker] for broker in sorted(found)]


@contextmanager
def _topic(admin: AdminClient, name: str, partitions: int) -> Iterator[str]:
    """A topic for the time of the block; Kafka deals its partitions out to the brokers in turn."""
    wanted = NewTopic(name, partitions, 1, config=TOPIC_SETTINGS)
    try:
        _settle(admin.create_topics([wanted], request_timeout=TIMEOUT)[name])
    except KafkaException as error:
        with suppress(KafkaException):  # the topic may be there, and only the answer lost
            _delete(admin, name)
        raise ClockUntold(f"topic {name} could not be made: {_reason(error)}") from error
    try:
        yield name
    except KafkaException as error:
        raise ClockUntold(_reason(error)) from error
    finally:
        try:
            _delete(admin, name)
        except KafkaException as error:
            raise TopicLeft(name, _reason(error)) from error


def _delete(admin: AdminClient, name: str) -> None:
    _settle(admin.delete_topics([name], request_timeout=TIMEOUT)[name])


def _settle(future: Future[None]) -> None:
    future.result(2 * TIMEOUT)  # librdkafka's own timeout comes first


def _ask(producer: Producer, topic: str, partition: int, now: Callable[[], float]) -> Reading:
    """Produces one record and sees when it was appended.

    Raises:
        KafkaException: it was not.
        ClockUntold: nothing was heard of it.
    """
    reports: list[tuple[float, KafkaError | None, Message]] = []
    sent = now()
    producer.produce(
        topic, partition=partition, on_delivery=lambda error, message: reports.append((now(), error, message))
    )
    producer.flush(TIMEOUT)
    if not reports:
        raise ClockUntold(f"a record was not acknowledged within {TIMEOUT:g} s")
    [(acknowledged, error, message)] = reports
    if error is not None:
        raise KafkaException(error)
    leader = producer.list_topics(topic, timeout=TIMEOUT).topics[topic].partitions[partition].leader
    return Reading(leader, sent, message.timestamp()[1] / 1000, acknowledged)


def _reason(error: KafkaException) -> str:
    return str(error.args[0].str())
