"""Each semantics on real servers: a sender that is killed in every window, at random under load, and a zombie."""

from __future__ import annotations

import signal
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg
import pytest
from tests.fixtures.rows import beyond_the_first, untruths
from tests.fixtures.site import notification
from tests.fixtures.waiting import eventually

from ringonce.runtime.failpoints import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.fixtures.program import Program, Programs
    from tests.fixtures.site import Site

    from ringonce.mock.memory import Act
    from ringonce.mock.thread import MockProvider

pytestmark = [pytest.mark.broker, pytest.mark.database]

COUNT: Final = 500
KILLS: Final = 5
SLOTS: Final = 16
IN_FLIGHT: Final = 2 * SLOTS
"""Sent, and without a row: a call in each slot, and as many of the calls before, whose rows are being written."""
BOUND: Final = 3
ONCE, AT_MOST, BOUNDED = "effectively-once", "at-most-once", f"bounded({BOUND})"
SEED: Final = 20_261


class Left(NamedTuple):
    """What a kill in one window leaves, once another sender has gone through everything."""

    acts: int
    status: str
    attempts: int | None  # as counted under a bound


WINDOWS: Final = {
    (ONCE, Point.BEFORE_SEND): Left(1, "delivered", None),
    (ONCE, Point.AFTER_SEND): Left(2, "delivered", None),
    (ONCE, Point.AFTER_RECORD): Left(1, "delivered", None),
    (AT_MOST, Point.BEFORE_SEND): Left(0, "unknown", None),
    (AT_MOST, Point.AFTER_SEND): Left(1, "unknown", None),
    (AT_MOST, Point.AFTER_RECORD): Left(1, "delivered", None),
    (BOUNDED, Point.BEFORE_SEND): Left(1, "delivered", 2),
    (BOUNDED, Point.AFTER_SEND): Left(2, "delivered", 2),
    (BOUNDED, Point.AFTER_RECORD): Left(1, "delivered", 1),
}


def start(programs: Programs, semantics: str, crash: str = "", node: str = "sender") -> Program:
    """A sender of firebase's; it kills itself at `crash`, if that is given."""
    more = {"RINGONCE_CRASH_AT": crash, "RINGONCE_TESTING": "1"} if crash else {}
    command = ("sender", "--channel", "firebase", "--max-in-flight", str(SLOTS), "--node-id", node)
    return programs.start(*command, "--semantics", semantics, "--delay-30s", "1s", "--delay-5m", "2s", **more)


def counted(site: Site) -> dict[str, int]:
    """Attempts by root, as they were counted before each call."""
    with psycopg.connect(site.database_url) as connection:
        return dict(connection.execute("SELECT root_id, attempts FROM notification_attempts").fetchall())


def acts_by_key(acts: Iterable[Act]) -> Counter[str]:
    """How often each was acted on."""
    return Counter(act.key for act in acts)


@pytest.mark.parametrize(("semantics", "point"), WINDOWS, ids=lambda part: str(part).partition("(")[0])
async def test_kill_in_a_window(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider], semantics: str, point: Point
) -> None:
    """What the provider has seen and what the row says afterwards: the table of docs/semantics.md."""
    site.prepare(["firebase"], partitions=1)
    firebase = providers["firebase"]
    site.send([notification("a")], site.names.stage("firebase", "main"))
    first = start(programs, semantics, f"{point}:1")
    assert first.wait() == -signal.SIGKILL, first.text()
    heir = start(programs, semantics)
    await eventually(lambda: sum(site.committed("firebase-sender").values()) == 1, so_far=site.history.statuses)
    assert heir.stop() == 0, heir.text()
    expected = WINDOWS[semantics, point]
    assert len(firebase.acts()) == expected.acts
    assert site.history.statuses() == {expected.status: 1}
    assert counted(site) == ({} if expected.attempts is None else {"n-a": expected.attempts})


@pytest.mark.parametrize("semantics", [ONCE, AT_MOST, BOUNDED], ids=lambda part: str(part).partition("(")[0])
async def test_random_kills_after_sending(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider], semantics: str
) -> None:
    """500 notifications and five kills between call and row: nothing lost, nobody gets more than was promised."""
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=50, DEDUP=semantics == ONCE)
    ids = site.send([notification(number) for number in range(COUNT)], site.names.stage("firebase", "main"))
    random = Random(SEED)  # noqa: S311 - a schedule, no secret
    for _ in range(KILLS):
        victim = start(programs, semantics, f"{Point.AFTER_SEND}:{random.randint(SLOTS, 90)}")
        assert victim.wait(60) == -signal.SIGKILL, victim.text()
    last = start(programs, semantics)
    await eventually(lambda: site.history.count() == COUNT, 60.0, so_far=site.history.statuses)
    await eventually(lambda: sum(site.committed("firebase-sender").values()) >= COUNT)
    assert last.stop() == 0, last.text()

    statuses, seen = site.history.statuses(), acts_by_key(firebase.acts())
    assert set(site.history.rows()) == set(ids)
    assert set(seen) <= set(ids)
    slack = IN_FLIGHT * KILLS
    if semantics == ONCE:
        assert statuses == {"delivered": COUNT}
        assert seen == Counter(ids), "a receiver that honours the key acts once"
        repeats = len(firebase.calls()) - COUNT
        assert KILLS <= repeats <= slack
        assert untruths(site.history.rows(), ids, [firebase]) == []
    elif semantics == AT_MOST:
        assert max(seen.values()) == 1
        assert KILLS <= statuses["unknown"] <= slack
        assert statuses["delivered"] == COUNT - statuses["unknown"]
    else:
        assert max(seen.values()) <= BOUND
        assert KILLS <= beyond_the_first(firebase.acts()) <= slack
        assert statuses.get("dropped", 0) <= slack
        assert statuses["delivered"] == COUNT - statuses.get("dropped", 0)
        attempts = counted(site)
        assert max(attempts.values()) <= BOUND
        assert all(seen[ident] <= attempts[ident] for ident in ids)


async def test_a_zombie_sends_nothing_a_second_time_under_at_most_once(
    site: Site, programs: Programs, providers: Mapping[str, MockProvider]
) -> None:
    """Stopped for longer than its session amid its calls, it wakes up with refusals in its hands.

    Its heir has found its rows and skipped them by then: the zombie must neither delete them nor send again.
    """
    site.prepare(["firebase"])
    firebase = providers["firebase"]
    firebase.chaos(LATENCY_MS=300)
    ids = site.send([notification(number) for number in range(COUNT)], site.names.stage("firebase", "main"))
    zombie = start(programs, AT_MOST, node="zombie")
    await eventually(lambda: len(firebase.acts()) >= SLOTS)
    firebase.chaos(STATUS=503, RETRY_AFTER="")
    await eventually(lambda: any(call.kind == "refusal" for call in firebase.calls()))
    zombie.send(signal.SIGSTOP)
    firebase.chaos(reset=True)

    heir = start(programs, AT_MOST, node="heir")
    await eventually(lambda: site.history.count() == COUNT, 60.0, so_far=site.history.statuses)
    await eventually(lambda: sum(site.committed("firebase-sender").values()) >= COUNT)
    zombie.send(signal.SIGCONT)
    await eventually(lambda: zombie.events("PartitionsLost"))
    await eventually(lambda: set(site.members("firebase-sender")) == {"zombie", "heir"})
    assert zombie.stop() == 0, zombie.text()
    assert heir.stop() == 0, heir.text()

    assert max(acts_by_key(firebase.acts()).values()) == 1
    statuses = site.history.statuses()
    assert set(site.history.rows()) == set(ids)
    assert set(statuses) <= {"delivered", "unknown"}
    assert statuses.get("unknown", 0) <= IN_FLIGHT
