"""The command group `stand`: up, down, ps, logs and env."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ringonce.errors import ConfigurationError
from ringonce.stand.plan import Kind, Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ringonce.stand.choice import Switch
    from ringonce.stand.service import Service, Stand

_PLAN = Plan()


def directory(use: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """The option that names the stand's directory; `use` is what a command says of it."""
    return click.option(
        "--directory",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(".stand"),
        show_default=True,
        envvar="RINGONCE_STAND_DIRECTORY",
        help=use,
    )


def kind(kinds: Iterable[Kind], use: str) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """The option that picks one of `kinds`; `use` is what a command says of it."""
    return click.option("--stand", "kind", type=click.Choice([each.value for each in kinds]), envvar="STAND", help=use)


@dataclass(frozen=True, slots=True)
class _Request:
    """The stand directory, and the fields of the plan that were given, on the command line or in the environment."""

    directory: Path
    asked: Mapping[str, Any]

    def switch(self, **more: Any) -> Switch:
        """What selects the stand.

        Raises:
            ConfigurationError: what a stand needs is not installed.
        """
        try:
            # Here, because a production image has the command line but not what the stand needs.
            from ringonce.stand.choice import Switch  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ConfigurationError([f"the stand needs {error.name}: install ringonce[stand]"]) from error
        return Switch(self.directory, os.environ, {**self.asked, **more})

    @property
    def stand(self) -> Stand:
        """The one that is up, or would be."""
        return self.switch().present()


@click.group()
@directory("Where data, logs and the record of what runs are kept.")
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
    help="The database's.",
)
@click.pass_context
def stand(context: click.Context, directory: Path, brokers: str, kafka_port: int, postgres_port: int) -> None:
    """Kafka, PostgreSQL and the mock providers on this machine, for development and tests.

    Where KAFKA_BOOTSTRAP or DATABASE_URL is set, that server is used and none is started. What `up` was given is
    remembered until `down`: the other commands need not be told again.
    """
    fields = {"brokers": int(brokers), "kafka_port": kafka_port, "postgres_port": postgres_port}
    asked = {
        name: value
        for name, value in fields.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    context.obj = _Request(directory, asked)


@stand.command()
@kind(Kind, "Which way; without it, the best one that this machine can do [env: STAND].")
@click.pass_obj
def up(request: _Request, kind: str | None) -> None:
    """Start what is missing and print where it is.

    docker: the compose files. native: Kafka on Java 17 or newer. embedded: a broker in memory, for a first look.

    Example: ringonce stand up --stand native
    """
    chosen, why = request.switch(**({"kind": Kind(kind)} if kind else {})).wanted()
    click.echo(why)
    _print(chosen.up())


@stand.command()
@click.option("--purge", is_flag=True, help="Remove data and logs too.")
@click.pass_obj
def down(request: _Request, *, purge: bool) -> None:
    """Stop what `up` has started, and nothing else.

    Example: ringonce stand down --purge
    """
    stopped = request.stand.down(purge=purge)
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


@stand.command()
@click.pass_obj
def ps(request: _Request) -> None:
    """Show what is there.

    Example: ringonce stand ps
    """
    _print(request.stand.services())


@stand.command()
@click.argument("service", required=False)
@click.option("--lines", "-n", default=20, show_default=True, help="How many of the last lines.")
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.pass_obj
def logs(request: _Request, service: str | None, lines: int, *, follow: bool) -> None:
    """Print the end of a service's log, or of all.

    Example: ringonce stand logs kafka-1 --follow
    """
    command = request.stand.show_logs(service, lines, follow=follow)
    if not command:
        click.echo("there are no logs")
        return
    os.execvp(command[0], command)  # noqa: S606 - becoming that command is the whole rest of this one


@stand.command()
@click.pass_obj
def env(request: _Request) -> None:
    """Print the stand's addresses for a shell.

    Example: eval "$(ringonce stand env)"
    """
    for name, value in request.stand.addresses.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _print(services: Sequence[Service]) -> None:
    width = max(len(service.name) for service in services)
    for service in services:
        pid = f"  pid {service.pid}" if service.pid else ""
        click.echo(f"{service.name:<{width}}  {service.condition:<13}  {service.address}{pid}")
