"""Isolation: a fault in one place, and what the others feel of it.

First what the fleet can do; then, at 60 % of that, the same load without the fault and with it. The load is open-loop:
whoever is slowed down falls behind, and is seen to.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.evidence import commits, watch
from bench.figures import Figure
from bench.letters import Letter, letters, notification, put_all
from bench.offer import offer, p99_ms, pace
from bench.rig import mock, process
from ringonce.domain.stages import MAIN
from ringonce.kafka.codec import encode

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from bench.offer import Offered
    from bench.rig import Mock, Rig

ALL: Final = ("firebase", "apns", "webhook")
OTHERS: Final = ("apns", "webhook")
SHARE: Final = 0.6
PROVIDER_MS: Final = 5
WARM_UP: Final = 4.0
"""Seconds until the breaker has opened and the share of the hanging host is known."""
DEADLINE: Final = 60.0
HOSTS: Final = 100


@dataclass(frozen=True, slots=True)
class Size:
    """`backlog` shows what the fleet can do; `seconds` are measured without the fault, and with it."""

    backlog: int = 15_000
    seconds: float = 12.0


@dataclass(frozen=True, slots=True)
class Compared:
    """The unharmed ones' pace and p99 with the fault over those without it.

    `kept_up` is their pace without the fault over what was offered: where it is not 1, the load was too much.
    """

    capacity: float
    kept_up: float
    throughput: float
    p99_ratio: float


def measure(running: Rig, size: Size) -> list[Figure]:
    """A channel that hangs, then a webhook host that hangs."""
    channels, hosts = _channels(running, size), _hosts(running, size)
    return [
        Figure("isolation_throughput", "ratio", [channels.throughput]),
        Figure("isolation_p99_ratio", "ratio", [channels.p99_ratio]),
        Figure("isolation_kept_up", "ratio", [channels.kept_up]),
        Figure("isolation_capacity_per_s", "records/s", [channels.capacity]),
        Figure("isolation_host_throughput", "ratio", [hosts.throughput]),
        Figure("isolation_host_p99_ratio", "ratio", [hosts.p99_ratio]),
        Figure("isolation_host_kept_up", "ratio", [hosts.kept_up]),
        Figure("isolation_host_capacity_per_s", "records/s", [hosts.capacity]),
    ]


def _channels(running: Rig, size: Size) -> Compared:
    """Router, three senders, three providers; firebase hangs."""
    prefix = "channels-"
    entry = running.create_topics(prefix, ALL).entry
    with ExitStack() as stack:
        providers = {name: stack.enter_context(mock(name, LATENCY_MS=PROVIDER_MS)) for name in ALL}
        environment = running.environment(prefix, {name: provider.url for name, provider in providers.items()})
        roles = [stack.enter_context(process(["sender", "--channel", name], environment)) for name in ALL]
        roles.append(stack.enter_context(process(["router"], environment)))
        compared = _compare(
            running,
            roles,
            lambda stem, count: letters(entry, stem, count, ALL),
            lambda number: ALL[number % len(ALL)] in OTHERS,
            [providers[name] for name in OTHERS],
            providers["firebase"],
            size,
        )
        providers["firebase"].chaos(HANG=False)
    running.delete_topics(prefix)
    return compared


def _hosts(running: Rig, size: Size) -> Compared:
    """One webhook sender and a hundred hosts, of which one hangs.

    All of 127.0.0.0/8 is this machine: each of the 99 has an address of its own, behind them one provider.
    """
    prefix = "hosts-"
    topic = running.create_topics(prefix, ["webhook"]).stage("webhook", MAIN)
    with mock("webhook", host="0.0.0.0", LATENCY_MS=PROVIDER_MS) as well, mock("webhook", LATENCY_MS=5) as ill:  # noqa: S104 - loopback has many addresses
        hosts = [f"127.0.1.{number}:{well.port}" for number in range(1, HOSTS)] + [f"127.0.0.1:{ill.port}"]
        environment = running.environment(
            prefix, {"webhook": well.url}, RINGONCE_CHANNELS__WEBHOOK__ALLOW_HOSTS=",".join(hosts)
        )

        def load(stem: str, count: int) -> list[Letter]:
            made = [
                notification(f"{stem}{number:08d}", number, "webhook", f"http://{hosts[number % HOSTS]}/send")
                for number in range(count)
            ]
            return [Letter(one.id, topic, one.user_id.encode(), encode(one)) for one in made]

        with process(["sender", "--channel", "webhook"], environment) as sender:
            compared = _compare(running, [sender], load, lambda number: number % HOSTS != HOSTS - 1, [well], ill, size)
            ill.chaos(HANG=False)
    running.delete_topics(prefix)
    return compared


def _compare(
    running: Rig,
    roles: Sequence[subprocess.Popen[bytes]],
    load: Callable[[str, int], list[Letter]],
    unharmed: Callable[[int], bool],
    well: Sequence[Mock],
    ill: Mock,
    size: Size,
) -> Compared:
    """Capacity, then the run without the fault, then the one with it.

    Args:
        running: the servers.
        roles: the processes that are measured.
        load: makes so many letters with a stem of their own.
        unharmed: whether the letter with this number goes to somebody who is well.
        well: the providers that stay well.
        ill: the one that hangs in the end.
        size: how much of it.
    """
    bootstrap = running.kafka.bootstrap

    def drained(stem: str) -> float:
        running.truncate()
        backlog = load(stem, size.backlog)
        put_all(bootstrap, backlog)
        watch(running, list(roles), lambda rows: rows >= len(backlog), DEADLINE)
        # From the first to the last: what a fleet can do for a moment is not what it can be offered for long.
        times = commits(running).values()
        return len(times) / (max(times) - min(times))

    # The lower of two: what a machine shared with others can do changes within seconds.
    capacity = min(drained("capacity-"), drained("again-"))
    rate = capacity * SHARE
    count = int(rate * (size.seconds + WARM_UP))

    def run(stem: str) -> tuple[dict[str, float], dict[str, float]]:
        running.truncate()
        sent = load(stem, count)
        offered: Offered = offer(bootstrap, sent, rate)
        mine = {letter.id for number, letter in enumerate(sent) if unharmed(number)}
        watch(running, list(roles), lambda rows: rows >= len(mine), DEADLINE)
        due = offered.only(mine, WARM_UP)
        reached = {key: moment for provider in well for key, moment in provider.receipts().items()}
        return due, reached

    before = run("without-")
    ill.chaos(HANG=True)
    beside = run("beside-")
    if not ill.stats()["unanswered"]:
        raise SystemExit("nobody hung")
    return Compared(
        capacity,
        pace(*before) / pace(before[0], before[0]),
        pace(*beside) / pace(*before),
        p99_ms(*beside) / p99_ms(*before),
    )
