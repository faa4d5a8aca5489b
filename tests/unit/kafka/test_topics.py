"""The topics' names and settings."""

from __future__ import annotations

import pytest

from ringonce.channels.registry import CHANNELS
from ringonce.domain.stages import STANDARD, Ladder, Stage
from ringonce.errors import ServerUnreachable
from ringonce.kafka.topics import ENTRY_BYTES, HEADROOM, TopicAdmin, TopicNames, specs


def test_topics_of_the_fleet() -> None:
    """4n + 2: fourteen for three channels, under their prefix."""
    names = [spec.name for spec in specs(TopicNames("p."), {name: row.ladder for name, row in CHANNELS.items()})]
    assert len(names) == 14
    assert names[:6] == [
        "p.notification-events",
        "p.notification-events-dlq",
        "p.notification-firebase",
        "p.notification-firebase-retry-30s",
        "p.notification-firebase-retry-5m",
        "p.notification-firebase-dlq",
    ]


def test_retired_stages_keep_their_topics() -> None:
    """They are still consumed."""
    ladder = Ladder((Stage("old", 1, retired=True), Stage("new", 2)))
    assert [spec.name for spec in specs(TopicNames(), {"apns": ladder})][2:] == [
        "notification-apns",
        "notification-apns-old",
        "notification-apns-new",
        "notification-apns-dlq",
    ]


def test_settings_of_the_topics() -> None:
    """Retry stages append by the broker's clock; all but the entry have headroom; DLQs keep 30 days."""
    found = {spec.name: spec.config(3) for spec in specs(TopicNames(), {"apns": STANDARD})}
    appended = {name for name, config in found.items() if config["message.timestamp.type"] == "LogAppendTime"}
    assert appended == {"notification-apns-retry-30s", "notification-apns-retry-5m"}
    sizes = {name: int(config["max.message.bytes"]) for name, config in found.items()}
    assert sizes.pop("notification-events") == ENTRY_BYTES
    assert set(sizes.values()) == {ENTRY_BYTES + HEADROOM}
    days = {name: int(config["retention.ms"]) // 86_400_000 for name, config in found.items()}
    assert {name for name, kept in days.items() if kept == 30} == {"notification-events-dlq", "notification-apns-dlq"}
    assert set(days.values()) == {7, 30}
    assert {config["min.insync.replicas"] for config in found.values()} == {"2"}


def test_one_broker_cannot_ask_for_two_in_sync_replicas() -> None:
    """Else nothing could be produced there."""
    assert specs(TopicNames(), {})[0].config(1)["min.insync.replicas"] == "1"


def test_a_broker_that_is_not_there_is_said_with_its_address() -> None:
    """Every process asks this first."""
    with pytest.raises(ServerUnreachable, match=r"Kafka at 127\.0\.0\.1:1 is not reachable: .+"):
        TopicAdmin("127.0.0.1:1", timeout=0.2).brokers()
