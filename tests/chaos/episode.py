"""One run: warm up, a calm stretch, load with faults one after the other, then quiet; and everything that was seen.

The shape is always the same, whether it is ten faults in three minutes or one fault for ten.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psycopg
from tests.chaos.arena import SLOTS, arena
from tests.chaos.checker import Damage
from tests.chaos.follower import Follower
from tests.chaos.hygiene import Hygiene
from tests.chaos.load import Load
from tests.chaos.pace import STAYS, Window
from tests.chaos.sampler import Sampler
from tests.chaos.sent import Fate, Kind

from ringonce.channels.registry import CHANNELS
from ringonce.runtime.router import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from random import Random

    from tests.chaos.arena import Arena, Ground
    from tests.chaos.canaries import Canaries
    from tests.chaos.faults import Fault
    from tests.chaos.sent import Sent
    from tests.fixtures.rows import Row

    from ringonce.mock.memory import Act
    from ringonce.mock.thread import MockProvider

_RECENT: Final = "SELECT count(*) FROM notifications_log WHERE recorded_at > clock_timestamp() - interval '2 s'"

RATE: Final = 120.0
RATE_OF_THREE: Final = 30.0
"""Records a second; three brokers and all the rest share two cores."""
MIX: Final[Mapping[Kind, float]] = {
    Kind.DUPLICATE: 0.02,
    Kind.TWIN: 0.01,
    Kind.POISON: 0.04,
    Kind.EXPIRED: 0.02,
    Kind.FLEETING: 0.02,
}


@dataclass(frozen=True, slots=True)
class Timing:
    """How long each part of a run lasts, in seconds."""

    warm_up: float = 4.0
    calm: float = 8.0
    breath: float = 6.0
    """between two faults, at least"""
    recovery: float = 30.0
    """until the next fault begins whether or not the fleet has come back"""
    quiet: float = 90.0
    """within which everything has come to its end once the load has stopped"""


PATIENT: Final = Timing()
BRISK: Final = Timing(warm_up=2.0, calm=4.0, breath=4.0, recovery=8.0, quiet=10.0)
"""For a fleet that is expected to fail: nobody waits for what will not come."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One fault's turn: while it lasted, and from its end to the next one or to the end of the load."""

    fault: Fault
    during: Window
    after: Window


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was seen of a run."""

    sent: Sequence[Sent]
    rows: dict[str, Row]
    gate: frozenset[tuple[str, str]]
    calls: Mapping[str, Sequence[Act]]
    providers: Sequence[MockProvider]
    hosts: Mapping[str, str]
    calm: Window
    turns: Sequence[Turn]
    damage: Damage
    declared: Sequence[str]
    hits: Mapping[str, int]
    findings: Sequence[str]
    follower: Follower
    sampler: Sampler
    hygiene: Hygiene
    canaries: Canaries
    logs: Sequence[Path]
    database_url: str
    seconds: float


def run_episode(
    on: Ground,
    faults: Sequence[Fault],
    random: Random,
    folder: Path,
    say: Callable[[str], None],
    *,
    timing: Timing = PATIENT,
    judge: Callable[[Evidence], None],
) -> None:
    """Let the faults loose on a fleet under load; `judge` is given what was seen, while the database is still there."""
    started = time.monotonic()
    with ExitStack() as stack:
        there = stack.enter_context(arena(on, random, folder))
        follower = stack.enter_context(Follower(there.site, CHANNELS))
        sampler = stack.enter_context(Sampler(there.site, follower, CHANNELS))
        hygiene = stack.enter_context(Hygiene(there.crew.processes))
        mix = next((fault.mix for fault in faults if fault.mix), MIX)
        rate = RATE if len(on.kafka.proxies) == 1 else RATE_OF_THREE
        load = Load(there.site, random, there.canaries, rate, mix, hosts=(there.providers["webhook-b"].url,))
        groups = ["notification-router", *(f"{channel}-sender" for channel in CHANNELS)]
        there.check(there.until(lambda: all(map(there.members, groups)), 60.0), "the fleet did not come up")
        load.start()
        there.hold(timing.warm_up)
        calm_began = time.time()
        there.hold(timing.calm)
        calm = Window(calm_began, time.time())
        turns = []
        for fault in faults:
            began = time.time()
            fault.act(there)
            ended = time.time()
            there.hold(timing.breath)
            there.until(lambda: _at_pace(there, rate), timing.recovery)
            there.hold(STAYS + 1.0)  # and stays there
            turns.append(Turn(fault, Window(began, ended), Window(ended, time.time())))
            say(f"  {fault.name}: {ended - began:.1f} s, hit {there.hits.get(fault.name, 0)}")
        load.stop()
        rest = there.until(lambda: _at_rest(there, load), timing.quiet)
        there.check(rest, "work was left when everything had been quiet")
        damage = _damage(there, load)
        there.crew.stop()
        findings = [*there.notes, *there.crew.unexpected()]
        if not there.until(follower.caught_up, 30.0):
            findings.append("the topics could not be read to their ends")
        sampler.stop()
        hygiene.stop()
        inputs = {kind: f"{kind} input" for kind in mix}
        for kind, name in inputs.items():
            there.hit(name, sum(one.kind is kind and one.fate is Fate.OK for one in load.sent))
        judge(
            Evidence(
                load.seen(),
                there.site.history.rows(),
                frozenset(there.site.history.gate()),
                {name: provider.calls() for name, provider in there.providers.items()},
                list(there.providers.values()),
                load.hosts_of,
                calm,
                turns,
                damage,
                [*(fault.name for fault in faults), *inputs.values()],
                dict(there.hits),
                findings,
                follower,
                sampler,
                hygiene,
                there.canaries,
                there.crew.logs,
                there.site.database_url,
                time.monotonic() - started,
            )
        )


def _at_pace(there: Arena, rate: float) -> bool:
    """Whether rows come at the rate that is offered, but for what repeats and so gets no row of its own."""
    try:
        with psycopg.connect(there.site.database_url) as connection:
            found = connection.execute(_RECENT).fetchone()
    except psycopg.Error:
        return False
    return found is not None and found[0] >= 2 * rate * 0.85


def _at_rest(there: Arena, load: Load) -> bool:
    """Whether every record that was acknowledged has its row, and every group has read its topics to their ends."""
    keys = {one.key for one in load.sent if one.fate is Fate.OK}
    return not there.site.history.unrecorded(keys) and not _lag(there)


def _lag(there: Arena) -> int:
    """Records that lie before their groups."""
    site, lag = there.site, 0
    topics = {"notification-router": [site.names.entry], "router-dlq": [site.names.entry_dlq]}
    for name, row in CHANNELS.items():
        topics[f"{name}-sender"] = [site.names.stage(name, stage.name) for stage in row.ladder.consumed()]
        topics[f"{name}-dlq"] = [site.names.stage(name, "dlq")]
    for group, its in topics.items():
        committed = site.committed(group)
        for topic in its:
            for partition, end in site.ends(topic).items():
                lag += end - committed.get((topic.removeprefix(site.prefix), partition), 0)
    return lag


def _damage(there: Arena, load: Load) -> Damage:
    """What explains acts beyond the first, from what died and from what the fleet has logged."""
    crew = there.crew
    senders = {f"{channel}-sender" for channel in CHANNELS}

    def sends(post: str) -> bool:
        return post in senders or (post.partition("-")[0] in CHANNELS and not post.endswith("-dlq"))

    killed = [death.post for death in crew.deaths if death.code in {-9, 5, 6}]
    holds = [event for event in crew.events("Held") if event["what"] == "broker"]
    return Damage(
        slots=SLOTS,
        held=max((event["waiting"] for event in crew.events("Held", sends) if event["what"] == "database"), default=0),
        kills=sum(map(sends, killed)),
        partitions_lost=len(crew.events("PartitionsLost", sends)),
        overdue_drains=sum(event["left"] > 0 for event in crew.events("PartitionsRevoked", sends)),
        indeterminate=sum(int(str(provider.stats()["unanswered"])) for provider in there.providers.values()),
        unknown_forwards=sum(event["waiting"] for event in holds),
        router_crashes=killed.count("router"),
        replay_crashes=0,
        router_batch=BATCH,
        duplicates=sum(one.kind in {Kind.DUPLICATE, Kind.TWIN} for one in load.sent),
    )
