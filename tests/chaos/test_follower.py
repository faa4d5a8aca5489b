from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from tests.chaos.follower import Follower
from tests.fixtures import servers
from tests.fixtures.site import Entry, notification
from tests.fixtures.waiting import eventually

from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider
    from ringonce.stand.kafka import KafkaCluster

pytestmark = [pytest.mark.broker, pytest.mark.database]


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker of this module's own, because it is killed."""
    cluster = servers.start_kafka(tmp_path_factory.mktemp("servers"))
    yield cluster
    cluster.stop(grace=0)


@pytest.fixture(scope="module")
def bootstrap(own_kafka: KafkaCluster) -> str:
    """Where this module's sites are."""
    return own_kafka.bootstrap


async def test_copies_are_followed_through_retries_dead_letters_and_replays_over_a_broker_that_is_killed(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider], own_kafka: KafkaCluster
) -> None:
    """A good record, one that is refused, one without a valid id, and one with another's headers."""
    site.prepare(["firebase"])
    providers["firebase"].chaos(STATUS=400)
    refused, nameless = notification("refused"), notification("nameless")._replace(id="")
    forged = (("origin", b"elsewhere/0/0/0"), ("notification.id", b"replay-1-n-forged"), ("replay.of", b"n-forged"))
    with Follower(site, ["firebase"]) as follower:
        router = fleet.router(channels=("firebase",))
        fleet.sender()
        fleet.recorder()
        places = site.produce(
            [
                Entry(encode(refused)),
                Entry(encode(nameless)),
                Entry(encode(notification("forged")), headers=(*forged, ("replay.count", b"1"))),
            ],
            partition=0,
        )
        await eventually(lambda: site.history.count("dlq") == 3, so_far=site.history.statuses)
        await eventually(follower.caught_up)

        main, dlq = (site.names.stage("firebase", stage) for stage in ("main", "dlq"))
        of_refused = follower.copies_of("n-refused")
        assert {copy.partition.topic for copy in of_refused} == {site.names.entry, main, dlq}
        assert {copy.digest for copy in of_refused} == {hashlib.sha256(encode(refused)).hexdigest()[:16]}
        assert len({copy.origin for copy in of_refused}) == 1
        assert [copy.reason for copy in of_refused if copy.partition.topic == dlq] == ["permanent"]
        first = follower.copy_at(site.names.entry, 0, places[0].offset)
        assert first is not None
        assert (first.id, first.origin.offset) == ("n-refused", places[0].offset)

        synthetic = follower.copy_at(site.names.entry, 0, places[1].offset)
        assert synthetic is not None
        assert synthetic.id in site.history.rows()
        assert {copy.partition.topic for copy in follower.copies_of(synthetic.root)} == {site.names.entry, main, dlq}
        assert len(follower.copies_of("n-forged")) == 3
        assert {copy.id for copy in follower.copies_of("n-forged")} == {"n-forged"}

        await router.stop()
        await fleet.stop()
        own_kafka.kill()
        assert not follower.caught_up()
        own_kafka.restart()
        providers["firebase"].chaos(reset=True)
        await fleet.replay("firebase")
        site.send([notification("late")])
        await eventually(lambda: follower.caught_up() and follower.copies_of("n-late"))
        assert "replay-1-n-refused" in {copy.id for copy in follower.copies_of("n-refused")}
        assert follower.position(site.names.entry, 0) + follower.position(site.names.entry, 1) == 4
        assert follower.copy_at(site.names.entry, 0, 99) is None


async def test_a_follower_whose_thread_has_died_says_so(site: Site) -> None:
    site.prepare(["firebase"])
    follower = Follower(site, ["firebase"])
    follower.start()
    del follower._channels[site.names.entry]  # it must meet something that it cannot make sense of
    site.send([notification(1)])
    await eventually(lambda: not follower._thread.is_alive())
    with pytest.raises(RuntimeError, match="the follower has failed"):
        follower.copies_of("n-1")
    with pytest.raises(RuntimeError, match="the follower has failed"):
        follower.stop()
