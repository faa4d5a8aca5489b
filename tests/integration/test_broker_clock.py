"""Asking real brokers for their time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.fixtures.waiting import eventually

from ringonce.kafka.broker_clock import STEM, ClockUntold, read_clocks
from ringonce.settings import RoleSettings, load
from ringonce.tools.examination import Verdict, clocks

if TYPE_CHECKING:
    from ringonce.stand.kafka import KafkaCluster

pytestmark = pytest.mark.broker

PREFIX = "clocks-"


def topics(kafka: KafkaCluster) -> list[str]:
    """Those that were made to ask, and are still there."""
    names = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
    return [name for name in names if name.startswith(PREFIX + STEM)]


@pytest.mark.parametrize("ahead", [-60.0, 0.0, 60.0])
async def test_a_clock_that_differs_is_seen(kafka: KafkaCluster, ahead: float) -> None:
    """The broker has this machine's clock; what differs here is what the reader takes for this machine's."""
    [reading] = read_clocks(kafka.bootstrap, PREFIX, lambda: time.time() - ahead)
    assert reading.skew == pytest.approx(ahead, abs=reading.width + 0.01)
    await eventually(lambda: topics(kafka) == [])


async def test_the_topic_goes_whatever_happens(kafka: KafkaCluster) -> None:
    """Interrupted in the middle, too."""
    seen: list[list[str]] = []

    def interrupted() -> float:
        seen.append(topics(kafka))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_clocks(kafka.bootstrap, PREFIX, interrupted)
    assert [len(names) for names in seen] == [1]
    await eventually(lambda: topics(kafka) == [])


def test_a_topic_that_cannot_be_made_is_said(kafka: KafkaCluster) -> None:
    """A name that Kafka refuses stands for a right that is missing."""
    with pytest.raises(ClockUntold, match=r"topic no name/ringonce-doctor-[0-9a-f]{8} could not be made: "):
        read_clocks(kafka.bootstrap, "no name/")
    settings = load(RoleSettings, kafka_bootstrap=kafka.bootstrap).model_copy(update={"topic_prefix": "no name/"})
    found = clocks(settings)
    assert found.verdict is Verdict.WARNING
    assert "the right to create no name/ringonce-doctor-*" in found.advice
