"""The stand without containers: a broker, PostgreSQL and the mock providers as processes on this machine."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from ringonce.stand import embedded
from ringonce.stand.errors import StandError
from ringonce.stand.external import External
from ringonce.stand.java import Java
from ringonce.stand.kafka import KafkaCluster
from ringonce.stand.kafka_jars import KafkaJars
from ringonce.stand.kafka_probe import known_brokers
from ringonce.stand.plan import DATABASE_VARIABLE, KAFKA_VARIABLE, Kind, Plan
from ringonce.stand.ports import LOOPBACK, answers
from ringonce.stand.postgres import PostgresServer
from ringonce.stand.postgres_home import location
from ringonce.stand.program import mock_provider
from ringonce.stand.service import Service
from ringonce.stand.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ringonce.stand.program import Program

_LEAST_FREE_BYTES = 500 * 1024 * 1024
_STOP_SECONDS = 5.0


class LocalStand:
    """The native or the embedded stand in `directory`; see `Stand` for what it does.

    A server that `environment` points at (KAFKA_BOOTSTRAP, DATABASE_URL) is used as it is, and none is started.

    Args:
        directory: for data, logs and the record of what runs.
        environment: where servers may be named.
        plan: what to bring up.
        jars: where Kafka's jars are or will be fetched to; `directory`/jars unless given.
    """

    def __init__(
        self, directory: Path, environment: Mapping[str, str], plan: Plan | None = None, *, jars: Path | None = None
    ) -> None:
        self._plan = plan or Plan()
        self._state = State(directory)
        self._jars = jars or self._state.directory / "jars"
        self._external = External.named(environment, self._plan)
        self._mocks = [mock_provider(channel, port) for channel, port in self._plan.mocks.items()]

    @property
    def addresses(self) -> dict[str, str]:
        """See `Stand`."""
        return {
            KAFKA_VARIABLE: self._external.kafka or self._plan.bootstrap,
            DATABASE_VARIABLE: self._external.database or self._plan.database,
        }

    def up(self) -> list[Service]:
        """See `Stand`; starts everything at once."""
        if not self._external.kafka:
            self._require_broker()
        with self._state.exclusively():
            self._require_space()
            self._state.remember(self._plan)
            with ThreadPoolExecutor() as pool:
                faults = [fault for fault in pool.map(_attempt, self._starts()) if fault]
            if faults and not self._state.entries():
                self._state.remember(None)
        if faults:
            raise StandError("\n".join(faults))
        return self.services()

    def down(self, *, purge: bool = False) -> list[str]:
        """See `Stand`; with `purge` the logs go too. Kafka's jars stay: they are not data."""
        directory = self._state.directory
        if not directory.is_dir():
            return []
        with self._state.exclusively():
            kafka, postgres = KafkaCluster(directory, jars=self._jars), PostgresServer(directory)
            stopped = list(self._state.entries())
            kafka.stop()
            postgres.stop()
            for name, entry in self._state.entries().items():  # what is left are programs of ours
                entry.daemon.stop(_STOP_SECONDS)
                self._state.forget(name)
            self._state.remember(None)
            if purge:
                kafka.purge()
                postgres.purge()
                shutil.rmtree(directory / "logs", ignore_errors=True)
        return stopped

    def services(self) -> list[Service]:
        """See `Stand`."""
        return [*self._kafka_services(), self._postgres_service(), *(self._mock_service(mock) for mock in self._mocks)]

    def show_logs(self, service: str | None, lines: int, *, follow: bool) -> list[str]:
        """See `Stand`."""
        there = {path.stem: path for path in sorted(self._state.log("*").parent.glob("*.log"))}
        if service is not None and service not in there:
            raise StandError(f"there is no log of {service!r}; there are: {', '.join(there) or 'none'}")
        paths = [there[service]] if service else list(there.values())
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), *map(str, paths)] if paths else []

    def _starts(self) -> list[Callable[[], object]]:
        kafka = self._external.require_kafka if self._external.kafka else self._start_kafka
        database = self._external.require_database if self._external.database else self._start_postgres
        return [kafka, database, *(partial(mock.start, self._state) for mock in self._mocks)]

    def _start_kafka(self) -> None:
        if self._plan.kind is Kind.EMBEDDED:
            embedded.broker(self._plan.kafka_port).start(self._state)
        else:
            KafkaCluster(self._state.directory, self._plan.brokers, self._plan.kafka_ports, jars=self._jars).start()

    def _start_postgres(self) -> None:
        PostgresServer(self._state.directory, self._plan.postgres_port).start()

    def _require_broker(self) -> None:
        """Raises StandError when there can be no such broker here, before anything is started."""
        if self._plan.kind is Kind.NATIVE:
            Java.find()
            lacking = KafkaJars(self._jars).lacking
            if lacking:
                raise StandError(lacking)
        elif self._plan.brokers != 1:
            raise StandError(
                f"the embedded stand has one broker, not {self._plan.brokers}; native and docker have three"
            )

    def _require_space(self) -> None:
        # Root's database lies elsewhere, perhaps on another disk.
        for folder in (self._state.directory, location(self._state.directory).parent):
            free = shutil.disk_usage(folder).free
            if free < _LEAST_FREE_BYTES:
                least = _LEAST_FREE_BYTES // 1024**2
                raise StandError(f"{folder} has {free // 1024**2} MB free; the stand needs {least} MB")

    def _kafka_services(self) -> list[Service]:
        if self._external.kafka:
            return [self._external.kafka_service]
        names = {embedded.NAME: self._plan.kafka_port}
        if self._plan.kind is not Kind.EMBEDDED:
            names = {f"kafka-{number}": port for number, port in enumerate(self._plan.kafka_ports, start=1)}
        return [
            self._own(name, f"{LOOPBACK}:{port}", partial(known_brokers, LOOPBACK, port))
            for name, port in names.items()
        ]

    def _postgres_service(self) -> Service:
        if self._external.database:
            return self._external.database_service
        return self._own("postgres", self._plan.database, partial(answers, LOOPBACK, self._plan.postgres_port))

    def _mock_service(self, mock: Program) -> Service:
        return self._own(mock.name, mock.url, mock.healthy)

    def _own(self, name: str, address: str, answering: Callable[[], object]) -> Service:
        entry = self._state.running(name)
        condition = "down" if entry is None else "up" if answering() else "not answering"
        return Service(name, condition, address, entry.daemon.pid if entry else None)


def _attempt(start: Callable[[], object]) -> str:
    """Runs one start; returns what a person should know about its failure."""
    try:
        start()
    except (StandError, OSError) as error:
        return str(error)
    return ""
