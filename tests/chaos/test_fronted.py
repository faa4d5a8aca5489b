"""Clients that come to Kafka through the proxy stay on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.fronted import FrontedKafka, fronted_kafka
from tests.chaos.proxy import Mode
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker


@pytest.fixture
def fronted(tmp_path: Path) -> Iterator[FrontedKafka]:
    with fronted_kafka(tmp_path) as fronted:
        yield fronted


async def test_a_producer_is_stalled_by_a_deaf_proxy_and_goes_on_when_it_is_healed(fronted: FrontedKafka) -> None:
    """Metadata names the proxy only; who goes round it is not concerned."""
    [proxy] = fronted.proxies
    admin = AdminClient({"bootstrap.servers": fronted.cluster.bootstrap})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    reported: list[KafkaError | None] = []

    def report(error: KafkaError | None, _: Message) -> None:
        reported.append(error)

    direct = Producer({"bootstrap.servers": fronted.cluster.bootstrap})
    client = Producer({"bootstrap.servers": fronted.bootstrap, "acks": "all", "enable.idempotence": True})
    seen = client.list_topics("t", 30).brokers.values()
    assert [(broker.host, broker.port) for broker in seen] == [("127.0.0.1", proxy.port)]
    client.produce("t", b"before", on_delivery=report)
    assert client.flush(30) == 0
    assert reported == [None]

    proxy.deaf()
    client.produce("t", b"held", on_delivery=report)
    await eventually(lambda: client.poll(0.01) == 0 and proxy.hits(Mode.DEAF).bytes > 0)
    direct.produce("t", b"around")
    assert direct.flush(30) == 0
    assert client.poll(0) == 0
    assert reported == [None]
    proxy.heal()
    assert client.flush(30) == 0
    assert reported == [None, None]
