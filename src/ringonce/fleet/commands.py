"""`ringonce fleet`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from ringonce.channels.registry import CHANNELS
from ringonce.configured import channel_row
from ringonce.errors import ConfigurationError
from ringonce.fleet.plan import Member, members, with_metrics
from ringonce.fleet.supervisor import Fleet
from ringonce.runtime.lifecycle import run_async

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURS: Final = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


def _say(width: int, colours: Mapping[str, str], member: Member, line: str) -> None:
    """One line of a member, behind its name; colours only on a terminal, and not where NO_COLOR is set."""
    name = click.style(f"{member.name:<{width}}", fg=colours[member.name])
    click.echo(f"{name} | {line}", color=False if os.environ.get("NO_COLOR") else None)


def _counts(texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in texts:
        channel, _, number = text.partition("=")
        if not number.isdecimal():
            raise ConfigurationError([f"--processes {text!r} is not CHANNEL=NUMBER"])
        found[channel] = int(number)
    return found


@click.command()
@click.option("--channels", envvar="RINGONCE_CHANNEL_NAMES", help="The configured channels, separated by commas.")
@click.option("--only", multiple=True, metavar="ROLE", help="Run these roles only: router, firebase, firebase-dlq …")
@click.option("--processes", multiple=True, metavar="CHANNEL=N", help="Several senders for a channel.")
@click.option("--delay", "delays", multiple=True, metavar="STAGE=TIME", help="A stage's delay, for every sender.")
@click.option(
    "--metrics-port",
    type=int,
    envvar="RINGONCE_METRICS_PORT",
    help="The first role's; each further one has the next port.",
)
def fleet(
    channels: str | None,
    only: tuple[str, ...],
    processes: tuple[str, ...],
    delays: tuple[str, ...],
    metrics_port: int | None,
) -> None:
    """Run all roles as child processes, with restart, until Ctrl-C.

    For development and small installations. The roles read their settings from the environment as they would alone.
    With --metrics-port 9464 the router's pages are on 9464, the next role's on 9465, and so on; each says where.

    Example: ringonce fleet --processes firebase=2
    """
    names = [word.strip() for word in channels.split(",") if word.strip()] if channels else list(CHANNELS)
    flags = [flag for delay in delays for flag in ("--delay", delay)]
    planned = members([channel_row(name).name for name in names], only, _counts(processes), flags)
    width = max(len(member.name) for member in planned)
    colours = {member.name: COLOURS[number % len(COLOURS)] for number, member in enumerate(planned)}
    say = partial(_say, width, colours)
    if metrics_port is not None:
        ports = with_metrics(planned, metrics_port)
        planned = list(ports)
        for member, port in ports.items():
            say(member, f"metrics, healthz and readyz on port {port}")
    environment = {"RINGONCE_LOG_FORMAT": "text", **os.environ, "RINGONCE_CHANNEL_NAMES": ",".join(names)}
    run_async(Fleet(planned, environment, say).run)
