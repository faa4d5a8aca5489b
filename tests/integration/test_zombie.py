"""A member that the group has given up without its knowing: it wakes up, and touches nothing that is not its own."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.program import SESSION
from tests.fixtures.rows import beyond_the_first, untruths
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.kafka.settings import ConsumerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fixtures.program import Programs
    from tests.fixtures.site import Site

    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

SLOTS = 8
COUNT = 120
STAGES = ("retry-30s", "retry-5m", "dlq")


async def test_a_zombie_forwards_and_commits_nothing_for_what_it_has_lost(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Stopped for longer than its session while its calls are being refused, it wakes up with refusals in its hands.

    Another member has done everything by then: no copy of anything may appear, and no offset go back.
    """
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=300)
    main = site.names.stage("firebase", "main")
    ids = site.send([notification(number) for number in range(COUNT)], main)
    sender = ("sender", "--channel", "firebase", "--max-in-flight", str(SLOTS), "--max-attempts", "1")
    zombie = programs.start(*sender, "--node-id", "zombie")
    await eventually(lambda: len(firebase.acts()) >= SLOTS)
    # Every slot has a call under way whose refusal is a second off: so nothing is between its hands when it is stopped,
    # neither a call that is not sent yet nor a copy that is on its way to the broker, which it was free to publish.
    firebase.chaos(STATUS=503, RETRY_AFTER="", LATENCY_MS=1000)
    await eventually(lambda: refused(firebase) == SLOTS)
    zombie.send(signal.SIGSTOP)
    firebase.chaos(reset=True)

    programs.start(*sender, "--node-id", "heir", "--delay-30s", "1s", "--delay-5m", "2s")
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    await eventually(lambda: sum(site.committed("firebase-sender").values()) >= COUNT)
    forwarded = site.count(*(site.names.stage("firebase", stage) for stage in STAGES))
    committed = site.committed("firebase-sender")
    acts = len(firebase.acts())

    zombie.send(signal.SIGCONT)
    await eventually(lambda: zombie.events("PartitionsLost"))
    await eventually(lambda: set(site.members("firebase-sender")) == {"zombie", "heir"})
    assert site.count(*(site.names.stage("firebase", stage) for stage in STAGES)) == forwarded
    after = site.committed("firebase-sender")
    assert all(after[place] >= offset for place, offset in committed.items())
    assert len(firebase.acts()) == acts, "what it had lost is not sent again by it"
    assert zombie.stop() == 0, zombie.text()

    # It was stopped with calls in flight: those, answered or not, are all that may have been sent twice.
    assert beyond_the_first(firebase.acts()) <= SLOTS
    assert untruths(site.history.rows(), ids, [firebase]) == []
    assert site.history.statuses() == {"delivered": COUNT}


async def test_one_that_the_group_may_have_given_up_counts_as_given_up(site: Site, programs: Programs) -> None:
    """Stopped for less than its session, but longer than it can be sure of it: the last heartbeat is older still."""
    site.prepare(["firebase"])
    sender = programs.start("sender", "--channel", "firebase")
    await eventually(lambda: sender.events("PartitionsAssigned"))
    membership = ConsumerSettings("", "", "", session_timeout=SESSION)
    assert membership.certain < SESSION
    sender.send(signal.SIGSTOP)
    await asyncio.sleep((membership.certain + SESSION) / 2)
    sender.send(signal.SIGCONT)
    await eventually(lambda: sender.events("PartitionsLost"))
    await eventually(lambda: len(sender.events("PartitionsAssigned")) >= 2)
    assert sender.stop() == 0, sender.text()


def refused(provider: MockProvider) -> int:
    return sum(call.kind == "refusal" for call in provider.calls())


async def test_members_that_freeze_by_turns_lose_nothing(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Each of two is stopped for longer than its session once, under load: every id has its row in the end."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=100, DEDUP=True)
    main = site.names.stage("firebase", "main")
    sender = ("sender", "--channel", "firebase", "--max-in-flight", str(SLOTS))
    pair = {name: programs.start(*sender, "--node-id", name) for name in ("one", "two")}
    ids: list[str] = []
    for name, program in pair.items():
        await eventually(lambda: [bool(held) for held in site.members("firebase-sender").values()] == [True, True])
        await eventually(lambda program=program: program.events("PartitionsAssigned"))  # type: ignore[misc]
        ids += site.send([notification(f"{name}-{number}") for number in range(100)], main)
        await eventually(firebase.acts)
        program.send(signal.SIGSTOP)
        await eventually(lambda name=name: set(site.members("firebase-sender")) == {"one", "two"} - {name})  # type: ignore[misc]
        program.send(signal.SIGCONT)
        await eventually(lambda program=program: program.events("PartitionsLost"))  # type: ignore[misc]
    await eventually(lambda: site.history.unrecorded(ids) == set(), so_far=site.history.statuses)
    assert sorted(act.key for act in firebase.acts()) == sorted(ids)
    assert [program.stop() for program in pair.values()] == [0, 0]
    assert untruths(site.history.rows(), ids, [firebase]) == []
