"""The command group `stand`: up, down, ps, logs and env."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ringonce.errors import ConfigurationError
from ringonce.stand.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.stand.native import NativeStand, Service


_PLAN = Plan()


@click.group()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".stand"),
    show_default=True,
    envvar="RINGONCE_STAND_DIRECTORY",
    help="Where data, logs and the record of what runs are kept.",
)
@click.option(
    "--brokers",
    type=click.Choice(["1", "3"]),
    default=str(_PLAN.brokers),
    show_default=True,
    envvar="RINGONCE_STAND_BROKERS",
    help="How many Kafka brokers.",
)
@click.option(
    "--kafka-port",
    default=_PLAN.kafka_port,
    show_default=True,
    envvar="RINGONCE_STAND_KAFKA_PORT",
    help="The first broker's; others follow it.",
)
@click.option(
    "--postgres-port",
    default=_PLAN.postgres_port,
    show_default=True,
    envvar="RINGONCE_STAND_POSTGRES_PORT",
)
@click.pass_context
def stand(context: click.Context, directory: Path, brokers: str, kafka_port: int, postgres_port: int) -> None:
    """Kafka, PostgreSQL and the mock providers on this machine, for development and tests.

    Where KAFKA_BOOTSTRAP or DATABASE_URL is set, that server is used and none is started.
    """
    try:
        # Here, because a production image has the command line but not what the stand needs.
        from ringonce.stand.native import NativeStand  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError([f"the stand needs {error.name}: install ringonce[stand]"]) from error
    context.obj = NativeStand(directory, os.environ, Plan(int(brokers), kafka_port, postgres_port))


@stand.command()
@click.pass_obj
def up(native: NativeStand) -> None:
    """Start what is missing and print where it is."""
    _print(native.up())


@stand.command()
@click.option("--purge", is_flag=True, help="Remove data and logs too.")
@click.pass_obj
def down(native: NativeStand, *, purge: bool) -> None:
    """Stop what `up` has started, and nothing else."""
    stopped = native.down(purge=purge)
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


@stand.command()
@click.pass_obj
def ps(native: NativeStand) -> None:
    """Show what is there."""
    _print(native.services())


@stand.command()
@click.argument("service", required=False)
@click.option("--lines", "-n", default=20, show_default=True, help="How many of the last lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.pass_obj
def logs(native: NativeStand, service: str | None, lines: int, *, follow: bool) -> None:
    """Print the end of a service's log, or of all."""
    names = [service] if service else [each.name for each in native.services() if each.log and each.log.is_file()]
    paths = [native.log(name) for name in names]
    if not paths:
        click.echo("there are no logs")
        return
    command = ["tail", "-n", str(lines), *(["-F"] if follow else []), *map(str, paths)]
    os.execvp(command[0], command)  # noqa: S606 - becoming `tail` is the whole rest of this command


@stand.command()
@click.pass_obj
def env(native: NativeStand) -> None:
    """Print the stand's addresses for a shell: eval "$(ringonce stand env)"."""
    for name, value in native.addresses.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _print(services: Sequence[Service]) -> None:
    width = max(len(service.name) for service in services)
    for service in services:
        pid = f"  pid {service.pid}" if service.pid else ""
        click.echo(f"{service.name:<{width}}  {service.condition:<13}  {service.address}{pid}")
