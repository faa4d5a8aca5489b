"""The commands. `router` and `sender` are programs of their own; everything else is under `ringonce`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

import click

from ringonce.demo.commands import demo
from ringonce.errors import InternalError, RingonceError, ServerUnreachable
from ringonce.fleet.commands import fleet
from ringonce.mock.commands import mock
from ringonce.observe import logs
from ringonce.stand.commands import stand
from ringonce.tools.completion import completion
from ringonce.tools.config import config
from ringonce.tools.contents import Contents
from ringonce.tools.database import db
from ringonce.tools.dlq import dlq
from ringonce.tools.doctor import doctor
from ringonce.tools.exporter import exporter
from ringonce.tools.history import history
from ringonce.tools.mocks import mocks
from ringonce.tools.prune import prune
from ringonce.tools.replay import replay
from ringonce.tools.roles import router_command, sender_command
from ringonce.tools.seed import seed
from ringonce.tools.top import top
from ringonce.tools.topics import topics
from ringonce.tools.trace import trace

log = logging.getLogger("ringonce")

WHAT_TO_DO: Final = {
    "Kafka": "; start it, or correct KAFKA_BOOTSTRAP",
    "PostgreSQL": "; start it, or correct DATABASE_URL",
    "mock provider": "; `ringonce stand up` starts it",
}
"""What follows the message that a server did not answer."""

SECTIONS: Final = {
    "A first look": (demo, stand, fleet, mock, mocks),
    "Setting up": (db, topics, config, doctor, completion),
    "At work": (seed, trace, history, dlq, replay, prune, exporter, top),
}

ringonce = click.version_option(package_name="ringonce")(
    Contents(
        name="ringonce",
        help="Notifications from Kafka to recipients. More programs: router, sender.",
        sections=SECTIONS,
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
