"""The commands. `router` and `sender` are programs of their own; everything else is under `ringonce`."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from ringonce import bootstrap
from ringonce.demo.commands import demo
from ringonce.errors import ConfigurationError, InternalError, RingonceError, ServerUnreachable
from ringonce.fleet.commands import fleet
from ringonce.mock.commands import mock
from ringonce.observe import logs
from ringonce.runtime.lifecycle import run_async, run_sync
from ringonce.settings import ChannelSettings, Loader, RouterSettings, StoreSettings, channel_prefix, load
from ringonce.stand.commands import stand
from ringonce.tools.completion import completion
from ringonce.tools.contents import Contents
from ringonce.tools.database import db, history
from ringonce.tools.doctor import doctor
from ringonce.tools.inforce import InForce, in_force
from ringonce.tools.mocks import mocks
from ringonce.tools.replay import replay
from ringonce.tools.seed import seed
from ringonce.tools.topics import kafka, prefix, topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger("ringonce")

WHAT_TO_DO: Final = {
    "Kafka": "; start it, or correct KAFKA_BOOTSTRAP",
    "PostgreSQL": "; start it, or correct DATABASE_URL",
    "mock provider": "; `ringonce stand up` starts it",
}
"""What follows the message that a server did not answer."""

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Duration(click.ParamType[float]):
    """``30s``, ``5m``, ``250ms``; a bare number is seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        if isinstance(value, float):
            return value
        text = str(value)
        unit = next((unit for unit in UNITS if text.endswith(unit) and text[: -len(unit)].strip()), "")
        try:
            seconds = float(text[: len(text) - len(unit)]) * UNITS.get(unit, 1.0)
        except ValueError:
            self.fail(f"{text!r} is not a duration such as 2s, 5m or 250ms", param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail("a delay must be positive", param, ctx)
        return seconds


def _role_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that every role has."""
    for option in (
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
@click.option("--channels", help="The configured channels, separated by commas; all without.")
@database
@_role_options
@click.version_option(package_name="ringonce")
def router_command(mode: str, channels: str | None, database_url: str | None, **flags: Any) -> None:
    """Forward notifications from the entry topic to each channel's, byte for byte.

    Example: router --channels firebase,apns
    """
    if mode == "dlq":
        settings = load(StoreSettings, database_url=database_url, **flags)
        logs.configure(settings.log_level, settings.log_format)
        run_async(partial(bootstrap.run_dlq_recorder, settings, None))
        return
    routing = load(RouterSettings, channel_names=channels, **flags)
    logs.configure(routing.log_level, routing.log_format)
    run_sync(partial(bootstrap.run_router, routing))


@click.command()
@click.option("--channel", required=True, help="firebase, apns or webhook.")
@click.option(
    "--mode", type=click.Choice(["send", "dlq"]), default="send", help="Deliver, or record the channel's DLQ."
)
@click.option("--target", help="Where to post [env: RINGONCE_CHANNELS__<CHANNEL>__TARGET].")
@click.option(
    "--allow-host", "allow_hosts", multiple=True, help="host:port that webhook targets may name beside --target's."
)
@click.option("--body", type=click.Choice(["json", "protobuf"]), help="What is posted; JSON without.")
@click.option("--http-client", type=click.Choice(["pyreqwest", "httpx"]), help="What speaks HTTP; pyreqwest without.")
@click.option("--max-in-flight", type=int, help="Send slots; 64 without.")
@click.option("--max-attempts", type=int, help="Calls within one stage; 3 without.")
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
    **channel_flags: Any,
) -> None:
    """Deliver one channel's notifications.

    Example: sender --channel firebase --target http://127.0.0.1:8091/send
    """
    row = bootstrap.channel_row(channel)
    flags = {
        "database_url": database_url,
        "kafka_bootstrap": kafka_bootstrap,
        "topic_prefix": topic_prefix,
        "node_id": node_id,
        "log_level": log_level,
    }
    if mode == "dlq":
        recording = load(StoreSettings, **flags)
        logs.configure(recording.log_level, recording.log_format)
        run_async(partial(bootstrap.run_dlq_recorder, recording, row))
        return
    channel_flags["delays"], faults = _delays(delays, delay_30s, delay_5m)
    settings, of_channel = bootstrap.sender_settings(channel, flags, channel_flags, faults)
    logs.configure(settings.log_level, settings.log_format)
    if dry_run:
        run_sync(partial(bootstrap.run_dry, settings, of_channel, row, click.echo))
    else:
        run_async(partial(bootstrap.run_sender, settings, of_channel, row, from_latest=not from_start))


def _delays(
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


@click.command("config", context_settings={"ignore_unknown_options": True})
@click.option("--role", required=True, type=click.Choice(["router", "sender", "dlq", "router-dlq"]), help="Whose.")
@click.option("--channel", help="The channel of a sender, or of a dlq.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF THE ROLE]...")
def config(role: str, channel: str | None, flags: tuple[str, ...]) -> None:
    """Show which settings are in force, and where each comes from.

    Secrets are masked. Give it the flags that the role gets. Exit 3 when the role would not start with them.

    Example: ringonce config --role sender --channel firebase --max-attempts 2
    """
    if (channel is None) is (role in {"sender", "dlq"}):
        raise click.UsageError(f"--role {role} {'needs' if channel is None else 'has no'} --channel")
    if channel is None:
        given = router_command.make_context("router", list(flags)).params
    else:
        bootstrap.channel_row(channel)
        given = sender_command.make_context("sender", ["--channel", channel, *flags]).params
    kind = RouterSettings if role == "router" else StoreSettings
    common = {name: given.get(name) for name in kind.model_fields} | {"channel_names": given.get("channels")}
    lines = in_force(kind, common)
    of_channel: dict[str, Any] = {}
    faults: list[str] = []
    if role == "sender" and channel is not None:
        of_channel = {name: given.get(name) for name in ChannelSettings.model_fields}
        of_channel["delays"], faults = _delays(given["delays"], given["delay_30s"], given["delay_5m"])
        *others, delays = in_force(ChannelSettings, of_channel, channel_prefix(channel))
        lines += [*others, _with_the_ladder(delays, channel, of_channel)]
    width = max(len(line.variable) for line in lines)
    for line in lines:
        click.echo(f"{line.variable:<{width}}  {line.value}  [{line.source.value}]")
    # As the role itself does it, so that what is said here is what it would say.
    if role == "sender" and channel is not None:
        bootstrap.sender_settings(channel, common, of_channel, faults)
    else:
        load(kind, **common)


def _with_the_ladder(line: InForce, channel: str, flags: Mapping[str, Any]) -> InForce:
    """The line about the delays with those of all stages, as far as they can be loaded."""
    loaded = Loader().load(ChannelSettings, flags, channel_prefix(channel))
    if loaded is None:
        return line
    with contextlib.suppress(ConfigurationError):  # the role's own check says it
        stages = bootstrap.with_settings(bootstrap.channel_row(channel), loaded).ladder.retries
        line = replace(line, value=", ".join(f"{stage.name}={stage.delay:g}" for stage in stages) or line.value)
    return line


SECTIONS: Final = {
    "A first look": (demo, stand, fleet),
    "Setting up": (db, topics, config, doctor, completion),
    "At work": (seed, history, replay),
    "Mock providers": (mock, mocks),
}

EXAMPLES: Final[Mapping[click.Command, str]] = {
    mock: "ringonce mock --name firebase --port 8091",
    stand.commands["down"]: "ringonce stand down --purge",
    stand.commands["ps"]: "ringonce stand ps",
    stand.commands["logs"]: "ringonce stand logs kafka-1 --follow",
    stand.commands["env"]: 'eval "$(ringonce stand env)"',
}
for command, example in EXAMPLES.items():
    command.epilog = f"Example: {example}"

ringonce = click.version_option(package_name="ringonce")(
    Contents(
        name="ringonce",
        help="Notifications from Kafka to their recipients: one channel, once, in time.",
        sections=SECTIONS,
        more="The roles are two programs more: router, sender. All take --help, --version.",
    )
)


def _run(command: click.Command, name: str) -> None:
    try:
        command(prog_name=name)
    except InternalError as error:
        log.critical("%s", error, exc_info=error.__cause__ or error)
        _exit_now(error.exit_code)
    except RingonceError as error:
        advice = WHAT_TO_DO.get(error.server, "") if isinstance(error, ServerUnreachable) else ""
        click.echo(f"{name}: {error}{advice}", err=True)
        sys.exit(error.exit_code)
    except Exception:
        log.critical("unexpected", exc_info=True)
        _exit_now(InternalError.exit_code)


def _exit_now(code: int) -> None:
    """End without waiting for threads that may stand still."""
    logging.shutdown()
    os._exit(code)


def main() -> None:
    """`ringonce`."""
    logs.only_errors_of_kafka()
    _run(ringonce, "ringonce")


def router() -> None:
    """`router`."""
    _run(router_command, "router")


def sender() -> None:
    """`sender`."""
    _run(sender_command, "sender")


if __name__ == "__main__":
    main()
