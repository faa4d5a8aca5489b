"""Whether a fleet could work here: what an examination finds, and what to do about it.

Nothing is changed, except that the comparison of clocks, where it is asked for, makes and deletes a topic.
"""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from ringonce.carriers import kit_of
from ringonce.configured import semantics_of, topic_specs, with_settings
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.kafka.broker_clock import STEM, ClockUntold, TopicLeft, read_clocks
from ringonce.kafka.topics import EMBEDDED, Severity, TopicAdmin
from ringonce.settings import Loader, channel_prefix
from ringonce.store import schema
from ringonce.store.postgres import address
from ringonce.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ringonce.channels.registry import ChannelRow
    from ringonce.kafka.broker_clock import Reading
    from ringonce.kafka.topics import Finding as TopicFinding
    from ringonce.settings import RoleSettings

CONNECT_SECONDS: Final = 1.0
"""What a sender allows for a connection."""
SAFE_BROKERS: Final = 3
CLOCKS: Final = "clocks"
CLOCK_SECONDS: Final = 1.0
"""Clocks that are kept by NTP differ by far less; the shortest retry delay is thirty times that."""
CLOCK_ADVICE: Final = (
    "synchronise both (NTP): a retry stage's records are due by Kafka's clock, and expire by their sender's"
)
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


def kafka(settings: RoleSettings, rows: Sequence[ChannelRow], *, clock: bool = False) -> Iterator[Finding]:
    """The brokers, and every topic of the fleet; with `clock` the brokers' clocks too."""
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
    if clock:
        yield clocks(settings)
    else:
        text = "not compared with Kafka's: `ringonce doctor --clock` does, over a topic that it makes and deletes"
        yield Finding(CLOCKS, Verdict.OK, text)


def clocks(settings: RoleSettings) -> Finding:
    """The brokers' clocks against this machine's, over a topic that is made for it and deleted."""
    try:
        return judged(read_clocks(settings.kafka_bootstrap, settings.topic_prefix))
    except TopicLeft as error:
        return Finding(CLOCKS, Verdict.WARNING, str(error), f"kafka-topics.sh --delete --topic {error.topic}")
    except (ClockUntold, ServerUnreachable) as error:
        topics = f"{settings.topic_prefix}{STEM}*"
        advice = f"--clock needs the right to create {topics}, to write there and to delete it"
        return Finding(CLOCKS, Verdict.WARNING, f"not compared with Kafka's: {error}", advice)


def judged(readings: Sequence[Reading]) -> Finding:
    """What the readings of all brokers mean."""
    if not readings:
        return Finding(CLOCKS, Verdict.OK, "an embedded broker cannot be asked for its time")
    off = [reading for reading in readings if abs(reading.skew) > CLOCK_SECONDS]
    if off:
        text = ", ".join(
            f"broker {one.broker} is {abs(one.skew):.1f} s {'ahead of' if one.skew > 0 else 'behind'} this machine"
            for one in off
        )
        return Finding(CLOCKS, Verdict.WARNING, text, CLOCK_ADVICE)
    width = max(reading.width for reading in readings)
    if width > CLOCK_SECONDS:
        return Finding(CLOCKS, Verdict.WARNING, f"an acknowledgement took {width:.1f} s: too long to tell", "try again")
    return Finding(CLOCKS, Verdict.OK, f"Kafka's and this machine's are within {CLOCK_SECONDS:g} s of each other")


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
        yield Finding("schema", Verdict.REFUSED, "there is none, or an older one", "`ringonce db init` makes it")


def channel(row: ChannelRow) -> Iterator[Finding]:
    """A sender's settings, and whether somebody listens at each address that it may call."""
    loader = Loader()
    kit = kit_of(row)
    settings = loader.load(kit.settings, {}, channel_prefix(row.name))
    if settings is not None:
        for check in (with_settings, kit.build, semantics_of):
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
    for host, port in kit.places(settings):
        yield _provider(row.name, host, port)


def _provider(name: str, host: str, port: int) -> Finding:
    subject, where = f"provider of {name}", f"{host}:{port}"
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        advice = f"its records wait until it is back; if it is elsewhere, correct {channel_prefix(name)}TARGET"
        return Finding(subject, Verdict.WARNING, f"{where} takes no connection: {error.strerror or error}", advice)
    return Finding(subject, Verdict.OK, f"{where} takes connections")
