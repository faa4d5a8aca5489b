"""The faults of the long run that need time, company, or special means."""

from __future__ import annotations

import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg
from tests.chaos.arena import SESSION, Terrain
from tests.chaos.faults import Fault, sender_killed_at
from tests.chaos.proxy import Mode
from tests.chaos.sent import Kind

from ringonce.runtime.failpoints import Point

if TYPE_CHECKING:
    from tests.chaos.arena import Arena

FIREBASE: Final = frozenset({"firebase"})
APNS: Final = frozenset({"apns"})
WEBHOOK: Final = frozenset({"webhook"})

ROWS: Final = b'"notification_id"'
"""Stands in every statement that writes rows, prepared or not; it is its own transaction, so nobody says COMMIT."""

POISONED: Final = {Kind.POISON: 0.1}
COPIED: Final = {Kind.DUPLICATE: 0.25, Kind.TWIN: 0.08}
EXPIRING: Final = {Kind.EXPIRED: 0.05, Kind.FLEETING: 0.4}

GRACE: Final = 30.0
"""Seconds within which a process that is told to stop has stopped, database or not."""


def random_kills(seconds: float, arena: Arena) -> None:
    """One of two senders is killed again and again at random; only kills with calls under way count."""
    spared = arena.sender("firebase", "firebase-spared")
    arena.until(lambda: {spared, "firebase-sender"} <= arena.members("firebase-sender"))
    provider = arena.providers["firebase"]
    provider.chaos(LATENCY_MS=50)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        arena.hold(arena.random.uniform(1.0, 8.0))
        post = arena.crew["firebase-sender"]
        if not post.running or "firebase-sender" not in arena.members("firebase-sender"):
            continue
        busy = int(str(provider.stats()["in_flight"]))
        arena.crew.kill("firebase-sender")
        if busy:
            arena.hit("sender kill -9 at random, a second member spared")
    provider.chaos(LATENCY_MS=5)
    arena.crew.close(spared)


def broker_hangs(seconds: float, arena: Arena) -> None:
    """The broker is stopped, keeps its connections and says nothing; then it goes on."""
    cluster = arena.ground.kafka.cluster
    cluster.pause(1)
    arena.hold(seconds)
    cluster.resume(1)
    arena.hit(f"broker hangs {seconds:g} s")


def brokers_roll(arena: Arena) -> None:
    """Each of three is restarted in order, one after the other."""
    for number in (1, 2, 3):
        arena.ground.kafka.cluster.restart(number)
        arena.hold(5.0)
        arena.hit("rolling restart of three brokers")


def broker_is_lost(seconds: float, arena: Arena) -> None:
    """One of three is killed and stays away."""
    cluster = arena.ground.kafka.cluster
    cluster.kill(2)
    arena.hold(seconds)
    cluster.restart(2)
    arena.hit("loss of one broker of three")


def database_hangs(seconds: float, arena: Arena) -> None:
    """PostgreSQL is stopped: connections stay open and nothing answers."""
    arena.ground.postgres.pause()
    arena.hold(seconds)
    arena.ground.postgres.resume()
    if arena.crew.events("Held"):
        arena.hit("PostgreSQL hangs")


def history_is_locked(seconds: float, arena: Arena) -> None:
    """Somebody locks the history table against everybody."""
    with psycopg.connect(arena.site.database_url) as connection:
        connection.execute("LOCK TABLE notifications_log IN ACCESS EXCLUSIVE MODE")
        arena.hold(seconds)
        (waiting,) = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'notifications_log'::regclass"
        ).fetchone() or (0,)
    if waiting or arena.crew.events("Held"):
        arena.hit("history table locked")


def commit_replies_are_lost(arena: Arena) -> None:
    """COMMIT reaches the database, its reply never comes back: the outcome is unknown to whoever asked."""
    proxy = arena.ground.database_proxy
    before = proxy.hits(Mode.DROP_REPLIES).connections
    for _ in range(5):
        proxy.lose_reply_to(ROWS)
        arena.hold(1.0)
        proxy.heal()
        arena.hold(1.0)
    arena.hit("commit reply lost", proxy.hits(Mode.DROP_REPLIES).connections - before)


def provider_does(name: str, channel: str, seconds: float, knobs: dict[str, object], arena: Arena) -> None:
    """A provider misbehaves in one way."""
    provider = arena.providers[channel]
    before = int(str(provider.stats()["requests"]))
    provider.chaos(**knobs)
    arena.hold(seconds)
    arena.hit(name, int(str(provider.stats()["requests"])) - before)
    provider.chaos(reset=True)
    provider.chaos(LATENCY_MS=5, RETRY_AFTER="")


def members_storm(seconds: float, arena: Arena) -> None:
    """Members come and go every 200 to 500 ms; they are told to stop, killed, or stopped and left for later."""
    end = time.monotonic() + seconds
    names = [f"firebase-storm-{number}" for number in range(4)]
    for name in names:
        arena.sender("firebase", name)
    frozen: dict[str, float] = {}
    while time.monotonic() < end:
        arena.hold(arena.random.uniform(0.2, 0.5))
        for name, until in list(frozen.items()):
            if time.monotonic() > until:
                arena.crew.send(name, signal.SIGCONT)
                del frozen[name]
        name = arena.random.choice(names)
        if name in frozen or not arena.crew[name].running:
            continue
        match arena.random.choice(["SIGTERM", "SIGKILL", "SIGSTOP"]):
            case "SIGTERM":
                arena.crew.send(name, signal.SIGTERM, 0, 5, -signal.SIGTERM)  # too young to hear it
            case "SIGKILL":
                arena.crew.kill(name)
            case _:
                arena.crew.send(name, signal.SIGSTOP)
                frozen[name] = time.monotonic() + arena.random.uniform(0.5, 2 * SESSION)
        arena.hit("rebalance storm")
    for name in names:
        arena.crew.close(name, codes=(0, 5, -signal.SIGTERM))


def zombie_wakes(arena: Arena) -> None:
    """A sender is stopped for longer than its session while another takes over, and then wakes up."""
    heir = arena.sender("firebase", "firebase-heir")
    arena.until(lambda: {heir, "firebase-sender"} <= arena.members("firebase-sender"))
    arena.providers["firebase"].chaos(LATENCY_MS=200)
    for _ in range(3):
        arena.crew.send("firebase-sender", signal.SIGSTOP)
        arena.until(lambda: arena.members("firebase-sender") == {heir}, 3 * SESSION)
        arena.hold(1.0)
        lost = len(arena.crew.events("PartitionsLost", "firebase-sender".__eq__))
        arena.crew.send("firebase-sender", signal.SIGCONT)
        woken = arena.until(
            lambda lost=lost: len(arena.crew.events("PartitionsLost", "firebase-sender".__eq__)) > lost  # type: ignore[misc]
        )
        arena.hit("zombie owner", int(woken))
        arena.until(lambda: {heir, "firebase-sender"} <= arena.members("firebase-sender"))
    arena.providers["firebase"].chaos(LATENCY_MS=5)
    arena.crew.close(heir)


def stops_under_load(arena: Arena) -> None:
    """SIGTERM while calls are under way: exit 0 within the grace period, and somebody else goes on."""
    arena.providers["firebase"].chaos(LATENCY_MS=300)
    for _ in range(3):
        arena.until(lambda: int(str(arena.providers["firebase"].stats()["in_flight"])) > 0)
        since = time.time()
        arena.crew.send("firebase-sender", signal.SIGTERM, 0)
        arena.hit("SIGTERM under load", int(arena.crew.wait_death("firebase-sender", 0, since, GRACE)))
        arena.until(lambda: "firebase-sender" in arena.members("firebase-sender"))
    arena.providers["firebase"].chaos(LATENCY_MS=5)


def stops_idle(arena: Arena) -> None:
    """SIGTERM to somebody who has nothing to do."""
    idle = arena.sender("webhook", "webhook-idle")
    for number in range(3):
        arena.sender("webhook", f"webhook-more-{number}")
    arena.until(lambda: idle in arena.members("webhook-sender"))
    arena.hit("SIGTERM idle", int(arena.crew.close(idle) == 0))
    for number in range(3):
        arena.check(arena.crew.close(f"webhook-more-{number}") == 0, "an orderly stop did not end with 0")


def is_told_twice(arena: Arena) -> None:
    """A second SIGTERM ends at once, with exit 5."""
    arena.providers["firebase"].chaos(HANG=True)
    arena.until(lambda: int(str(arena.providers["firebase"].stats()["in_flight"])) > 0)
    since = time.time()
    arena.crew.send("firebase-sender", signal.SIGTERM, 5)
    arena.hold(0.5)
    arena.crew.send("firebase-sender", signal.SIGTERM, 5)
    arena.hit("second SIGTERM", int(arena.crew.wait_death("firebase-sender", 5, since, 3.0)))
    arena.providers["firebase"].chaos(HANG=False)


def stops_without_database(arena: Arena) -> None:
    """SIGTERM while finished work waits for the database: exit 5, and what was left comes again."""
    provider = arena.providers["firebase"]
    provider.chaos(LATENCY_MS=100)
    arena.until(lambda: int(str(provider.stats()["in_flight"])) > 0)
    held = len(arena.crew.events("Held", "firebase-sender".__eq__))
    arena.ground.postgres.pause()
    arena.until(lambda: len(arena.crew.events("Held", "firebase-sender".__eq__)) > held)
    began = time.monotonic()
    code = arena.crew.close("firebase-sender", codes=(5,))
    took = time.monotonic() - began
    arena.ground.postgres.resume()
    provider.chaos(LATENCY_MS=5)
    arena.hit("SIGTERM with the database away", int(code == 5))
    arena.check(took < GRACE, f"an orderly stop without a database took {took:.0f} s")
    arena.sender("firebase")


def breaker_outlasts_the_poll_interval(arena: Arena) -> None:
    """The breaker stays open for longer than a member may do without polling: it goes on polling."""
    arena.crew.close("firebase-sender")
    arena.sender("firebase", "firebase-sender", RINGONCE_MAX_POLL_INTERVAL=str(2 * SESSION))
    arena.until(lambda: "firebase-sender" in arena.members("firebase-sender"))
    arena.providers["firebase"].chaos(FAIL_RATE_503=1.0)
    lost = len(arena.crew.events("PartitionsLost"))
    arena.hold(6 * SESSION)
    arena.check(len(arena.crew.events("PartitionsLost")) == lost, "partitions were lost behind an open breaker")
    arena.providers["firebase"].chaos(FAIL_RATE_503=0.0)
    opened = [event for event in arena.crew.events("BreakerChanged") if event["after"] == "open"]
    arena.hit("breaker open for longer than max.poll.interval.ms", len(opened))


def input_is_bad(name: str, seconds: float, arena: Arena) -> None:
    """Nothing is broken but the input, of which more than usual is bad."""
    before = arena.site.history.count()
    arena.hold(seconds)
    arena.hit(name, arena.site.history.count() - before)


def input_expires(arena: Arena) -> None:
    """Much of the input expires: on arrival, behind an open breaker, and in each retry stage."""
    provider = arena.providers["firebase"]
    for knobs in ({"FAIL_RATE_503": 1.0}, {"FAIL_RATE_503": 0.7}):
        provider.chaos(**knobs)
        arena.hold(8.0)
    provider.chaos(FAIL_RATE_503=0.0)
    arena.hold(2.0)
    expired = [row for row in arena.site.history.rows().values() if row["status"] == "expired"]
    places = {
        "main, untried": sum(row["stage"] == "main" and row["attempts"] == 0 for row in expired),
        "main, tried": sum(row["stage"] == "main" and row["attempts"] > 0 for row in expired),
        "retry": sum(row["stage"] != "main" for row in expired),
    }
    for place, count in places.items():
        arena.check(count, f"nothing expired in {place}")
    arena.hit("input expires in each place", len(expired))


def _provider(name: str, channel: str, seconds: float, **knobs: object) -> Fault:
    return Fault(name, partial(provider_does, name, channel, seconds, knobs), frozenset({channel}))


STORMS: Final = (
    sender_killed_at(Point.BEFORE_COMMIT, "C, before its commit"),
    Fault("sender kill -9 at random, a second member spared", partial(random_kills, 600.0), FIREBASE),
    Fault("one record in ten is poison", partial(input_is_bad, "one record in ten is poison", 15.0), mix=POISONED),
    Fault("one record in three is a copy", partial(input_is_bad, "one record in three is a copy", 15.0), mix=COPIED),
    Fault("input expires in each place", input_expires, FIREBASE, mix=EXPIRING),
    Fault(
        "one webhook host hangs",
        partial(provider_does, "one webhook host hangs", "webhook-b", 8.0, {"HANG": True}),
        WEBHOOK,
        one_host=True,
    ),
    Fault("broker hangs 5 s", partial(broker_hangs, 5.0)),
    Fault("broker hangs 60 s", partial(broker_hangs, 60.0)),
    Fault("PostgreSQL hangs", partial(database_hangs, 15.0)),
    Fault("history table locked", partial(history_is_locked, 20.0)),
    Fault("commit reply lost", commit_replies_are_lost),
    _provider("provider resets before reading", "firebase", 8.0, RESET="before"),
    _provider("provider resets after reading", "firebase", 8.0, RESET="after"),
    _provider("provider resets in mid-answer", "firebase", 8.0, RESET="mid"),
    _provider("provider dribbles headers", "apns", 8.0, DRIBBLE="headers"),
    _provider("provider dribbles its body", "apns", 8.0, DRIBBLE="body", BODY_BYTES=1000),
    _provider("provider answers 200 MB", "webhook", 8.0, BODY_BYTES=200_000_000),
    _provider("provider answers with a gzip bomb", "webhook", 8.0, GZIP_BOMB=True),
    _provider("provider floods with early hints", "webhook", 8.0, EARLY_HINTS=2_000_000),
    _provider("provider rejects", "apns", 4.0, STATUS=422),
    _provider("provider redirects", "apns", 4.0, STATUS=302),
    _provider("provider refuses half", "firebase", 10.0, FAIL_RATE_503=0.5),
    _provider("provider throttles", "firebase", 8.0, STATUS=429, RETRY_AFTER="1"),
    Fault("rebalance storm", partial(members_storm, 120.0), FIREBASE),
    Fault("zombie owner", zombie_wakes, FIREBASE),
    Fault("SIGTERM under load", stops_under_load, FIREBASE),
    Fault("SIGTERM idle", stops_idle, WEBHOOK),
    Fault("second SIGTERM", is_told_twice, FIREBASE),
    Fault("SIGTERM with the database away", stops_without_database),
    Fault("breaker open for longer than max.poll.interval.ms", breaker_outlasts_the_poll_interval, FIREBASE),
    Fault("rolling restart of three brokers", brokers_roll, terrain=Terrain.THREE),
    Fault("loss of one broker of three", partial(broker_is_lost, 60.0), terrain=Terrain.THREE),
)
