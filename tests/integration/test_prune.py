"""Old rows go, those that are still needed stay, and nobody who works notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.kafka.embedded import mock_cluster
from ringonce.kafka.topics import Keeping, TopicAdmin
from ringonce.store import schema
from ringonce.store.pruning import TABLES, Pruning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

OLD: Final = """
INSERT INTO notifications_log (notification_id, channel, status, root_id, recorded_at)
SELECT 'old-' || n, 'firebase', 'delivered', 'old-' || n, now() - make_interval(days => {days})
FROM generate_series(1, {number}) AS n;
INSERT INTO processed_events (consumer, notification_id, owner, processed_at)
SELECT 'firebase-sender', 'old-' || n, 'node-1', now() - make_interval(days => {days})
FROM generate_series(1, {number}) AS n;
INSERT INTO delivery_attempts
SELECT 'old-' || n, now() - make_interval(days => {days}), 'node-1', 'firebase', 'old-' || n, 'notification-firebase',
    0, n, 'Refused', 503, 0.01
FROM generate_series(1, {number}) AS n;
INSERT INTO notification_attempts (consumer, root_id, attempts, counted_at)
SELECT 'firebase-sender', 'old-' || n, 1, now() - make_interval(days => {days})
FROM generate_series(1, {number}) AS n
"""
DAY: Final = 86_400.0


def add_old(site: Site, number: int, days: int) -> None:
    """So many rows in each table, so old."""
    with psycopg.connect(site.database_url) as connection:
        connection.execute(OLD.format(number=number, days=days).encode())


def numbers(site: Site) -> dict[str, int]:
    """How many rows each table has."""
    query = """
        SELECT (SELECT count(*) FROM delivery_attempts), (SELECT count(*) FROM notifications_log),
        (SELECT count(*) FROM notification_attempts), (SELECT count(*) FROM processed_events)
    """
    with psycopg.connect(site.database_url) as connection:
        found = connection.execute(query).fetchone()
    return dict(zip(("attempts", "history", "counts", "gate"), found or (), strict=True))


def configure(site: Site, topic: str, **settings: str) -> None:
    """Change a topic's settings."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": site.bootstrap})  # which has to live until the answer is there
    admin.incremental_alter_configs([resource])[resource].result(30)


@pytest.mark.broker
@pytest.mark.database
def test_what_is_old_goes_and_what_a_topic_can_hold_stays(site: Site, programs: Programs) -> None:
    """37 days by default: 30 of a DLQ, 7 of a segment. Below that nothing is touched."""
    site.prepare(["firebase"])
    add_old(site, 3000, 40)
    with psycopg.connect(site.database_url) as connection:
        connection.execute(
            "UPDATE notifications_log SET recorded_at = now() - interval '36 days' WHERE root_id = 'old-7'"
        )
        connection.execute("UPDATE processed_events SET processed_at = now() WHERE notification_id = 'old-8'")
    for arguments in (("--older-than", "30d"), ("--older-than", "36d", "--dry-run")):
        code, text = programs.run("ringonce", "prune", *arguments)
        assert (code, len(text.splitlines())) == (1, 1), text
        assert f"topic {site.names.entry_dlq} can hold records for 37d" in text or "firebase-dlq can hold" in text
    code, text = programs.run("ringonce", "prune", "--older-than", "37d", "--dry-run")
    old = {"attempts": 3000, "history": 2999, "counts": 3000, "gate": 2999}
    assert (code, text.splitlines()) == (0, [f"{table}: {rows} rows would go" for table, rows in old.items()])
    assert numbers(site) == dict.fromkeys(old, 3000)
    code, text = programs.run("ringonce", "prune", "--older-than", "37d")
    assert (code, text.splitlines()) == (0, [f"{table}: {rows} rows removed" for table, rows in old.items()])
    assert set(site.history.rows()) == {"old-7"}
    assert site.history.gate() == {("firebase-sender", "old-8")}
    assert numbers(site)["attempts"] == 0


@pytest.mark.broker
def test_a_topic_tells_for_how_long_it_keeps_records(site: Site) -> None:
    """Its retention and its segments; for ever where nothing is deleted. Topics that are not there keep nothing."""
    site.create_topics({})
    admin = TopicAdmin(site.bootstrap)
    entry, dlq = site.names.entry, site.names.entry_dlq
    configure(site, entry, segment_ms="3600000")
    assert admin.keeping([entry, dlq, "nowhere"]) == {
        entry: Keeping(7 * DAY, 3600.0),
        dlq: Keeping(30 * DAY, 7 * DAY),
    }
    configure(site, entry, retention_ms="-1")
    configure(site, dlq, cleanup_policy="compact")
    assert {name: keeping.longest for name, keeping in admin.keeping([entry, dlq]).items()} == {entry: None, dlq: None}
    configure(site, dlq, cleanup_policy="compact,delete")
    assert admin.keeping([dlq])[dlq].longest == 37 * DAY


@pytest.mark.broker
@pytest.mark.database
def test_unlimited_retention_and_topics_of_somebody_else_are_refused(site: Site, programs: Programs) -> None:
    """Said why, on one line, and nothing is removed."""
    site.prepare(["firebase"])
    add_old(site, 10, 400)
    configure(site, site.names.stage("firebase", "dlq"), retention_ms="-1")
    code, text = programs.run("ringonce", "prune", "--older-than", "390d")
    assert (code, len(text.splitlines())) == (1, 1)
    assert "notification-firebase-dlq keeps its records for ever (retention.ms, cleanup.policy)" in text
    code, text = programs.run("ringonce", "prune", "--older-than", "390d", RINGONCE_TOPIC_PREFIX="not-ours-")
    assert (code, len(text.splitlines())) == (1, 1)
    assert "there is no topic not-ours-notification-events" in text
    code, text = programs.run("ringonce", "prune", "--older-than", "390d", KAFKA_BOOTSTRAP="127.0.0.1:1")
    assert (code, len(text.splitlines())) == (4, 1)
    assert set(numbers(site).values()) == {10}


@pytest.mark.database
def test_on_an_embedded_broker_it_cannot_be_told(site: Site, programs: Programs) -> None:
    """So nothing is removed there."""
    site.make_database()
    schema.migrate(site.database_url)
    add_old(site, 10, 400)
    with mock_cluster() as (host, port):
        code, text = programs.run("ringonce", "prune", "--older-than", "390d", KAFKA_BOOTSTRAP=f"{host}:{port}")
    assert (code, len(text.splitlines())) == (1, 1), text
    assert "the embedded broker does not tell for how long it keeps records" in text
    assert set(numbers(site).values()) == {10}


@pytest.mark.database
def test_rows_that_somebody_has_locked_are_left_and_nobody_waits(site: Site) -> None:
    """Neither the pruning for them, nor a writer between two steps for the pruning."""
    site.make_database()
    schema.migrate(site.database_url)
    add_old(site, 2000, 400)
    with (
        psycopg.connect(site.database_url) as other,
        psycopg.connect(site.database_url, autocommit=True) as writer,
        Pruning(site.database_url) as pruning,
    ):
        writer.execute("SET lock_timeout = '100ms'")
        other.execute("SELECT * FROM notifications_log WHERE notification_id IN ('old-5', 'old-1500') FOR UPDATE")
        cutoff = pruning.cutoff(390 * DAY)
        removed = []
        for table in TABLES:
            for step, rows in enumerate(pruning.remove(table, cutoff, pages=4)):
                removed.append(rows)
                writer.execute(
                    "INSERT INTO notifications_log (notification_id, channel, status, root_id) "
                    "VALUES (%s, 'apns', 'delivered', '') ON CONFLICT (notification_id, channel) DO UPDATE "
                    "SET recorded_at = now()",
                    [f"new-{table}-{step}"],
                )
        assert len(removed) > 10
        assert max(removed) < 1000
        assert sum(removed) == 4 * 2000 - 2
    left = site.history.rows()
    assert {ident for ident in left if ident.startswith("old-")} == {"old-5", "old-1500"}
    assert sum(ident.startswith("new-") for ident in left) == len(removed)


@pytest.mark.broker
@pytest.mark.database
async def test_a_running_sender_is_not_disturbed(
    site: Site, fleet: Fleet, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """It delivers and records while tens of thousands of rows go; nothing is held, nothing is sent twice."""
    site.prepare(["firebase"])
    add_old(site, 30_000, 40)
    main = site.names.stage("firebase", "main")
    fleet.sender()
    ids = site.send([notification(number) for number in range(200)], main)
    await eventually(lambda: site.history.count() > 30_000)
    pruning = programs.start("ringonce", "prune", "--older-than", "37d")
    while pruning.running:
        more = site.send([notification(f"later-{len(ids)}-{number}") for number in range(50)], main)
        ids += more
        await eventually(lambda more=more: site.history.unrecorded(more) == set(), so_far=site.history.statuses)  # type: ignore[misc]
    assert pruning.wait() == 0
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    assert site.history.statuses() == {"delivered": len(ids)}
    assert fleet.journal.of("Held") == []
    assert providers["firebase"].stats()["duplicates"] == 0
