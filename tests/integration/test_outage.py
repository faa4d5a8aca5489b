"""Our own servers gone for a while: work waits for them, and is never forwarded or dead-lettered for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures import servers
from tests.fixtures.fleet import Fleet
from tests.fixtures.rows import beyond_the_first, untruths
from tests.fixtures.site import Site, notification
from tests.fixtures.waiting import eventually

from ringonce.errors import WorkLeftBehind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fixtures.journal import Journal

    from ringonce.mock.thread import MockProvider
    from ringonce.stand.kafka import KafkaCluster
    from ringonce.stand.postgres import PostgresServer

pytestmark = [pytest.mark.broker, pytest.mark.database]

COUNT = 200


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of this module's own, because it is killed."""
    server = servers.start_postgres(tmp_path / "servers")
    yield server
    server.stop()
    server.purge()


async def test_without_the_database_finished_work_waits_and_is_recorded_when_it_is_back(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider], postgres: PostgresServer
) -> None:
    """PostgreSQL is killed while calls are under way: nothing is forwarded or repeated, everything is recorded."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=50)
    fleet.sender(max_in_flight=8)
    fleet.recorder()
    ids = site.send([notification(number) for number in range(COUNT)], site.names.stage("firebase", "main"))
    await eventually(lambda: len(firebase.acts()) >= 30)
    postgres.kill()
    held = await eventually(lambda: fleet.journal.of("Held", what="database"))
    assert held[0].fields["waiting"] > 0
    assert len(firebase.acts()) < COUNT, "it was killed too late to prove anything"

    postgres.start()
    await eventually(lambda: site.history.count("delivered") == COUNT, so_far=site.history.statuses)
    assert fleet.journal.of("Resumed", what="database")
    assert site.count(*(site.names.stage("firebase", stage) for stage in ("retry-30s", "retry-5m", "dlq"))) == 0
    assert sorted(act.key for act in firebase.calls()) == sorted(ids)
    assert untruths(site.history.rows(), ids, [firebase]) == []


async def test_an_outage_outlasts_a_stop_of_the_sender(
    site: Site,
    fleet: Fleet,
    providers: Mapping[str, MockProvider],
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told to stop while the database hangs, it says what it leaves behind; that comes again under the same key."""
    monkeypatch.setattr("ringonce.runtime.pipeline.STOP_DEADLINE", 1.0)
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    sender = fleet.sender()
    first = site.send([notification("first")], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.unrecorded(first) == set())
    firebase.chaos(LATENCY_MS=200)
    second = site.send([notification("second")], site.names.stage("firebase", "main"))
    await eventually(lambda: len(firebase.acts()) == 2)
    postgres.pause()
    with pytest.raises(WorkLeftBehind) as left:
        await sender.stop()
    assert left.value.records == 1
    fleet.forget(sender)

    postgres.resume()
    fleet.sender(node="next")
    await eventually(lambda: site.history.unrecorded(second) == set(), so_far=site.history.statuses)
    assert {act.key for act in firebase.acts()} == {"n-first", "n-second"}
    assert beyond_the_first(firebase.acts()) <= 1
    assert site.count(*(site.names.stage("firebase", stage) for stage in ("retry-30s", "retry-5m", "dlq"))) == 0


async def test_without_the_broker_forwards_wait_and_arrive_once_it_is_back(
    postgres: PostgresServer, providers: Mapping[str, MockProvider], journal: Journal, own_kafka: KafkaCluster
) -> None:
    """The broker is killed while deliveries fail: their copies reach the retry stage later, and all is delivered."""
    site = Site(own_kafka.bootstrap, postgres)
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=50, STATUS=503, RETRY_AFTER="")
    async with Fleet(site, providers, journal) as fleet:
        fleet.sender(max_in_flight=4, max_attempts=1, breaker_period=0.2)
        ids = site.send([notification(number) for number in range(40)], site.names.stage("firebase", "main"))
        await eventually(lambda: len(firebase.calls()) >= 3)
        own_kafka.kill()
        called = len(firebase.calls())
        await eventually(lambda: len(firebase.calls()) > called)
        firebase.chaos(reset=True)
        own_kafka.restart()
        await eventually(lambda: site.history.count("delivered") == 40, 60.0, so_far=site.history.statuses)
    assert {act.key for act in firebase.acts()} == set(ids)
    assert untruths(site.history.rows(), ids, [firebase]) == []


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[KafkaCluster]:
    """A broker of this module's own, because it is killed."""
    cluster = servers.start_kafka(tmp_path / "servers")
    yield cluster
    cluster.stop(grace=0)
