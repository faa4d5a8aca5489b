"""The faults: each begins, lasts and ends within one call, and says how often it was really hit."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.chaos.arena import BREAKER, SLOTS, Terrain

from ringonce.channels.registry import CHANNELS
from ringonce.runtime.breaker import THRESHOLD
from ringonce.runtime.failpoints import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.chaos.arena import Arena
    from tests.chaos.sent import Kind

TRIES: Final = 3
"""Calls of one delivery."""

EVERYBODY: Final = frozenset(CHANNELS)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Args:
        name: in the schedule and in the table.
        act: begins it, lets it last and ends it; returns when it is over.
        feels: channels that may feel it; the others must go on as if nothing were.
        lacks: why it cannot be produced on this machine; empty when it can.
        terrain: the servers that it needs.
        one_host: whether of webhook only the second host feels it, and its other records must go on.
        clocks: whether the fleet's clocks tell the time while it lasts.
        mix: the shares of the input's kinds, where the fault is the input.
    """

    name: str
    act: Callable[[Arena], None]
    feels: frozenset[str] = EVERYBODY
    lacks: Callable[[], str] = str
    terrain: Terrain = Terrain.PLAIN
    one_host: bool = False
    clocks: bool = True
    mix: Mapping[Kind, float] | None = None

    @property
    def spared(self) -> frozenset[str]:
        """Channels that must not feel it."""
        return EVERYBODY - self.feels


def sender_dies(point: Point, name: str, arena: Arena) -> None:
    """A sender is killed in a window, and a fresh one takes its place."""
    since = time.time()
    arena.crew.crash_at("firebase-sender", f"{point}:{arena.random.randint(3, 30)}")
    if arena.crew.wait_death("firebase-sender", -signal.SIGKILL, since, 30.0):
        arena.hit(name)


def router_dies(arena: Arena) -> None:
    """The router is killed when its copies are acknowledged and its offsets are not committed."""
    since = time.time()
    arena.crew.crash_at("router", f"{Point.AFTER_PRODUCE}:{arena.random.randint(20, 60)}")
    if arena.crew.wait_death("router", -signal.SIGKILL, since, 30.0):
        arena.hit("router kill -9 after produce")


def broker_restarts(arena: Arena) -> None:
    """The only broker is killed and comes back a second later."""
    cluster = arena.ground.kafka.cluster
    cluster.kill(1)
    arena.hold(1.0)
    cluster.restart(1)
    arena.hit("broker kill -9 and restart")


def database_dies(arena: Arena) -> None:
    """PostgreSQL is killed with all its children and comes back two seconds later."""
    arena.ground.postgres.kill()
    arena.hold(2.0)
    arena.ground.postgres.start()
    if arena.crew.events("Held"):
        arena.hit("PostgreSQL kill -9")


def provider_refuses(seconds: float, arena: Arena) -> None:
    """Every call is answered 503; while the breaker is open there are no calls but its probes."""
    provider = arena.providers["firebase"]
    before = _answers(arena, "firebase", "503")
    provider.chaos(FAIL_RATE_503=1.0)
    arena.hold(seconds)
    refused = _answers(arena, "firebase", "503") - before
    provider.chaos(FAIL_RATE_503=0.0)
    if refused >= THRESHOLD:
        arena.hit("provider 100 % 503")
    # What opens it is five deliveries with their tries; those that are under way by then make no further calls.
    allowed = (THRESHOLD + SLOTS) * TRIES + seconds / BREAKER + 1
    arena.check(refused <= allowed, f"a provider that refuses was called {refused} times, {allowed:g} allowed")


def provider_hangs(seconds: float, arena: Arena) -> None:
    """The provider reads and never answers."""
    provider = arena.providers["apns"]
    before = arena.acts("apns")
    provider.chaos(HANG=True)
    arena.hold(seconds)
    provider.chaos(HANG=False)
    arena.hit("provider hangs", arena.acts("apns") - before)


def member_comes_and_goes(arena: Arena) -> None:
    """A second sender of a channel joins, works, and leaves in order."""
    name = arena.sender("webhook", "webhook-second")
    if arena.until(lambda: name in arena.members("webhook-sender")):
        arena.hit("a member joins and leaves")
    arena.hold(2.0)
    code = arena.crew.close(name)
    arena.check(code == 0, f"a member that was told to leave ended with {code}")


def _answers(arena: Arena, channel: str, status: str) -> int:
    by_status = arena.providers[channel].stats()["by_status"]
    assert isinstance(by_status, dict)
    return int(by_status.get(status, 0))


def sender_killed_at(point: Point, window: str) -> Fault:
    """A sender's death in a window, as a fault."""
    name = f"sender kill -9 in {window}"
    return Fault(name, partial(sender_dies, point, name), frozenset({"firebase"}))


SHORT: Final = (
    sender_killed_at(Point.BEFORE_SEND, "A"),
    sender_killed_at(Point.AFTER_SEND, "B"),
    sender_killed_at(Point.AFTER_RECORD, "C"),
    Fault("router kill -9 after produce", router_dies),
    Fault("broker kill -9 and restart", broker_restarts),
    Fault("PostgreSQL kill -9", database_dies),
    Fault("provider 100 % 503", partial(provider_refuses, 4.0), frozenset({"firebase"})),
    Fault("provider hangs", partial(provider_hangs, 4.0), frozenset({"apns"})),
    Fault("a member joins and leaves", member_comes_and_goes, frozenset({"webhook"})),
)
"""Of the short run, beside what is wrong with its input: duplicates, poison, and what comes too late."""
