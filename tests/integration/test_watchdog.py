"""Records that lie there and do not come: a fetcher that has died without a word is seen from its silence."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.kafka import consumer as module
from ringonce.kafka.consumer import GroupConsumer
from ringonce.kafka.settings import ConsumerSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.fixtures.site import Site

    from ringonce.kafka.port import Offsets, Partition

pytestmark = [pytest.mark.broker, pytest.mark.database]

LOOK = 0.2


class Alone:
    """The only member there is. Implements `kafka.consumer.Member`."""

    def __init__(self) -> None:
        self.has: list[Partition] = []

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """See `Member.assigned`."""
        self.has += partitions

    def revoked(self, partitions: Sequence[Partition]) -> Offsets:  # noqa: ARG002 - the port's signature
        """See `Member.revoked`."""
        return {}

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Member.lost`."""

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """See `Member.commit_failed`."""


@pytest.fixture
def member() -> Alone:
    return Alone()


@pytest.fixture
def topic(site: Site) -> str:
    site.prepare(["firebase"])
    return site.names.stage("firebase", "main")


@pytest.fixture
def consumer(site: Site, topic: str, member: Alone, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupConsumer]:
    monkeypatch.setattr(module, "LOOK", LOOK)
    consumer = GroupConsumer(ConsumerSettings(site.bootstrap, f"{site.prefix}alone", "alone"), [topic], member)
    yield consumer
    consumer.close()


def polled(consumer: GroupConsumer) -> int:
    """How many records one poll brings."""
    return len(consumer.poll(100))


def quiet_for(consumer: GroupConsumer, looks: int) -> float:
    """Poll without anything coming for so many looks; for how long nothing was fed at the end (seconds)."""
    end = monotonic() + looks * LOOK
    while monotonic() < end:
        assert polled(consumer) == 0
    return monotonic() - consumer.fed


async def test_with_nothing_to_fetch_silence_is_fine(site: Site, topic: str, consumer: GroupConsumer) -> None:
    """Before the first record, and after the last one was read, committed or not."""
    await eventually(lambda: polled(consumer) == 0 and consumer.assignment)
    assert quiet_for(consumer, 6) < 3 * LOOK
    site.send([notification(1)], topic)
    await eventually(lambda: polled(consumer) == 1)
    assert quiet_for(consumer, 6) < 3 * LOOK


async def test_records_that_do_not_come_are_missed(site: Site, topic: str, consumer: GroupConsumer) -> None:
    """Its fetcher is stopped behind its back: it hears nothing, and finds out that there is something."""
    await eventually(lambda: polled(consumer) == 0 and consumer.assignment)
    behind_its_back = consumer._consumer
    stopped = [TopicPartition(*partition) for partition in consumer.assignment]
    behind_its_back.pause(stopped)
    site.send([notification(1)], topic)
    assert quiet_for(consumer, 6) > 4 * LOOK
    behind_its_back.resume(stopped)
    await eventually(lambda: polled(consumer) == 1)
    assert monotonic() - consumer.fed < LOOK


async def test_the_end_of_a_transaction_is_no_record_that_is_missed(
    site: Site, topic: str, consumer: GroupConsumer
) -> None:
    """Its mark takes an offset, so the end lies beyond what was read."""
    producer = Producer({"bootstrap.servers": site.bootstrap, "transactional.id": f"{site.prefix}transaction"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.commit_transaction(30)
    await eventually(lambda: polled(consumer) == 1)
    assert site.ends(topic)[0] == 2
    assert quiet_for(consumer, 6) < 3 * LOOK
