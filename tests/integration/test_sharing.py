"""Several senders of one channel: Kafka shares the partitions among them, and nothing is sent twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.rows import untruths
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.fleet import Fleet
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]


def holders(site: Site, topic: str = "") -> set[str]:
    """The nodes that hold partitions, of `topic` or of any."""
    members = site.members("firebase-sender")
    return {node for node, places in members.items() if any(place[0] == topic or not topic for place in places)}


async def test_two_senders_share_a_channel(site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]) -> None:
    """Both hold partitions, and whatever their shares are, each key has one act."""
    site.prepare(["firebase"], partitions=4)
    fleet.sender(node="one")
    fleet.sender(node="two")
    await eventually(lambda: holders(site) == {"one", "two"})
    ids = site.send([notification(number) for number in range(200)], site.names.stage("firebase", "main"))
    await eventually(lambda: site.history.count("delivered") == 200, so_far=site.history.statuses)
    assert sorted(act.key for act in providers["firebase"].calls()) == sorted(ids)
    assert {row["sent_by"] for row in site.history.rows().values()} <= {"one", "two"}
    assert untruths(site.history.rows(), ids, providers.values()) == []


async def test_a_second_sender_takes_half_of_each_stage(site: Site, fleet: Fleet) -> None:
    """The first one keeps part of main, or adding a process would move the load and not share it."""
    site.prepare(["firebase"], partitions=4)
    fleet.sender(node="one")
    await eventually(lambda: holders(site) == {"one"})
    fleet.sender(node="two")
    await eventually(lambda: holders(site) == {"one", "two"})
    for stage in ("", "-retry-30s", "-retry-5m"):
        await eventually(lambda stage=stage: holders(site, f"notification-firebase{stage}") == {"one", "two"}, 5.0)  # type: ignore[misc]


async def test_members_come_and_go_under_load_without_a_second_act(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Partitions change hands in order twice, calls being under way: what is under way ends where it began."""
    site.prepare(["firebase"], partitions=4)
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=40)
    one = fleet.sender(node="one", max_in_flight=4)
    ids = site.send([notification(number) for number in range(600)], site.names.stage("firebase", "main"))
    await eventually(firebase.acts)
    fleet.sender(node="two", max_in_flight=4)
    await eventually(lambda: any(row["sent_by"] == "two" for row in site.history.rows().values()))
    assert site.history.count() < 600, "the second one came too late to prove anything"
    await one.stop()
    assert site.history.count() < 600, "the first one left too late to prove anything"
    await eventually(lambda: site.history.count("delivered") == 600, so_far=site.history.statuses)

    assert sorted(act.key for act in firebase.calls()) == sorted(ids)
    assert {row["sent_by"] for row in site.history.rows().values()} == {"one", "two"}


async def test_a_rebalance_during_a_retry_delay_loses_nothing(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Records that wait for their time are given up with their partition, and wait on at its next owner."""
    site.prepare(["firebase"], partitions=4)
    firebase = providers["firebase"]
    firebase.chaos(FAIL_RATE_503=1)
    slow = {"retry-30s": 4.0, "retry-5m": 6.0}
    # The breaker must not open: everything shall wait in the retry stage.
    one = fleet.sender(node="one", max_attempts=1, delays=slow, max_in_flight=4)
    ids = site.send([notification(number) for number in range(4)], site.names.stage("firebase", "main"))
    retry = site.names.stage("firebase", "retry-30s")
    await eventually(lambda: site.count(retry) == 4)
    firebase.chaos(FAIL_RATE_503=0)
    assert fleet.journal.of("BreakerChanged") == []

    fleet.sender(node="two", delays=slow)
    await eventually(lambda: "two" in holders(site, "notification-firebase-retry-30s"))
    await one.stop()
    assert site.history.count() == 0, "the partitions changed hands too late to prove anything"
    await eventually(lambda: site.history.count("delivered") == 4, so_far=site.history.statuses)

    assert sorted(act.key for act in firebase.acts()) == sorted(ids)
    assert {row["attempts"] for row in site.history.rows().values()} == {2}
    assert site.count(retry) == 4


async def test_a_partition_that_rested_and_comes_back_is_read_again(
    site: Site, fleet: Fleet, providers: Mapping[str, MockProvider]
) -> None:
    """Paused for a retry delay, given to another member, and given back: it must not stay paused for ever."""
    site.prepare(["firebase"], partitions=4)
    firebase = providers["firebase"]
    firebase.chaos(FAIL_RATE_503=1)
    slow = {"retry-30s": 5.0, "retry-5m": 6.0}
    fleet.sender(node="one", max_attempts=1, delays=slow, max_in_flight=4)
    ids = site.send([notification(number) for number in range(4)], site.names.stage("firebase", "main"))
    retry = "notification-firebase-retry-30s"
    await eventually(lambda: site.count(site.prefix + retry) == 4)
    firebase.chaos(FAIL_RATE_503=0)
    two = fleet.sender(node="two", delays=slow)
    await eventually(lambda: "two" in holders(site, retry))
    await two.stop()
    await eventually(lambda: holders(site, retry) == {"one"})
    assert site.history.count() == 0, "it came back too late to prove anything"
    later = site.send([notification(f"later-{number}") for number in range(8)], site.prefix + retry)
    await eventually(lambda: site.history.count("delivered") == 12, so_far=site.history.statuses)
    assert sorted(act.key for act in firebase.acts()) == sorted([*ids, *later])
