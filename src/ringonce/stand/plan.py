"""What a stand consists of, and where its servers are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ringonce.stand.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

KAFKA_VARIABLE, DATABASE_VARIABLE = "KAFKA_BOOTSTRAP", "DATABASE_URL"


class Kind(StrEnum):
    """The ways to bring a stand up."""

    DOCKER = "docker"
    """The compose files, on a docker engine: three brokers, on the ports that are in the files."""
    NATIVE = "native"
    """Apache Kafka on Java, one or three brokers, and PostgreSQL, as processes."""
    EMBEDDED = "embedded"
    """A broker in memory from Kafka's client library, and PostgreSQL, as processes."""


@dataclass(frozen=True)
class Plan:
    """How many brokers, and the loopback ports; further brokers follow the first one's. Mocks by channel."""

    kind: Kind = Kind.NATIVE
    brokers: int = 1
    kafka_port: int = 19092
    postgres_port: int = 15441
    mocks: Mapping[str, int] = field(default_factory=lambda: {"firebase": 8091, "apns": 8092, "webhook": 8093})

    @property
    def kafka_ports(self) -> list[int]:
        """The port of each broker."""
        return [self.kafka_port + number for number in range(self.brokers)]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self.kafka_ports)

    @property
    def database(self) -> str:
        """The database's connection URL."""
        return f"postgresql://ringonce@{LOOPBACK}:{self.postgres_port}/ringonce"

    def __str__(self) -> str:
        brokers = "1 broker" if self.brokers == 1 else f"{self.brokers} brokers"
        return f"{self.kind}, {brokers} from port {self.kafka_port} on, PostgreSQL on port {self.postgres_port}"
