"""`ringonce seed`: notifications to play with."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import click

from ringonce.channels.registry import CATALOGUE, CHANNELS
from ringonce.domain.notification import NANOS, Channel, Instant, Notification
from ringonce.errors import RingonceError
from ringonce.kafka.codec import encode
from ringonce.kafka.producer import KafkaProducer
from ringonce.kafka.settings import ProducerSettings
from ringonce.kafka.topics import TopicAdmin, TopicNames
from ringonce.settings import RoleSettings, load
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from ringonce.kafka.port import PublishFailed

USERS = 1000

TARGETS = {Channel.EMAIL: "user-{}@example.org", Channel.NTFY: "user-{}"}
"""Where channels send to that have no target of their own."""


class SeedFailed(RingonceError):  # noqa: N818 - what happened
    """Not every notification was acknowledged."""

    exit_code = 4


@click.command()
@kafka
@prefix
@click.option("--count", default=100, show_default=True, type=click.IntRange(1, 1_000_000), help="How many.")
@click.option("--channel", type=click.Choice(sorted(CATALOGUE)), help="All for one channel; round-robin without.")
def seed(kafka_bootstrap: str | None, topic_prefix: str | None, count: int, channel: str | None) -> None:
    """Publish notifications to play with, round-robin over channels.

    Example: ringonce seed --count 300
    """
    settings = load(RoleSettings, kafka_bootstrap=kafka_bootstrap, topic_prefix=topic_prefix)
    TopicAdmin(settings.kafka_bootstrap).brokers()  # says plainly when nobody is there
    producer = KafkaProducer(ProducerSettings(settings.kafka_bootstrap, "ringonce-seed"))
    entry = TopicNames(settings.topic_prefix).entry
    rows = [CATALOGUE[channel]] if channel else list(CHANNELS.values())
    run = secrets.token_hex(4)
    failures: list[PublishFailed] = []

    def done(failure: PublishFailed | None) -> None:
        if failure is not None:
            failures.append(failure)

    for number in range(count):
        now = time.time_ns()
        row = rows[number % len(rows)]
        notification = Notification(
            id=f"seed-{run}-{number:06d}",
            user_id=f"user-{number % USERS}",
            channel=row.channel,
            title="Hello",
            body=f"Notification {number} of {count}",
            trace_id=f"{run}{number:08x}",
            target=TARGETS.get(row.channel, "").format(number % USERS),
            created_at=Instant(now // NANOS, now % NANOS),
            event_key=f"seed:{run}",
        )
        producer.publish(entry, notification.user_id.encode(), encode(notification), [], done)
        producer.poll(0)
    left = producer.flush(30.0)
    if failures or left:
        reason = failures[0].detail if failures else "no acknowledgement within 30 s"
        raise SeedFailed(f"{len(failures) + left} of {count} were not acknowledged: {reason}")
    click.echo(f"published {count} notifications as seed-{run}-* to {entry}")
