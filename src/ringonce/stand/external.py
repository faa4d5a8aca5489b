"""Servers that the environment names: they are used as they are, and none is started in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ringonce.stand.errors import StandError
from ringonce.stand.plan import DATABASE_VARIABLE, KAFKA_VARIABLE
from ringonce.stand.ports import answers
from ringonce.stand.service import Service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.stand.plan import Plan

_KAFKA_PORT, _POSTGRES_PORT = 9092, 5432


@dataclass(frozen=True, slots=True)
class External:
    """Bootstrap servers and database URL of servers that are not the stand's; empty where its own are used."""

    kafka: str
    database: str

    @classmethod
    def named(cls, environment: Mapping[str, str], plan: Plan) -> External:
        """What KAFKA_BOOTSTRAP and DATABASE_URL name.

        The stand's own addresses, exported by a shell that follows `up`, do not make its servers external.
        """
        kafka, database = environment.get(KAFKA_VARIABLE, ""), environment.get(DATABASE_VARIABLE, "")
        own = set(kafka.split(",")) <= set(plan.bootstrap.split(","))
        return cls("" if own else kafka, "" if database == plan.database else database)

    def require_kafka(self) -> None:
        """Raises StandError when nobody answers there."""
        addresses = [urlsplit(f"//{address.strip()}") for address in self.kafka.split(",")]
        if not any(answers(each.hostname or "", each.port or _KAFKA_PORT) for each in addresses):
            raise StandError(f"{KAFKA_VARIABLE} points at {self.kafka}, and nobody answers there")

    def require_database(self) -> None:
        """Raises StandError when nobody answers there."""
        parts = urlsplit(self.database)
        # Without a host it is a Unix socket or a service file: libpq's business, checked by whoever connects.
        if parts.hostname and not answers(parts.hostname, parts.port or _POSTGRES_PORT):
            where = _without_password(self.database)
            raise StandError(f"{DATABASE_VARIABLE} points at {where}, and nobody answers there")

    @property
    def kafka_service(self) -> Service:
        """The line about the brokers."""
        return Service("kafka", "external", self.kafka)

    @property
    def database_service(self) -> Service:
        """The line about the database."""
        return Service("postgres", "external", _without_password(self.database))


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}:***@{host}").geturl()
