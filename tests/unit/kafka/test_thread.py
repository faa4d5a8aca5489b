"""Delivery reports on their way into the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from ringonce.kafka.port import PublishUncertain
from ringonce.kafka.settings import ProducerSettings
from ringonce.kafka.thread import ProducerThread

if TYPE_CHECKING:
    from ringonce.kafka.port import PublishFailed
    from ringonce.kafka.producer import KafkaProducer

PORT_NOBODY_LISTENS_ON = "127.0.0.1:1"


class Reporting:
    """A producer whose reports a test makes."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def publish(self, *arguments: Any) -> None:
        """See `KafkaProducer.publish`."""
        self.reports.append(arguments[4])


async def test_each_report_arrives_once_in_order_in_the_loop() -> None:
    """From another thread and from the loop's own, before and after the loop was told."""
    loop = asyncio.get_running_loop()
    thread = ProducerThread(ProducerSettings(PORT_NOBODY_LISTENS_ON, "test"), loop, lambda _: None)
    producer = Reporting()
    thread._producer = cast("KafkaProducer", producer)
    arrived: list[tuple[int, PublishFailed | None]] = []
    for number in range(6):
        thread.publish("t", None, None, [], lambda failure, number=number: arrived.append((number, failure)))  # type: ignore[misc]
    failure = PublishUncertain("x")
    producer.reports[0](None)
    producer.reports[1](failure)
    await asyncio.to_thread(producer.reports[2], None)
    await asyncio.sleep(0)
    assert arrived == [(0, None), (1, failure), (2, None)]
    await asyncio.to_thread(producer.reports[3], None)
    producer.reports[4](None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [number for number, _ in arrived] == [0, 1, 2, 3, 4]


async def test_a_report_that_comes_while_reports_are_delivered_is_not_forgotten() -> None:
    """A publish from within a report may fail at once."""
    loop = asyncio.get_running_loop()
    thread = ProducerThread(ProducerSettings(PORT_NOBODY_LISTENS_ON, "test"), loop, lambda _: None)
    producer = Reporting()
    thread._producer = cast("KafkaProducer", producer)
    arrived = asyncio.Event()

    def again(_: PublishFailed | None) -> None:
        thread.publish("t", None, None, [], lambda _: arrived.set())
        producer.reports[1](PublishUncertain("queue full"))

    thread.publish("t", None, None, [], again)
    producer.reports[0](None)
    await asyncio.wait_for(arrived.wait(), 30)


async def test_two_threads_that_report_at_once_wake_the_loop() -> None:
    """Each may see the other's report beside its own before either has told the loop: then both must not keep still."""
    loop = asyncio.get_running_loop()
    thread = ProducerThread(ProducerSettings(PORT_NOBODY_LISTENS_ON, "test"), loop, lambda _: None)
    producer = Reporting()
    thread._producer = cast("KafkaProducer", producer)
    arrived = asyncio.Event()
    thread.publish("t", None, None, [], lambda _: arrived.set())
    # The other thread's report has been put down, and that thread stands right before its look.
    thread._reports.append((lambda _: None, None))
    producer.reports[0](None)
    await asyncio.wait_for(arrived.wait(), 30)
