"""`ringonce demo`."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ringonce.channels.registry import CHANNELS
from ringonce.errors import ConfigurationError, RingonceError

if TYPE_CHECKING:
    from types import FrameType


class Interrupted(RingonceError):  # noqa: N818 - what happened
    """Somebody stopped it; everything is cleaned up."""

    exit_code = 130


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@click.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".stand"),
    show_default=True,
    envvar="RINGONCE_STAND_DIRECTORY",
    help="Where the stand keeps Kafka's jars; the demo's own data goes below it, and goes away.",
)
@click.option(
    "--stand",
    "kind",
    type=click.Choice(["native", "embedded"]),
    envvar="STAND",
    help="Which stand; without it, the best one that this machine can do [env: STAND].",
)
def demo(directory: Path, kind: str | None) -> None:
    """Watch a hundred notifications being delivered, retried, dead-lettered and replayed.

    Brings up a stand of its own and leaves nothing running.
    """
    try:
        # Here, because a production image has the command line but not what the stand needs.
        from rich.console import Console  # noqa: PLC0415

        from ringonce.demo.play import Play, summary  # noqa: PLC0415
        from ringonce.demo.scene import scene  # noqa: PLC0415
        from ringonce.demo.view import table  # noqa: PLC0415
        from ringonce.stand.plan import Kind  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError([f"the demo needs {error.name}: install ringonce[stand]"]) from error
    logging.getLogger("ringonce").setLevel(logging.ERROR)  # one broker is no news here
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console()
    rows = list(CHANNELS.values())
    try:
        console.print("bringing up Kafka, PostgreSQL and three mock providers")
        with scene(directory, Kind(kind) if kind else None, list(CHANNELS), console.print) as played_on:
            before, after = Play(played_on, rows, console).run()
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing is left running") from None
    console.print(table("when every notification had come to an end", before))
    console.print(table("after the replay of the dead letters", after))
    console.print("What is in the dlq now is what the providers refuse for good (422). Where to look next: README.md")
    click.echo(summary(after))
    sys.stdout.flush()
