"""The world of one run: real Kafka, real PostgreSQL, providers that can be told to misbehave, and the fleet."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import psycopg
from tests.chaos.canaries import Canaries
from tests.chaos.crew import Crew
from tests.chaos.fronted import fronted_kafka
from tests.chaos.means.clock import Clock
from tests.chaos.means.disk import SmallDisk
from tests.chaos.proxy import Proxy
from tests.fixtures.site import Site

from ringonce.channels.registry import CHANNELS
from ringonce.errors import ServerUnreachable
from ringonce.mock.thread import MockProvider
from ringonce.stand.ports import LOOPBACK
from ringonce.stand.postgres import PostgresServer
from ringonce.stand.postgres_home import location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from random import Random

    from tests.chaos.fronted import FrontedKafka

SLOTS: Final = 16
"""Send slots of every sender."""
SESSION: Final = 3.0
BREAKER: Final = 1.0
DELAYS: Final = {"retry-30s": 1.0, "retry-5m": 2.0}
"""Seconds in place of half a minute and five minutes."""
PARTITIONS: Final = 4
DISK: Final = 400
"""Mebibytes of the small disk."""
LOOK: Final = 0.1


class Terrain(StrEnum):
    """What kind of servers a fault needs."""

    PLAIN = "one broker"
    THREE = "three brokers"
    CLOCK = "a broker whose clock can be set"
    DISK = "a database on a small disk"


@dataclass
class Ground:
    """Servers that several runs may share."""

    kafka: FrontedKafka
    postgres: PostgresServer
    database_proxy: Proxy
    clock: Clock | None = None
    disk: SmallDisk | None = None


@contextmanager
def ground(folder: Path, terrain: Terrain = Terrain.PLAIN) -> Iterator[Ground]:
    """Kafka and PostgreSQL, each with a proxy in front, for the length of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        clock = Clock(folder) if terrain is Terrain.CLOCK else None
        brokers = 3 if terrain is Terrain.THREE else 1
        kafka = stack.enter_context(fronted_kafka(folder, brokers, env=clock.environment if clock else {}))
        disk = None
        if terrain is Terrain.DISK:
            disk = stack.enter_context(SmallDisk(location(folder), DISK))
        # Not durable against the machine's own crash, which nobody causes here; against its own it is.
        postgres = PostgresServer(folder, fsync=False)
        stack.callback(postgres.purge)
        stack.callback(postgres.stop)
        postgres.start()
        proxy = stack.enter_context(Proxy(LOOPBACK, postgres.port))
        yield Ground(kafka, postgres, proxy, clock, disk)


@dataclass
class Arena:
    """What a fault may touch. Times are seconds since 1970."""

    ground: Ground
    site: Site
    providers: Mapping[str, MockProvider]
    crew: Crew
    canaries: Canaries
    random: Random
    folder: Path
    hits: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What a fault has found to be wrong itself."""
    _waiting: threading.Event = field(default_factory=threading.Event)

    def hit(self, fault: str, times: int = 1) -> None:
        """A declared fault has really happened."""
        self.hits[fault] = self.hits.get(fault, 0) + times

    def check(self, ok: object, what: str) -> None:
        """Something that must be so; what is not is a finding of the run."""
        if not ok:
            self.notes.append(what)

    def hold(self, seconds: float) -> None:
        """Let a fault last."""
        self._waiting.wait(seconds)

    def until(self, look: Callable[[], object], seconds: float = 30.0) -> bool:
        """Whether `look` became true within `seconds`."""
        deadline = time.monotonic() + seconds
        while not look():
            if time.monotonic() > deadline:
                return False
            self._waiting.wait(LOOK)
        return True

    def members(self, group: str) -> set[str]:
        """The nodes that have partitions of a group now."""
        return {node for node, places in self.site.members(group).items() if places}

    def acts(self, channel: str) -> int:
        """How often a channel's provider has acted."""
        return int(str(self.providers[channel].stats()["acts"]))

    def sender(self, channel: str, name: str = "", **environment: str) -> str:
        """Put a sender to its post; its name."""
        post = name or f"{channel}-sender"
        self.crew.add(post, "sender", "--channel", channel, **environment)
        return post


@contextmanager
def arena(on: Ground, random: Random, folder: Path) -> Iterator[Arena]:
    """Topics, a database, providers and the whole fleet, for the length of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        site = Site(on.kafka.cluster.bootstrap, on.postgres)
        stack.callback(_leave, site)
        site.prepare(CHANNELS, PARTITIONS)
        names = [*CHANNELS, "webhook-b"]
        seed = random.getrandbits(32)
        canaries = Canaries.plant(seed, f"secret{seed:08x}")
        providers = {
            name: stack.enter_context(MockProvider(name, secret=canaries.secret, seed=random.getrandbits(32)))
            for name in names
        }
        for provider in providers.values():
            provider.chaos(LATENCY_MS=5, RETRY_AFTER="")
        crew = Crew(environment(on, site, providers, canaries), folder)
        stack.callback(crew.end)
        made = Arena(on, site, providers, crew, canaries, random, folder)
        crew.add("router", "router")
        crew.add("router-dlq", "router", "--mode", "dlq")
        for channel in CHANNELS:
            made.sender(channel)
            crew.add(f"{channel}-dlq", "sender", "--channel", channel, "--mode", "dlq")
        crew.watch()
        yield made


def _leave(site: Site) -> None:
    """Take the topics and the database away, where somebody listens; their servers go soon anyway."""
    with suppress(TimeoutError, ServerUnreachable, psycopg.Error):
        site.clear()


def environment(on: Ground, site: Site, providers: Mapping[str, MockProvider], canaries: Canaries) -> dict[str, str]:
    """What the fleet is told: the servers by way of the proxies, short times, few slots."""
    told = {
        **site.environment(),
        "KAFKA_BOOTSTRAP": on.kafka.bootstrap,
        "DATABASE_URL": site.database_url.replace(f":{on.postgres.port}/", f":{on.database_proxy.port}/"),
        "RINGONCE_SESSION_TIMEOUT": str(SESSION),
        "RINGONCE_LOG_FORMAT": "json",
    }
    for channel in CHANNELS:
        prefix = f"RINGONCE_CHANNELS__{channel.upper()}__"
        told |= {
            f"{prefix}TARGET": canaries.target(f"{providers[channel].url}/send"),
            f"{prefix}SECRET": canaries.secret,
            f"{prefix}BREAKER_PERIOD": str(BREAKER),
            f"{prefix}MAX_IN_FLIGHT": str(SLOTS),
            f"{prefix}DELAYS": json.dumps(DELAYS),
        }
    told["RINGONCE_CHANNELS__WEBHOOK__ALLOW_HOSTS"] = f"{LOOPBACK}:{providers['webhook-b'].port}"
    return told
