"""The faults that need special means: a clock, a name, a disk, or descriptors of a process or server of their own."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.chaos.arena import Terrain
from tests.chaos.faults import Fault
from tests.chaos.means import clock, descriptors, disk, names
from tests.chaos.means.clock import Clock
from tests.chaos.means.names import NAME, Names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.chaos.arena import Arena

FIREBASE: Final = frozenset({"firebase"})
APNS: Final = frozenset({"apns"})
HOUR: Final = 3600.0
AHEAD: Final = 600.0
FEW: Final = 64


def _replace(arena: Arena, channel: str, environment: Mapping[str, str] | None = None) -> None:
    """Put another sender to a channel's post, and wait for it."""
    post = f"{channel}-sender"
    arena.crew.close(post)
    arena.sender(channel, **(environment or {}))
    arena.check(arena.until(lambda: post in arena.members(post)), f"{post} did not come up under special means")


def name_is_not_found(name: str, flaps: int, arena: Arena) -> None:
    """The provider's host name is not found for a while, `flaps` times; connections that were open are closed."""
    provider = arena.providers["firebase"]
    known = Names(arena.folder, {NAME: "127.0.0.1"})
    target = arena.canaries.target(f"http://{NAME}:{provider.port}/send")
    _replace(arena, "firebase", {"RINGONCE_CHANNELS__FIREBASE__TARGET": target, **known.environment})
    arena.hold(2.0)
    for _ in range(flaps):
        known.forget(NAME)
        provider.stop()
        provider.start()
        arena.hold(6.0 / flaps)
        known.know(NAME)
        arena.hold(6.0 / flaps)
    causes = [event["cause"] for event in arena.crew.events("BreakerChanged")]
    arena.hit(name, sum("name not resolved" in cause for cause in causes))
    _replace(arena, "firebase")


def clock_is_wrong(name: str, seconds: float, arena: Arena) -> None:
    """One sender's clock jumps and stays wrong for a while."""
    wall = Clock(arena.folder, "sender")
    _replace(arena, "apns", wall.environment)
    before = arena.acts("apns")
    wall.skew(seconds)
    arena.hold(8.0)
    arena.hit(name, arena.acts("apns") - before)
    wall.skew(0)
    arena.hold(2.0)
    _replace(arena, "apns")


def broker_clock_is_ahead(arena: Arena) -> None:
    """What the broker appends is stamped ten minutes ahead: nothing waits ten minutes for that."""
    assert arena.ground.clock is not None
    arena.ground.clock.skew(AHEAD)
    arena.providers["firebase"].chaos(FAIL_RATE_503=0.5)
    arena.hold(10.0)
    arena.providers["firebase"].chaos(FAIL_RATE_503=0.0)
    waiting = arena.site.names.stage("firebase", "retry-30s")
    stamped = [message.timestamp()[1] / 1000 for message in arena.site.records(waiting)]
    arena.hit("broker's clock ten minutes ahead", sum(stamp > time.time() + AHEAD / 2 for stamp in stamped))
    arena.ground.clock.skew(0)


def descriptors_run_out(arena: Arena) -> None:
    """A sender that is at work may suddenly open no more than 64 descriptors, and has 64 slots to fill."""
    provider = arena.providers["firebase"]
    _replace(arena, "firebase", {"RINGONCE_CHANNELS__FIREBASE__MAX_IN_FLIGHT": str(FEW)})
    pid = arena.crew["firebase-sender"].pid
    descriptors.limit(pid, FEW)
    provider.chaos(LATENCY_MS=2000)
    most = 0
    for _ in range(40):
        arena.hold(0.25)
        most = max(most, descriptors.in_use(pid))
    provider.chaos(LATENCY_MS=5)
    # All that it may open, but for a few that are opened and closed all the time.
    arena.hit("64 file descriptors", int(most >= FEW - 4))
    arena.hold(2.0)
    _replace(arena, "firebase")


def disk_is_full(arena: Arena) -> None:
    """The database's disk fills up; it is given room again, and the server is started where it has ended."""
    small, postgres = arena.ground.disk, arena.ground.postgres
    assert small is not None
    small.fill()
    held = arena.until(lambda: arena.crew.events("Held"), 20.0)
    for _ in range(8):
        small.fill()  # what the server has freed meanwhile
        arena.hold(1.0)
    arena.hit("disk full under PostgreSQL", int(held))
    small.free()
    if not postgres.running:
        postgres.start()


SPECIALS: Final = (
    Fault("DNS fails", partial(name_is_not_found, "DNS fails", 1), FIREBASE, names.lacks),
    Fault("DNS flaps", partial(name_is_not_found, "DNS flaps", 4), FIREBASE, names.lacks),
    Fault(
        "a sender's clock an hour ahead",
        partial(clock_is_wrong, "a sender's clock an hour ahead", HOUR),
        APNS,
        clock.lacks,
        clocks=False,
    ),
    Fault(
        "a sender's clock an hour behind",
        partial(clock_is_wrong, "a sender's clock an hour behind", -HOUR),
        APNS,
        clock.lacks,
        clocks=False,
    ),
    Fault("broker's clock ten minutes ahead", broker_clock_is_ahead, lacks=clock.lacks, terrain=Terrain.CLOCK),
    Fault("64 file descriptors", descriptors_run_out, FIREBASE, descriptors.lacks),
    Fault("disk full under PostgreSQL", disk_is_full, lacks=disk.lacks, terrain=Terrain.DISK),
)
