"""Whether a fleet could work here: what an examination finds, and what to do about it. Nothing is changed."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ringonce.bootstrap import make_relay, topic_specs, with_settings
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.kafka.topics import EMBEDDED, Severity, TopicAdmin
from ringonce.settings import ChannelSettings, Loader, channel_prefix
from ringonce.store import schema
from ringonce.store.postgres import address
from ringonce.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ringonce.channels.registry import ChannelRow
    from ringonce.kafka.topics import Finding as TopicFinding
    from ringonce.settings import RoleSettings

CONNECT_SECONDS: Final = 1.0
"""What a sender allows for a connection."""
SAFE_BROKERS: Final = 3
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Verdict(Enum):
    """What a finding means for the roles."""

    OK = "ok"
    WARNING = "warning"
    """They work, with less than is promised."""
    REFUSED = "refused"
    """They do not start."""
    AWAY = "away"
    """A server that they need does not answer."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `advice` is empty where there is nothing to do."""

    subject: str
    verdict: Verdict
    text: str
    advice: str = ""


def kafka(settings: RoleSettings, rows: Sequence[ChannelRow]) -> Iterator[Finding]:
    """The brokers, and every topic of the fleet."""
    admin = TopicAdmin(settings.kafka_bootstrap)
    try:
        brokers = admin.brokers()
        topics = admin.check(topic_specs(settings, rows))
    except ServerUnreachable as error:
        yield Finding("Kafka", Verdict.AWAY, f"{error.address}: {error.reason}", "start it, or correct KAFKA_BOOTSTRAP")
        return
    text = f"{settings.kafka_bootstrap}: {brokers} broker{'s' * (brokers != 1)}"
    if brokers >= SAFE_BROKERS:
        yield Finding("Kafka", Verdict.OK, text)
    else:
        advice = "three brokers keep an acknowledged record when one is lost; fewer are for development"
        yield Finding("Kafka", Verdict.WARNING, text, advice)
    yield from _topics(topics, len(topic_specs(settings, rows)))
    # Kafka tells its time only to who produces, and that would leave a record behind.
    yield Finding(
        "clocks", Verdict.OK, "not compared with the brokers': that cannot be done without producing a record"
    )


def _topics(found: Sequence[TopicFinding], wanted: int) -> Iterator[Finding]:
    """What several topics have in common is said once."""
    if not found:
        yield Finding(
            "topics", Verdict.OK, f"all {wanted} are there: partitions, replication, timestamps and sizes fit"
        )
    alike: dict[tuple[Severity, str], list[str]] = {}
    for one in found:
        alike.setdefault((one.severity, one.text), []).append(one.topic)
    for (severity, text), names in alike.items():
        verdict = Verdict.REFUSED if severity is Severity.REFUSED else Verdict.WARNING
        subject = f"topic {names[0]}" if len(names) == 1 else f"{len(names)} topics"
        which = "" if len(names) in (1, wanted) else f" ({', '.join(names)})"
        what, _, advice = text.partition("; ")
        advice = advice if what != EMBEDDED.partition("; ")[0] else "for a first look only: use the native stand"
        yield Finding(subject, verdict, f"{'each ' * (len(names) > 1)}{what}{which}", advice or _what_helps(text))


def _what_helps(text: str) -> str:
    """What to do about a topic whose finding does not say so itself."""
    if "partitions" in text:
        return "kafka-topics.sh --alter --partitions, or no more processes of a role than partitions"
    if "replica" in text:
        return "kafka-reassign-partitions.sh, or three brokers before `ringonce topics create`"
    return "kafka-configs.sh --alter --add-config, on this topic"


def database(url: str) -> Iterator[Finding]:
    """The server and the schema."""
    try:
        with closing(schema.connect(url)) as connection:
            present = connection.execute(QUERIES["schema_present"]).fetchone()
    except ServerUnreachable as error:
        yield Finding(
            "PostgreSQL", Verdict.AWAY, f"{error.address}: {error.reason}", "start it, or correct DATABASE_URL"
        )
        return
    yield Finding("PostgreSQL", Verdict.OK, f"{address(url)} answers")
    if present and present[0]:
        yield Finding("schema", Verdict.OK, "gate and history are there")
    else:
        yield Finding("schema", Verdict.REFUSED, "there is none", "`ringonce db init` makes it")


def channel(row: ChannelRow) -> Iterator[Finding]:
    """A sender's settings, and whether somebody listens at each address that it may call."""
    loader = Loader()
    settings = loader.load(ChannelSettings, {}, channel_prefix(row.name))
    if settings is not None:
        for check in (with_settings, make_relay):
            try:
                check(row, settings)
            except ConfigurationError as error:
                loader.faults += error.faults
    for fault in loader.faults:
        yield Finding(
            row.name, Verdict.REFUSED, fault, f"`ringonce config --role sender --channel {row.name}` says more"
        )
    if settings is None or loader.faults:
        return
    target = urlsplit(settings.target)
    places = [(target.hostname or "", target.port or DEFAULT_PORTS[target.scheme])]
    places += [
        (host.strip("[]"), int(port)) for host, _, port in (name.rpartition(":") for name in settings.allow_hosts)
    ]
    for host, port in places:
        yield _provider(row.name, host, port)


def _provider(name: str, host: str, port: int) -> Finding:
    subject, where = f"provider of {name}", f"{host}:{port}"
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        advice = f"its records wait until it is back; if it is elsewhere, correct {channel_prefix(name)}TARGET"
        return Finding(subject, Verdict.WARNING, f"{where} takes no connection: {error.strerror or error}", advice)
    return Finding(subject, Verdict.OK, f"{where} takes connections")
