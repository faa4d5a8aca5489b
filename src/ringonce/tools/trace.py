"""`ringonce trace`: one notification through everything."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from ringonce.channels.registry import CATALOGUE
from ringonce.domain.stages import DLQ
from ringonce.errors import RingonceError
from ringonce.kafka.search import search
from ringonce.kafka.settings import ConsumerSettings
from ringonce.kafka.topics import TopicAdmin, TopicNames
from ringonce.runtime.timeline import ENTRY, Entry, Sought, Step, Topic, root_of, timeline
from ringonce.settings import DatabaseSettings, Loader, RoleSettings
from ringonce.store.archive import Archive, Filter
from ringonce.tools.letters import plain
from ringonce.tools.roles import database
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.kafka.port import Record

NOT_LOOKED: Final = "Kafka was not asked"
NOTHING_IN_KAFKA: Final = "no topic holds a copy of it, or none any more"
NO_ROW: Final = "the database has no row about it: it has not come to its end, or the row was pruned"
NO_ATTEMPT: Final = "no attempt was kept; RINGONCE_ATTEMPTS=failures keeps none of a success at once"


class Untraced(RingonceError):  # noqa: N818 - what happened
    """Nobody knows anything of the id."""

    exit_code = 1


@click.command()
@click.argument("ident", metavar="ID")
@click.option("--no-kafka", is_flag=True, help="Ask the database only: whole topics are read otherwise.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@kafka
@prefix
@database
def trace(
    *,
    ident: str,
    no_kafka: bool,
    as_json: bool,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
    database_url: str | None,
) -> None:
    """Follow one notification through topics, attempts and rows.

    Its copies in all topics, its calls as far as RINGONCE_ATTEMPTS keeps them, its rows, and all that of its replays,
    in the order of time. ID is a notification's or a replay's. Exit 1 when nobody knows it.

    Example: ringonce trace order-4711
    """
    loader = Loader()
    stored = loader.load(DatabaseSettings, {"database_url": database_url})
    flags = {"kafka_bootstrap": kafka_bootstrap, "topic_prefix": topic_prefix}
    site = None if no_kafka else loader.load(RoleSettings, flags)
    loader.check()
    assert stored is not None  # noqa: S101 - check() has raised otherwise
    root = root_of(ident)
    if not root or not root.isascii() or not root.isprintable():
        raise Untraced(f"{names_safely(ident)} is not an id: those are visible ASCII characters")
    with Archive(stored.database_url.get_secret_value()) as archive:
        rows, attempts = archive.rows(Filter(root=root)), archive.attempts(root)
    topics = {} if site is None else site_topics(site)
    copies = [] if site is None else find(site, root, topics)
    entries = timeline(copies, attempts, rows, topics)
    if not entries:
        where = "the database has nothing" if site is None else "no topic and no row has anything"
        raise Untraced(f"nobody knows {ident!r}: {where} about it")
    notes = [
        note
        for note, holds in (
            (NOT_LOOKED, site is None),
            (NOTHING_IN_KAFKA, site is not None and not copies),
            (NO_ROW, not rows),
            (NO_ATTEMPT, not attempts),
        )
        if holds
    ]
    show = show_json if as_json else show_text
    show(root, entries, notes)


def names_safely(text: str) -> str:
    """Text from the command line that a terminal and a log can bear."""
    return ascii(text)


def site_topics(site: RoleSettings) -> dict[str, Topic]:
    """Every topic of the fleet that exists, in the order in which a record passes them."""
    names = TopicNames(site.topic_prefix)
    known = {names.entry: Topic(ENTRY), names.entry_dlq: Topic(DLQ)}
    for row in CATALOGUE.values():
        for stage in (*(stage.name for stage in row.ladder.consumed()), DLQ):
            known[names.stage(row.name, stage)] = Topic(stage, row.channel)
    there = TopicAdmin(site.kafka_bootstrap).existing(known)
    return {name: topic for name, topic in known.items() if name in there}


def find(site: RoleSettings, root: str, topics: Mapping[str, Topic]) -> list[Record]:
    """Its copies and those of its replays."""
    membership = ConsumerSettings(site.kafka_bootstrap, f"{site.topic_prefix}trace", "ringonce-trace")
    return list(search(membership, topics, Sought(root, topics)))


def show_text(root: str, entries: list[Entry], notes: list[str]) -> None:
    """For a person."""
    click.echo(root)
    for entry in entries:
        click.echo(f"{_time(entry.at)}  {entry.step:<9}  {plain(line(root, entry))}")
    for note in notes:
        click.echo(f"({note})")


def line(root: str, entry: Entry) -> str:
    """What happened, without its time."""
    whose = "" if entry.id == root else f" as {entry.id}"
    code = "" if entry.http_status is None else f" {entry.http_status}"
    place, by = f" {entry.place}" if entry.place else "", f" by {entry.node}" if entry.node else ""
    reached = ", may have reached the provider" if entry.maybe_reached else ""
    error = f": {entry.error}" if entry.error else ""
    attempts = "" if entry.attempts is None else f", {entry.attempts} attempt{'' if entry.attempts == 1 else 's'}"
    match entry.step:
        case Step.ENTERED | Step.ROUTED | Step.REPLAYED:
            text = f"{place}{whose}{by}"
        case Step.TRIED:
            text = f"{entry.outcome}{code} after {(entry.duration or 0.0) * 1000:.0f} ms{whose}{by}, from{place}"
        case Step.FORWARDED | Step.BURIED:
            text = f"{place}{whose} ({entry.reason or 'no reason given'}{attempts}{reached}){error}"
        case Step.RECORDED:
            where = f" in {entry.channel}" if entry.channel else ""
            text = f"{entry.status}{where}{whose}{by}{attempts}{reached}{error}"
    return text.strip()


def show_json(root: str, entries: list[Entry], notes: list[str]) -> None:
    """For machines: times in ISO 8601, what does not apply left out."""
    told = {"id": root, "timeline": [_fields(entry) for entry in entries], "notes": notes}
    click.echo(json.dumps(told, indent=2, ensure_ascii=False))


def _fields(entry: Entry) -> dict[str, Any]:
    found = {name: value for name, value in asdict(entry).items() if value is not None and value is not False}
    return found | {"at": _time(entry.at)}


def _time(seconds: float) -> str:
    """In UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
