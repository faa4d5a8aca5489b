"""`ringonce exporter`."""

from __future__ import annotations

from functools import partial

import click

from ringonce.channels.registry import CHANNELS
from ringonce.errors import ConfigurationError
from ringonce.exporting import rows_with_delays, run_exporter
from ringonce.observe import logs
from ringonce.runtime.lifecycle import run_sync
from ringonce.settings import ExporterSettings, load
from ringonce.tools.roles import chosen_delays, database, metrics_host
from ringonce.tools.topics import kafka, prefix


@click.command()
@kafka
@prefix
@database
@click.option("--channels", help="The configured channels, separated by commas; all without.")
@click.option("--delay", "delays", multiple=True, metavar="STAGE=TIME", help="A stage's delay, as its senders have it.")
@click.option("--interval", type=float, help="Seconds between two looks; 5 without.")
@click.option("--metrics-port", type=int, help="Serves the metrics; 9460 without [env: RINGONCE_METRICS_PORT].")
@metrics_host
def exporter(
    *,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
    database_url: str | None,
    channels: str | None,
    delays: tuple[str, ...],
    interval: float | None,
    metrics_port: int | None,
    metrics_host: str | None,
) -> None:
    """Show ages, lags and rows from outside, for Prometheus.

    Joins no group and writes nothing; what it shows is there when every other process is dead. It is told of the
    stages' delays in the same ways as senders are.

    Example: ringonce exporter --metrics-port 9460
    """
    settings = load(
        ExporterSettings,
        kafka_bootstrap=kafka_bootstrap,
        topic_prefix=topic_prefix,
        database_url=database_url,
        channel_names=channels,
        exporter_interval=interval,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
    )
    chosen, faults = chosen_delays(delays, None, None)
    if faults:
        raise ConfigurationError(faults)
    rows = rows_with_delays(settings.channel_names or CHANNELS, chosen)
    logs.configure(settings.log_level, settings.log_format, role="exporter", node=settings.node_id)
    run_sync(partial(run_exporter, settings, rows))
