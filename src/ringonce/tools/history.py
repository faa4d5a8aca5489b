"""`ringonce history`: what has become of notifications, counted or row by row."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ringonce.channels.registry import CATALOGUE
from ringonce.domain.disposition import Status
from ringonce.runtime.timeline import root_of
from ringonce.settings import DatabaseSettings, load
from ringonce.store.archive import Archive, Ended, Filter
from ringonce.tools.letters import plain
from ringonce.tools.moment import Moment, MomentType
from ringonce.tools.roles import database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.store.schema import Count

LIMIT: Final = 50


@click.command()
@click.option("--channel", type=click.Choice(sorted(CATALOGUE)), help="Only this channel's.")
@click.option("--status", type=click.Choice([status.value for status in Status]), help="Only with this status.")
@click.option("--since", type=MomentType(), help="Only written since: 2h (ago), or 2026-11-30T12:00 (UTC).")
@click.option("--until", type=MomentType(), help="Only written before.")
@click.option("--user", help="Only this user's.")
@click.option("--event-key", help="Only about this event.")
@click.option("--id", "ident", help="Only this notification and its replays.")
@click.option("--rows", "as_rows", is_flag=True, help="The rows themselves, newest first.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), help=f"How many rows at most; {LIMIT} without.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@database
def history(  # noqa: PLR0913 - one parameter per option
    *,
    channel: str | None,
    status: str | None,
    since: Moment | None,
    until: Moment | None,
    user: str | None,
    event_key: str | None,
    ident: str | None,
    as_rows: bool,
    limit: int | None,
    as_json: bool,
    database_url: str | None,
) -> None:
    """Show how many notifications each channel has by status.

    Example: ringonce history --status dlq --since 2h --rows
    """
    if limit is not None and not as_rows:
        raise click.UsageError("--limit needs --rows: counts are of all rows")
    if since is not None and until is not None and since.at >= until.at:
        raise click.UsageError("--since is not before --until: no row can be between them")
    settings = load(DatabaseSettings, database_url=database_url)
    root = None if ident is None else root_of(ident)
    wanted = Filter(channel, status, user, event_key, root, _utc(since), _utc(until))
    with Archive(settings.database_url.get_secret_value()) as archive:
        if as_rows:
            rows = archive.rows(wanted, limit or LIMIT)
            (rows_as_json if as_json else rows_as_text)(rows)
        else:
            counts = archive.counts(wanted)
            (counts_as_json if as_json else counts_as_text)(counts)


def _utc(moment: Moment | None) -> datetime | None:
    """As the database wants it."""
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment.at, UTC)
    except (ValueError, OverflowError, OSError):
        raise click.UsageError(f"{moment.typed} is out of range") from None


def counts_as_text(counts: Sequence[Count]) -> None:
    """A table."""
    click.echo(f"{'channel':<12} {'status':<10} {'rows':>10}")
    for channel, status, rows in counts:
        click.echo(f"{channel or '(none)':<12} {status:<10} {rows:>10}")


def counts_as_json(counts: Sequence[Count]) -> None:
    """A list of objects."""
    click.echo(json.dumps([count._asdict() for count in counts], indent=2))


def rows_as_text(rows: Sequence[Ended]) -> None:
    """A line for each; the last column may be long."""
    width = max((len(row.notification_id) for row in rows), default=2)
    click.echo(f"{'written':<24} {'channel':<10} {'status':<9} {'id':<{width}} {'calls':>5} {'http':>4}  error")
    for row in rows:
        cells = (
            f"{_time(row.recorded_at):<24}",
            f"{row.channel or '(none)':<10}",
            f"{row.status:<9}",
            f"{row.notification_id:<{width}}",
            f"{row.attempts:>5}",
            f"{row.http_status or '':>4}",
            f" {row.last_error or ''}",
        )
        click.echo(plain(" ".join(cells).rstrip()))


def rows_as_json(rows: Sequence[Ended]) -> None:
    """A list of objects with all columns."""
    click.echo(json.dumps([_fields(row) for row in rows], indent=2, ensure_ascii=False))


def _fields(row: Ended) -> dict[str, Any]:
    return {name: _time(value) if isinstance(value, datetime) else value for name, value in asdict(row).items()}


def _time(moment: datetime) -> str:
    """In UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
