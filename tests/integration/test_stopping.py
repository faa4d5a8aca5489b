"""A sender that is told to stop, or killed, in the middle of its work, and started again."""

from __future__ import annotations

from signal import SIGTERM
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.rows import beyond_the_first, untruths
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

COUNT = 300
SLOTS = 8
SENDER = ("sender", "--channel", "firebase", "--max-in-flight", str(SLOTS))


async def test_told_to_stop_under_load_it_leaves_nothing_undone_and_repeats_nothing(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """SIGTERM in mid-load, then another sender: each key has one act, each id its row."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=50)
    ids = site.send([notification(number) for number in range(COUNT)], site.names.stage("firebase", "main"))
    first = programs.start(*SENDER, "--node-id", "first")
    await eventually(lambda: len(firebase.acts()) >= 50)
    assert first.stop() == 0, first.text()
    assert len(firebase.acts()) < COUNT, "it was told too late to prove anything"
    assert site.history.count() == len(firebase.acts())
    assert [event["left"] for event in first.events("Stopped")] == [0]

    programs.start(*SENDER, "--node-id", "second")
    await eventually(lambda: site.history.count("delivered") == COUNT, so_far=site.history.statuses)
    assert sorted(act.key for act in firebase.calls()) == sorted(ids)
    assert untruths(site.history.rows(), ids, [firebase]) == []


async def test_killed_under_load_it_repeats_only_what_was_in_flight(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """SIGKILL in mid-load: what was acted on and not recorded is sent once more under the same key; one row each."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=300)  # far longer than a row takes: of what was answered only the last wave is unrecorded
    ids = site.send([notification(number) for number in range(COUNT)], site.names.stage("firebase", "main"))
    first = programs.start(*SENDER, "--node-id", "first")
    await eventually(lambda: len(firebase.acts()) >= 50)
    first.kill()
    acted = {act.key for act in firebase.acts()}
    unrecorded = site.history.unrecorded(acted)
    assert 0 < len(unrecorded) <= 2 * SLOTS, "in flight, or answered and about to be recorded"

    firebase.chaos(LATENCY_MS=0)
    programs.start(*SENDER, "--node-id", "second")
    await eventually(lambda: site.history.count("delivered") == COUNT, so_far=site.history.statuses)
    assert {act.key for act in firebase.acts()} == set(ids)
    assert beyond_the_first(firebase.acts()) == len(unrecorded)
    assert untruths(site.history.rows(), ids, [firebase]) == []


def topics_held(site: Site, group: str) -> int:
    """Of how many topics the group's members hold partitions."""
    return len({topic for places in site.members(group).values() for topic, _ in places})


async def test_told_to_stop_when_idle_it_ends_well(site: Site, programs: Programs) -> None:
    """SIGTERM without any work: exit 0, for every role, and the groups are left."""
    site.prepare()
    commands = [
        ("router",),
        ("router", "--mode", "dlq"),
        ("sender", "--channel", "apns"),
        ("sender", "--channel", "apns", "--mode", "dlq"),
    ]
    roles = [programs.start(*command) for command in commands]
    groups = ["notification-router", "router-dlq", "apns-sender", "apns-dlq"]
    topics = {"router": 1, "router-dlq": 1, "apns-sender": 3, "apns-dlq": 1}
    await eventually(lambda: [topics_held(site, group) for group in groups] == list(topics.values()))
    for role in roles:
        assert role.stop() == 0, role.text()
        assert "Traceback" not in role.text()
    assert [site.members(group) for group in groups] == [{}, {}, {}, {}]


async def test_a_second_signal_ends_it_at_once(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Whoever asks twice gets exit 5: what is under way is left behind, and comes again."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(HANG=True)
    ids = site.send([notification(1)], site.names.stage("firebase", "main"))
    first = programs.start(*SENDER)
    await eventually(firebase.calls)
    first.send(SIGTERM)

    def insist() -> bool:
        first.send(SIGTERM)
        return not first.running

    await eventually(insist)
    assert first.wait() == 5
    firebase.chaos(HANG=False)
    programs.start(*SENDER)
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
