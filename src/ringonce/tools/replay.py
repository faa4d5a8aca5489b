"""`ringonce replay`."""

from __future__ import annotations

import click

from ringonce.bootstrap import channel_row, run_replay
from ringonce.settings import RoleSettings, load
from ringonce.tools.topics import kafka, prefix


@click.command()
@click.option("--channel", required=True, help="Whose DLQ.")
@kafka
@prefix
def replay(channel: str, kafka_bootstrap: str | None, topic_prefix: str | None) -> None:
    """Send a channel's dead letters again, each once.

    All that lie in its DLQ when it begins, from where the last replay ended. Values are unchanged; a replay
    has an identity of its own and its original's Idempotency-Key.

    Example: ringonce replay --channel firebase
    """
    settings = load(RoleSettings, kafka_bootstrap=kafka_bootstrap, topic_prefix=topic_prefix)
    done = run_replay(settings, channel_row(channel))
    click.echo(f"replayed {done.published}, skipped {done.skipped}")
