"""`ringonce prune`: removes what is old and no longer needed from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from ringonce.channels.registry import CATALOGUE
from ringonce.configured import topic_specs
from ringonce.errors import RingonceError
from ringonce.kafka.topics import TopicAdmin, Untold
from ringonce.settings import DatabaseSettings, Loader, RoleSettings
from ringonce.store.pruning import TABLES, Pruning
from ringonce.tools.age import Age, in_hours
from ringonce.tools.roles import database
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.kafka.topics import Keeping

WHY: Final = "a copy that is found without its gate row is sent again"


class Refused(RingonceError):  # noqa: N818 - what happened
    """Nothing was removed, because something could be sent twice afterwards; the message says why."""

    exit_code = 1


@click.command()
@click.option("--older-than", required=True, type=Age(), metavar="AGE", help="Rows written so long ago: 40d, 6w.")
@click.option("--dry-run", is_flag=True, help="Only count them.")
@kafka
@prefix
@database
def prune(
    *,
    older_than: float,
    dry_run: bool,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
    database_url: str | None,
) -> None:
    """Remove old rows of gate, history, attempts and counts.

    In small steps that lock nobody out. Refused (exit 1) for rows of records that a topic can still hold, by its
    retention.ms and segment.ms: without its gate row such a record could be sent twice.

    Example: ringonce prune --older-than 40d
    """
    loader = Loader()
    stored = loader.load(DatabaseSettings, {"database_url": database_url})
    site = loader.load(RoleSettings, {"kafka_bootstrap": kafka_bootstrap, "topic_prefix": topic_prefix})
    loader.check()
    assert stored is not None and site is not None  # noqa: S101, PT018 - check() has raised otherwise
    check(older_than, kept(site))
    with Pruning(stored.database_url.get_secret_value()) as pruning:
        cutoff = pruning.cutoff(older_than)
        for table in TABLES:
            if dry_run:
                click.echo(f"{table}: {pruning.count(table, cutoff)} rows would go")
                continue
            removed = 0
            try:
                for rows in pruning.remove(table, cutoff):
                    removed += rows
            finally:  # interrupted too: what has gone has gone
                click.echo(f"{table}: {removed} rows removed")


def kept(site: RoleSettings) -> dict[str, Keeping]:
    """For how long each topic of the fleet can hold a record.

    Raises:
        Refused: nobody can tell.
    """
    names = [spec.name for spec in topic_specs(site, CATALOGUE.values())]
    try:
        found = TopicAdmin(site.kafka_bootstrap).keeping(names)
    except Untold as untold:
        raise Refused(f"{untold}: what may go cannot be told") from untold
    if not found:
        text = f"there is no topic {names[0]}, nor any other of the fleet's: correct RINGONCE_TOPIC_PREFIX"
        raise Refused(f"{text}, or what may go cannot be told")
    return found


def check(age: float, topics: Mapping[str, Keeping]) -> None:
    """See that no topic can hold a record of which a row of that age (in seconds) may speak.

    Raises:
        Refused: some topic can.
    """
    for_ever = sorted(name for name, keeping in topics.items() if keeping.longest is None)
    if for_ever:
        others = f" and {len(for_ever) - 1} more keep their" if len(for_ever) > 1 else " keeps its"
        raise Refused(f"topic {for_ever[0]}{others} records for ever (retention.ms, cleanup.policy); {WHY}")
    name, longest = max(((name, keeping.longest or 0.0) for name, keeping in topics.items()), key=lambda one: one[1])
    if age < longest:
        text = f"topic {name} can hold records for {in_hours(longest)} (retention.ms and segment.ms)"
        raise Refused(f"{text}; {WHY}: that is the least for --older-than")
