from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.chaos.checker import offsets
from tests.chaos.follower import Follower
from tests.chaos.sampler import Sampler
from tests.fixtures import servers
from tests.fixtures.site import Entry, notification
from tests.fixtures.waiting import eventually

from ringonce.domain.notification import Channel
from ringonce.kafka.codec import encode
from ringonce.kafka.patience import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider
    from ringonce.stand.postgres import PostgresServer

pytestmark = [pytest.mark.broker, pytest.mark.database]

CHANNELS = ("firebase", "apns", "webhook")


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of this module's own, because it is stopped and goes on."""
    server = servers.start_postgres(tmp_path / "servers")
    yield server
    server.stop()
    server.purge()


def commit(site: Site, group: str, topic: str, offset: int) -> None:
    """Commit by hand, for a group without members."""
    consumer = Consumer({"bootstrap.servers": site.bootstrap, "group.id": site.prefix + group})
    place = TopicPartition(topic, 0, offset)
    ask(site.bootstrap, lambda: consumer.commit(offsets=[place], asynchronous=False))
    consumer.close()


def state(sampler: Sampler) -> str:
    """For the message of a test that waits in vain."""
    return str(offsets(sampler))


async def test_a_fleet_that_works_gives_nothing_to_find(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Retries, dead letters, a replay, duplicates and nonsense: every commit stands on a row or on a copy."""
    site.prepare()
    with Follower(site) as follower, Sampler(site, follower) as sampler:
        for provider in providers.values():
            provider.chaos(FAIL_RATE_503=0.6)
        fleet.router()
        fleet.recorder(None)
        for name in CHANNELS:
            fleet.sender(name, max_attempts=2)
            fleet.recorder(name)
        ids = [notification(number, Channel(1 + number % 3)) for number in range(300)]
        site.send(ids)
        site.send(ids[:30])
        site.produce([Entry(b"nonsense %d" % number) for number in range(10)])
        await eventually(lambda: site.history.count("delivered", "dlq") == 310, 60.0, so_far=site.history.statuses)
        for provider in providers.values():
            provider.chaos(FAIL_RATE_503=0)
        replayed = sum([(await fleet.replay(name)).published for name in CHANNELS])
        assert replayed > 0
        await fleet.stop()
    assert offsets(sampler).ok, state(sampler)
    assert sampler.findings == []
    # At least each record in the entry topic, and what became of it.
    assert sampler.covered >= 2 * 340


async def test_offsets_that_pass_what_is_not_done_are_found(site: Site) -> None:
    """By hand: the router past records that have no copy, a sender and a recorder past records without a row."""
    site.prepare(["firebase"])
    main, dlq = (site.names.stage("firebase", stage) for stage in ("main", "dlq"))
    copied = [Entry(encode(notification(number))) for number in range(5)]
    site.produce(copied, partition=0)
    site.produce(copied[:2], main, partition=0)
    site.produce(copied[1:2], site.names.stage("firebase", "retry-30s"), partition=1)
    site.produce(copied[1:2], dlq, partition=0)
    with Follower(site, ["firebase"]) as follower, Sampler(site, follower, ["firebase"]) as sampler:
        commit(site, "notification-router", site.names.entry, 3)
        await eventually(lambda: sampler.covered == 3, so_far=lambda: state(sampler))
        # Those in main came around the router: they are no copies of these.
        assert sampler.violations == 3
        commit(site, "firebase-sender", main, 2)
        await eventually(lambda: sampler.covered == 5, so_far=lambda: state(sampler))
        assert sampler.violations == 4
        assert "firebase-sender is past" in sampler.findings[-1]
        assert "@0 (n-0): no row, and no copy after it" in sampler.findings[-1]
        commit(site, "firebase-dlq", dlq, 1)
        await eventually(lambda: sampler.covered == 6, so_far=lambda: state(sampler))
        assert sampler.violations == 5
        # Too late: the mark was set when the commit was seen.
        site.produce(copied[:1], dlq, partition=0)
        commit(site, "firebase-sender", main, 1)
        await eventually(lambda: sampler.violations == 6, so_far=lambda: state(sampler))
        assert sampler.findings[-1].endswith("from 2 to 1")
    assert not offsets(sampler).ok
    assert sampler.violations == len(sampler.findings) == 6
    assert sampler.unjudged == 0


async def test_what_cannot_be_judged_while_the_database_hangs_is_judged_when_it_is_back(
    site: Site, fleet: Fleet, postgres: PostgresServer
) -> None:
    """What is done has its row all the same; and a row that is younger than the commit does not excuse it."""
    site.prepare(["firebase"])
    main = site.names.stage("firebase", "main")
    sender = fleet.sender()
    early = site.produce([Entry(encode(notification(number))) for number in range(20)], main, partition=0)
    await eventually(lambda: site.committed("firebase-sender").get(("notification-firebase", 0)) == len(early))
    await sender.stop()
    fleet.forget(sender)
    site.produce([Entry(encode(notification("passed")))], main, partition=0)
    # It has not been sent: the copy in the other partition is, later.
    postgres.pause()
    with Follower(site, ["firebase"]) as follower, Sampler(site, follower, ["firebase"]) as sampler:
        await eventually(lambda: sampler.late > 0, so_far=lambda: state(sampler))
        # Who is not a member may commit only where there are none.
        await eventually(lambda: not site.members("firebase-sender"))
        commit(site, "firebase-sender", main, len(early) + 1)
        await eventually(lambda: sampler.unjudged == len(early) + 1, so_far=lambda: state(sampler))
        assert sampler.covered == 0
        # While the sampler cannot ask, the record comes to its end after all.
        site.produce([Entry(encode(notification("passed")))], main, partition=1)
        postgres.resume()
        fleet.sender()
        await eventually(lambda: site.history.count("delivered") == len(early) + 1)
        await eventually(lambda: sampler.covered == len(early) + 2, so_far=lambda: state(sampler))
    assert sampler.violations == 1
    assert "(n-passed): " in sampler.findings[0]
    assert sampler.unjudged == 0
