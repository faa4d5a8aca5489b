"""The programs `router` and `sender`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ringonce import bootstrap, configured
from ringonce.errors import ConfigurationError
from ringonce.observe import logs
from ringonce.runtime.lifecycle import run_async, run_sync
from ringonce.settings import RouterSettings, StoreSettings, load
from ringonce.tools.duration import Duration
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from collections.abc import Callable


metrics_port = click.option(
    "--metrics-port", type=int, help="Serves /metrics, /healthz, /readyz [env: RINGONCE_METRICS_PORT]."
)
metrics_host = click.option(
    "--metrics-host", help="The address that the port is on; loopback without [env: RINGONCE_METRICS_HOST]."
)


def _role_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every role has."""
    for option in (
        metrics_host,
        metrics_port,
        click.option("--log-level", help="DEBUG, INFO, WARNING or ERROR [env: RINGONCE_LOG_LEVEL]."),
        click.option("--node-id", help="This process in headers and rows [env: RINGONCE_NODE_ID]."),
        prefix,
        kafka,
    ):
        command = option(command)
    return command


database = click.option("--database-url", help="PostgreSQL as a libpq URL [env: DATABASE_URL].")


@click.command()
@click.option("--mode", type=click.Choice(["route", "dlq"]), default="route", help="Route, or record the router's DLQ.")
@click.option("--channels", help="The configured channels, separated by commas; firebase, apns, webhook without.")
@database
@_role_options
@click.version_option(package_name="ringonce")
def router_command(mode: str, channels: str | None, database_url: str | None, **flags: Any) -> None:
    """Forward notifications from the entry topic to each channel's, byte for byte.

    Example: router --channels firebase,apns
    """
    if mode == "dlq":
        settings = load(StoreSettings, database_url=database_url, **flags)
        logs.configure(settings.log_level, settings.log_format, role="router-dlq", node=settings.node_id)
        run_async(partial(bootstrap.run_dlq_recorder, settings, None))
        return
    routing = load(RouterSettings, channel_names=channels, **flags)
    logs.configure(routing.log_level, routing.log_format, role="router", node=routing.node_id)
    run_sync(partial(bootstrap.run_router, routing))


@click.command()
@click.option("--channel", required=True, help="firebase, apns, webhook, email or ntfy.")
@click.option(
    "--mode", type=click.Choice(["send", "dlq"]), default="send", help="Deliver, or record the channel's DLQ."
)
@click.option("--target", help="Where to post [env: RINGONCE_CHANNELS__<CHANNEL>__TARGET].")
@click.option(
    "--allow-host", "allow_hosts", multiple=True, help="host:port that webhook targets may name beside --target's."
)
@click.option("--body", type=click.Choice(["json", "protobuf"]), help="What is posted; JSON without.")
@click.option("--http-client", type=click.Choice(["pyreqwest", "httpx"]), help="What speaks HTTP; pyreqwest without.")
@click.option("--max-in-flight", type=int, help="Send slots at most; 256 without.")
@click.option("--max-attempts", type=int, help="Calls within one stage; 3 without, 1 under bounded(n).")
@click.option("--semantics", help="effectively-once, at-most-once or bounded(n); the protocol's own without.")
@click.option("--delay", "delays", multiple=True, metavar="STAGE=TIME", help="A stage's delay, such as retry-30s=2s.")
@click.option("--delay-30s", type=Duration(), help="Short for --delay retry-30s=TIME.")
@click.option("--delay-5m", type=Duration(), help="Short for --delay retry-5m=TIME.")
@click.option("--from-start/--from-latest", default=True, help="Where a new group begins in the main topic.")
@click.option("--dry-run", is_flag=True, help="Show what would be done: no call, no write, no commit.")
@database
@_role_options
@click.version_option(package_name="ringonce")
def sender_command(  # noqa: PLR0913 - one parameter per option
    *,
    channel: str,
    mode: str,
    delays: tuple[str, ...],
    delay_30s: float | None,
    delay_5m: float | None,
    from_start: bool,
    dry_run: bool,
    database_url: str | None,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
    node_id: str | None,
    log_level: str | None,
    metrics_port: int | None,
    metrics_host: str | None,
    **channel_flags: Any,
) -> None:
    """Deliver one channel's notifications.

    Example: sender --channel firebase --target http://127.0.0.1:8091/send
    """
    row = configured.channel_row(channel)
    flags = {
        "database_url": database_url,
        "kafka_bootstrap": kafka_bootstrap,
        "topic_prefix": topic_prefix,
        "node_id": node_id,
        "log_level": log_level,
        "metrics_port": metrics_port,
        "metrics_host": metrics_host,
    }
    if mode == "dlq":
        recording = load(StoreSettings, **flags)
        _log(recording, channel, f"{channel}-dlq")
        run_async(partial(bootstrap.run_dlq_recorder, recording, row))
        return
    channel_flags["delays"], faults = chosen_delays(delays, delay_30s, delay_5m)
    settings, of_channel = configured.sender_settings(channel, flags, channel_flags, faults)
    _log(settings, channel, f"{channel}-sender")
    if dry_run:
        run_sync(partial(bootstrap.run_dry, settings, of_channel, row, click.echo))
    else:
        run_async(partial(bootstrap.run_sender, settings, of_channel, row, from_latest=not from_start))


def _log(settings: StoreSettings, channel: str, role: str) -> None:
    logs.configure(settings.log_level, settings.log_format, role=role, channel=channel, node=settings.node_id)


def chosen_delays(
    delays: tuple[str, ...], delay_30s: float | None, delay_5m: float | None
) -> tuple[dict[str, float] | None, list[str]]:
    """The delays given by flag, in seconds by stage, None where there are none; and what is wrong with the flags."""
    named = {"retry-30s": delay_30s, "retry-5m": delay_5m}
    given = {stage: seconds for stage, seconds in named.items() if seconds is not None}
    faults = []
    for text in delays:
        try:
            given.update([_stage_delay(text)])
        except ConfigurationError as error:
            faults += error.faults
    return given or None, faults


def _stage_delay(text: str) -> tuple[str, float]:
    stage, equals, delay = text.partition("=")
    if not stage or not equals:
        raise ConfigurationError([f"--delay {text!r} is not STAGE=TIME"])
    try:
        return stage, Duration().convert(delay, None, None)
    except click.BadParameter as error:
        raise ConfigurationError([f"--delay {text}: {error.message}"]) from None
