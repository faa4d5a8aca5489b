"""`ringonce demo`."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import click

from ringonce.channels.registry import CHANNELS
from ringonce.demo.interruption import interruptible
from ringonce.errors import ConfigurationError, RingonceError
from ringonce.stand.commands import directory, kind
from ringonce.stand.plan import Kind


class Interrupted(RingonceError):  # noqa: N818 - what happened
    """Somebody stopped it; everything is cleaned up."""

    exit_code = 130


@click.command()
@directory("Where the stand keeps Kafka's jars; the demo's own data goes below it, and goes away.")
@kind(
    (Kind.NATIVE, Kind.EMBEDDED),
    "Which stand; without it, the best one that this machine can do [env: STAND].",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was seen to this file too, as an SVG picture.",
)
def demo(directory: Path, kind: str | None, picture: Path | None) -> None:
    """Watch 100 notifications delivered, retried and replayed.

    Brings up a stand of its own and leaves nothing running, Ctrl-C at any moment included.

    Example: ringonce demo --stand embedded
    """
    interruptible()
    try:
        _perform(directory, kind, picture)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing is left running") from None


def _perform(directory: Path, kind: str | None, picture: Path | None) -> None:
    try:
        # Here, because a production image has the command line but not what the stand needs.
        from rich.console import Console  # noqa: PLC0415

        from ringonce.demo.picture import draw  # noqa: PLC0415
        from ringonce.demo.play import DemoFailed, Play  # noqa: PLC0415
        from ringonce.demo.scene import scene  # noqa: PLC0415
        from ringonce.demo.view import AFTER, BEFORE, WHERE_NEXT, table  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError([f"the demo needs {error.name}: install ringonce[stand]"]) from error
    logging.getLogger("ringonce").setLevel(logging.ERROR)  # one broker is no news here
    console = Console(highlight=False)
    say = partial(console.print, markup=False)
    say("bringing up Kafka, PostgreSQL and three mock providers")
    with scene(directory, Kind(kind) if kind else None, list(CHANNELS), say) as played_on:
        seen = Play(played_on, list(CHANNELS.values()), console).run()
    console.print(table(BEFORE, seen.before))
    console.print(table(AFTER, seen.after))
    say(WHERE_NEXT)
    if picture:
        draw(seen, picture)
    click.echo(seen.summary())
    if seen.lost:
        raise DemoFailed(f"{seen.lost} notifications have come to no end")
