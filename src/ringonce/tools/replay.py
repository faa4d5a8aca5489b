"""`ringonce replay`."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ringonce.configured import channel_row
from ringonce.domain.identity import MAX_REPLAYS
from ringonce.domain.stages import MAIN
from ringonce.errors import ConfigurationError, RingonceError
from ringonce.replaying import preview_replay, run_replay
from ringonce.runtime.lifecycle import run_sync
from ringonce.runtime.order import Order
from ringonce.runtime.selection import MAX_REPLAYS as USUAL_REPLAYS
from ringonce.runtime.selection import Rules, Selection, Verdict
from ringonce.settings import StoreSettings, load
from ringonce.tools.dlq import channel_option
from ringonce.tools.letters import counts
from ringonce.tools.meter import meter
from ringonce.tools.moment import Moment, MomentType
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from collections import Counter

    from ringonce.channels.registry import ChannelRow

NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,100}\Z")

WORDS: Final = {
    Verdict.UNFIT: "not deliverable as they are",
    Verdict.SUPERSEDED: "superseded by a later replay or copy",
    Verdict.DELIVERED: "delivered meanwhile",
    Verdict.GUARD: "at the guard (--max-replays)",
    Verdict.EXPIRED: "expired",
    Verdict.MAYBE_REACHED: "may have reached the provider (--include-maybe-reached)",
    Verdict.UNPUBLISHABLE: "too large for the topic",
}
"""What is said of letters that are skipped."""


class ReplayInterrupted(RingonceError):  # noqa: N818 - what happened
    """Somebody stopped it before its end; nothing is lost."""

    exit_code = 5


@click.command()
@channel_option
@click.option("--router", "of_router", is_flag=True, help="The router's DLQ; needs --fix-channel.")
@click.option("--fix-channel", metavar="CHANNEL", help="The channel to put into the router's letters without one.")
@click.option("--since", type=MomentType(), help="Only what died since then: 2h (ago), or 2026-11-30T12:00 (UTC).")
@click.option("--until", type=MomentType(), help="Only what died before then.")
@click.option("--error-class", "error_classes", multiple=True, help="Only with this error class, such as Refused.")
@click.option("--reason", "reasons", multiple=True, help="Only with this reason, such as exhausted.")
@click.option("--status", "statuses", multiple=True, type=click.IntRange(100, 999), help="Only with this HTTP status.")
@click.option("--event-key", "event_keys", multiple=True, help="Only about this.")
@click.option("--user", "users", multiple=True, help="Only this user's.")
@click.option(
    "--ids-file", type=click.Path(path_type=Path), help="Only these: ids of originals or replays, one a line."
)
@click.option(
    "--include-maybe-reached", is_flag=True, help="Also what an attempt may have delivered, with the same key."
)
@click.option(
    "--max-replays",
    default=USUAL_REPLAYS,
    show_default=True,
    type=click.IntRange(1, MAX_REPLAYS),
    help="Leave alone what was replayed as often.",
)
@click.option("--fresh-key", is_flag=True, help="A new Idempotency-Key, for receivers that keep failures. Asks first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--to", default=MAIN, show_default=True, metavar="STAGE", help="The stage to send to.")
@click.option("--limit", type=click.IntRange(1), help="Send so many at most.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Send so many a second at most.")
@click.option("--name", help="Keep its progress under this name: a killed one goes on with the same command.")
@click.option("--dry-run", is_flag=True, help="Show what would go, and send nothing.")
@click.option("--database-url", help="PostgreSQL as a libpq URL [env: DATABASE_URL].")
@kafka
@prefix
def replay(  # noqa: PLR0913 - one parameter per option
    *,
    channel: str | None,
    of_router: bool,
    fix_channel: str | None,
    since: Moment | None,
    until: Moment | None,
    error_classes: tuple[str, ...],
    reasons: tuple[str, ...],
    statuses: tuple[int, ...],
    event_keys: tuple[str, ...],
    users: tuple[str, ...],
    ids_file: Path | None,
    include_maybe_reached: bool,
    max_replays: int,
    fresh_key: bool,
    yes: bool,
    to: str,
    limit: int | None,
    rate: float | None,
    name: str | None,
    dry_run: bool,
    database_url: str | None,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Send dead letters again, each once, as they are.

    Without a choice: what the last replay has not seen. With one (any option from --since to --max-replays, or
    --name) the whole DLQ is looked through. Values are unchanged; a replay has an identity of its own and its
    original's Idempotency-Key. Ctrl-C stops it in order, exit 5.

    Example: ringonce replay --channel firebase --since 2h --reason exhausted --dry-run
    """
    row, fix = _target(channel, fix_channel, of_router=of_router)
    if name is not None and not NAME.match(name):
        raise ConfigurationError([f"--name {name!r} is not 1 to 100 letters, digits, dots, dashes, underscores"])
    selection = Selection(
        since=None if since is None else since.at,
        until=None if until is None else until.at,
        error_classes=frozenset(text.lower() for text in error_classes),
        reasons=frozenset(text.lower() for text in reasons),
        statuses=frozenset(statuses),
        event_keys=frozenset(event_keys),
        users=frozenset(users),
        ids=frozenset() if ids_file is None else _ids(ids_file),
    )
    rules = Rules(max_replays, include_maybe_reached, fresh_key, None if fix is None else fix.channel)
    typed = {key: moment.typed for key, moment in (("since", since), ("until", until)) if moment is not None}
    order = Order(selection, rules, to, limit, rate, name or "", typed)
    settings = load(
        StoreSettings, database_url=database_url, kafka_bootstrap=kafka_bootstrap, topic_prefix=topic_prefix
    )
    if dry_run:
        _preview(settings, row, order)
        return
    if fresh_key and not yes:
        click.confirm(
            "A new Idempotency-Key: whoever has acted on the old one acts again. Go on?", abort=True, err=True
        )
    _replay(settings, row, order)


def _target(channel: str | None, fix_channel: str | None, *, of_router: bool) -> tuple[ChannelRow, ChannelRow | None]:
    """The channel that is published to, and the same again where it is put into the router's letters."""
    if (channel is None) is not of_router:
        raise ConfigurationError(["say whose DLQ: either --channel, or --router with --fix-channel"])
    if channel is not None:
        if fix_channel is not None:
            raise ConfigurationError(["--fix-channel is for --router: a channel's own dead letters have theirs"])
        return channel_row(channel), None
    if fix_channel is None:
        raise ConfigurationError(["--router needs --fix-channel: only what came without a channel can be repaired"])
    row = channel_row(fix_channel)
    return row, row


def _ids(path: Path) -> frozenset[str]:
    try:
        ids = frozenset(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError([f"--ids-file {path}: {reason}"]) from error
    if not ids:
        raise ConfigurationError([f"--ids-file {path}: there is no id in it"])
    return ids


def _replay(settings: StoreSettings, row: ChannelRow, order: Order) -> None:
    with meter(order.limit) as shown:
        done = run_sync(lambda stop: run_replay(settings, row, order, stop, shown))
    owner = "router" if order.rules.fix else row.name
    if done.finished and done.before:
        click.echo(f"{order.name!r} has finished already: {_summary(done.published, done.skipped, done.verdicts)}")
    elif done.finished and not done.published + done.skipped:
        click.echo(f"nothing to replay in the DLQ of {owner}{' since the last replay' if order.plain else ''}")
    elif done.finished:
        click.echo(_summary(done.published, done.skipped, done.verdicts))
    if not done.finished:
        raise ReplayInterrupted(
            f"interrupted after {done.seen} of {done.total}: "
            f"{_summary(done.published, done.skipped, done.verdicts)}; {_how_to_go_on(order)}"
        )


def _how_to_go_on(order: Order) -> str:
    if order.name or order.plain:
        return "the same command goes on from there"
    return "the same command begins again and skips what has been delivered"


def _preview(settings: StoreSettings, row: ChannelRow, order: Order) -> None:
    preview, before = run_sync(partial(preview_replay, settings, row, order))
    tally, verdicts = preview.tally, preview.verdicts
    if before.finished:
        click.echo(
            f"{order.name!r} has finished already: {_summary(before.published, before.skipped, before.verdicts)}"
        )
        return
    if not preview.whole:
        raise ReplayInterrupted("interrupted: nothing was sent")
    if tally.total:
        click.echo("\n".join(counts(tally)))
    skipped = sum(verdicts[verdict] for verdict in WORDS)
    click.echo(_summary(tally.total, skipped, verdicts, would=True))


def _summary(published: int, skipped: int, verdicts: Counter[Verdict], *, would: bool = False) -> str:
    """``replayed 28, skipped 2: 1 expired, 1 delivered meanwhile``."""
    parts = [f"{verdicts[verdict]} {words}" for verdict, words in WORDS.items() if verdicts[verdict]]
    begin = "would replay" if would else "replayed"
    return f"{begin} {published}, {'skip' if would else 'skipped'} {skipped}" + (
        f": {', '.join(parts)}" if parts else ""
    )
