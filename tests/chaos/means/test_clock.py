"""A wall clock that is wrong: for a sender, and for a broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.means import clock as means
from tests.chaos.means.clock import Clock
from tests.fixtures import servers
from tests.fixtures.rows import untruths
from tests.fixtures.site import Entry, Site, notification
from tests.fixtures.waiting import eventually

from ringonce.stand.kafka import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fixtures.program import Programs

    from ringonce.mock.thread import MockProvider
    from ringonce.stand.postgres import PostgresServer

HOUR: Final = 3600.0
MINUTE: Final = 60.0

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(means.lacks()), reason=f"no-means: {means.lacks()}"),
]


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


@pytest.mark.database
@pytest.mark.parametrize("skew", [HOUR, -HOUR])
async def test_a_sender_whose_clock_is_an_hour_off_stamps_its_rows_so_and_delivers(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider], clock: Clock, skew: float
) -> None:
    """The jump comes while it works; what it stamps after that is off, and nothing else is."""
    site.prepare(["firebase"])
    main = site.names.stage("firebase", "main")
    sender = programs.start("sender", "--channel", "firebase", **clock.environment)
    first = site.send([notification(f"right-{number}") for number in range(20)], main)
    await eventually(lambda: site.history.unrecorded(first) == set(), so_far=site.history.statuses)
    clock.skew(skew)
    second = site.send([notification(f"wrong-{number}") for number in range(20)], main)
    await eventually(lambda: site.history.unrecorded(second) == set(), so_far=site.history.statuses)
    now = time.time()
    rows = site.history.rows()
    assert all(abs(rows[name]["sent_at"].timestamp() - now) < HOUR / 2 for name in first)
    assert all(abs(rows[name]["sent_at"].timestamp() - now - skew) < HOUR / 2 for name in second)
    assert site.history.statuses() == {"delivered": 40}
    assert untruths(rows, first + second, [providers["firebase"]]) == []
    await eventually(lambda: sum(site.committed("firebase-sender").values()) == 40)
    assert sender.stop() == 0, sender.text()


@pytest.fixture
def skewed_kafka(tmp_path: Path, clock: Clock) -> Iterator[KafkaCluster]:
    """A broker of this test's own, under the clock."""
    servers.require(servers.NO_BROKER, servers.kafka_lacks)
    cluster = KafkaCluster(
        tmp_path / "kafka", jars=servers.JARS, settings=servers.BROKER_SETTINGS, env=clock.environment
    )
    cluster.start()
    yield cluster
    cluster.stop(grace=0)


async def test_a_broker_whose_clock_is_ten_minutes_ahead_stamps_so(
    skewed_kafka: KafkaCluster, postgres: PostgresServer, clock: Clock
) -> None:
    """What it appends to a topic with LogAppendTime has its time; it goes on working when its clock jumps."""
    site = Site(skewed_kafka.bootstrap, postgres)
    admin = AdminClient({"bootstrap.servers": skewed_kafka.bootstrap})
    topic = NewTopic("stamped", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([topic])["stamped"].result(30)
    offs = []
    for skew in (0.0, 10 * MINUTE, 0.0):
        clock.skew(skew)
        [placed] = site.produce([Entry(b"x")], "stamped")
        offs.append(placed.timestamp_ms / 1000 - time.time() - skew)
    assert all(abs(off) < MINUTE for off in offs), offs
