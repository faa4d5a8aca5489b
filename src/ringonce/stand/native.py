"""The stand without containers: Kafka, PostgreSQL and the mock providers as processes on this machine."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ringonce.stand.errors import StandError
from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.kafka_probe import known_brokers
from ringonce.stand.plan import Plan
from ringonce.stand.ports import LOOPBACK, answers
from ringonce.stand.postgres import PostgresServer
from ringonce.stand.program import mock_provider
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ringonce.stand.program import Program

KAFKA_VARIABLE, DATABASE_VARIABLE = "KAFKA_BOOTSTRAP", "DATABASE_URL"

_LEAST_FREE_BYTES = 500 * 1024 * 1024
_STOP_SECONDS = 5.0
_KAFKA_PORT, _POSTGRES_PORT = 9092, 5432


@dataclass(frozen=True, slots=True)
class Service:
    """One line of what is there: `condition` is up, not answering, down or external (not ours); `pid` only for ours."""

    name: str
    condition: str
    address: str
    pid: int | None
    log: Path | None


class NativeStand:
    """The stand in `directory`.

    A server that `environment` points at (KAFKA_BOOTSTRAP, DATABASE_URL) is used as it is, and none is started.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str], plan: Plan | None = None) -> None:
        self._plan = plan or Plan()
        self._state = State(directory)
        plan_ports = [self._plan.kafka_port + number for number in range(self._plan.brokers)]
        self._own_bootstrap = ",".join(f"{LOOPBACK}:{port}" for port in plan_ports)
        self._own_database = f"postgresql://ringonce@{LOOPBACK}:{self._plan.postgres_port}/ringonce"
        # The stand's own addresses, exported by a shell that follows `up`, do not make its servers external.
        self._bootstrap = _unless(environment.get(KAFKA_VARIABLE, ""), self._own_bootstrap)
        self._database = _unless(environment.get(DATABASE_VARIABLE, ""), self._own_database)
        self._kafka_ports = plan_ports
        self._mocks = [mock_provider(channel, port) for channel, port in self._plan.mocks.items()]

    @property
    def addresses(self) -> dict[str, str]:
        """The environment variables with which the product finds this stand."""
        return {
            KAFKA_VARIABLE: self._bootstrap or self._own_bootstrap,
            DATABASE_VARIABLE: self._database or self._own_database,
        }

    def up(self) -> list[Service]:
        """Starts what is missing, all at once, and returns when everything answers.

        Raises:
            StandError: something did not come up, each said in one message; what did come up stays.
        """
        with self._state.exclusively():
            self._require_space()
            with ThreadPoolExecutor() as pool:
                faults = [fault for fault in pool.map(_attempt, self._starts()) if fault]
        if faults:
            raise StandError("\n".join(faults))
        return self.services()

    def down(self, *, purge: bool = False) -> list[str]:
        """Stops what `up` has started, in this or an earlier call, and nothing else; returns the names.

        Args:
            purge: remove data and logs too. Kafka's jars stay: they are not data.
        """
        if not self._state.directory.is_dir():
            return []
        with self._state.exclusively():
            stopped = list(self._state.entries())
            for name in stopped:
                if name.startswith("mock-"):
                    self._state.entries()[name].daemon.stop(_STOP_SECONDS)
                    self._state.forget(name)
            directory = self._state.directory
            kafka, postgres = KafkaCluster(directory), PostgresServer(directory)
            kafka.stop()
            postgres.stop()
            if purge:
                kafka.purge()
                postgres.purge()
                shutil.rmtree(directory / "logs", ignore_errors=True)
        return stopped

    def services(self) -> list[Service]:
        """What belongs to the stand, and how each part does."""
        return [*self._kafka_services(), self._postgres_service(), *(self._mock_service(mock) for mock in self._mocks)]

    def log(self, name: str) -> Path:
        """The log of a service.

        Raises:
            StandError: there is none.
        """
        path = self._state.log(name)
        if not path.is_file():
            there = ", ".join(sorted(each.stem for each in path.parent.glob("*.log"))) or "none"
            raise StandError(f"there is no log of {name!r}; there are: {there}")
        return path

    def _starts(self) -> list[Callable[[], object]]:
        kafka = partial(_require_external_kafka, self._bootstrap) if self._bootstrap else self._start_kafka
        database = partial(_require_external_database, self._database) if self._database else self._start_postgres
        return [kafka, database, *(partial(mock.start, self._state) for mock in self._mocks)]

    def _start_kafka(self) -> None:
        KafkaCluster(self._state.directory, self._plan.brokers, self._kafka_ports).start()

    def _start_postgres(self) -> None:
        PostgresServer(self._state.directory, self._plan.postgres_port).start()

    def _require_space(self) -> None:
        free = shutil.disk_usage(self._state.directory).free
        if free < _LEAST_FREE_BYTES:
            least = _LEAST_FREE_BYTES // 1024**2
            raise StandError(f"{self._state.directory} has {free // 1024**2} MB free; the stand needs {least} MB")

    def _kafka_services(self) -> list[Service]:
        if self._bootstrap:
            return [Service("kafka", "external", self._bootstrap, None, None)]
        return [
            self._own(f"kafka-{number}", f"{LOOPBACK}:{port}", partial(known_brokers, LOOPBACK, port))
            for number, port in enumerate(self._kafka_ports, start=1)
        ]

    def _postgres_service(self) -> Service:
        if self._database:
            return Service("postgres", "external", _without_password(self._database), None, None)
        return self._own("postgres", self._own_database, partial(answers, LOOPBACK, self._plan.postgres_port))

    def _mock_service(self, mock: Program) -> Service:
        return self._own(mock.name, mock.url, mock.healthy)

    def _own(self, name: str, address: str, answering: Callable[[], object]) -> Service:
        entry = self._state.running(name)
        condition = "down" if entry is None else "up" if answering() else "not answering"
        return Service(name, condition, address, entry.daemon.pid if entry else None, self._state.log(name))


def _attempt(start: Callable[[], object]) -> str:
    """Runs one start; returns what a person should know about its failure."""
    try:
        start()
    except (StandError, OSError) as error:
        return str(error)
    return ""


def _unless(given: str, own: str) -> str:
    return "" if given == own else given


def _require_external_kafka(bootstrap: str) -> None:
    addresses = [urlsplit(f"//{address.strip()}") for address in bootstrap.split(",")]
    if not any(answers(each.hostname or "", each.port or _KAFKA_PORT) for each in addresses):
        raise StandError(f"{KAFKA_VARIABLE} points at {bootstrap}, and nobody answers there")


def _require_external_database(url: str) -> None:
    parts = urlsplit(url)
    # Without a host it is a Unix socket or a service file: libpq's business, checked by whoever connects.
    if parts.hostname and not answers(parts.hostname, parts.port or _POSTGRES_PORT):
        raise StandError(f"{DATABASE_VARIABLE} points at {_without_password(url)}, and nobody answers there")


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}:***@{host}").geturl()
