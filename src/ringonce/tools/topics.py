"""`ringonce topics …`."""

from __future__ import annotations

import click

from ringonce.channels.registry import CATALOGUE, CHANNELS
from ringonce.configured import channel_row, topic_specs
from ringonce.kafka.topics import PARTITIONS, TopicAdmin
from ringonce.settings import RoleSettings, RouterSettings, load

kafka = click.option("--kafka-bootstrap", help="Kafka's bootstrap servers [env: KAFKA_BOOTSTRAP].")
prefix = click.option("--topic-prefix", help="Stands before every topic's name [env: RINGONCE_TOPIC_PREFIX].")


@click.group()
def topics() -> None:
    """Create and delete the fleet's topics."""


@topics.command()
@kafka
@prefix
@click.option("--channels", help="The configured channels, separated by commas [env: RINGONCE_CHANNEL_NAMES].")
@click.option("--partitions", default=PARTITIONS, show_default=True, help="Partitions of each topic.")
def create(kafka_bootstrap: str | None, topic_prefix: str | None, channels: str | None, partitions: int) -> None:
    """Create every topic that is missing.

    Example: ringonce topics create --topic-prefix staging-
    """
    flags = {"kafka_bootstrap": kafka_bootstrap, "topic_prefix": topic_prefix, "channel_names": channels}
    settings = load(RouterSettings, **flags)
    rows = [channel_row(name) for name in settings.channel_names or CHANNELS]
    made = TopicAdmin(settings.kafka_bootstrap).create(topic_specs(settings, rows), partitions)
    click.echo("\n".join(f"created {name}" for name in sorted(made)) or "every topic is there")


@topics.command()
@kafka
@prefix
@click.confirmation_option(prompt="Delete every topic of the fleet, with all that is in them?")
def delete(kafka_bootstrap: str | None, topic_prefix: str | None) -> None:
    """Delete every topic of the fleet.

    Example: ringonce topics delete --yes
    """
    settings = load(RoleSettings, kafka_bootstrap=kafka_bootstrap, topic_prefix=topic_prefix)
    names = [spec.name for spec in topic_specs(settings, CATALOGUE.values())]
    gone = TopicAdmin(settings.kafka_bootstrap).delete(names)
    click.echo("\n".join(f"deleted {name}" for name in sorted(gone)) or "there was none")
