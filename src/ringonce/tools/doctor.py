"""`ringonce doctor`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from ringonce.channels.registry import CHANNELS
from ringonce.configured import channel_row
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.settings import DatabaseSettings, Loader, RouterSettings, channel_prefix
from ringonce.tools import examination
from ringonce.tools.examination import Finding, Verdict
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from collections.abc import Iterator

STYLES: Final = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.REFUSED: "red", Verdict.AWAY: "red"}


@click.command()
@kafka
@prefix
@click.option("--database-url", help="PostgreSQL as a libpq URL [env: DATABASE_URL].")
@click.option("--channels", help="The configured channels, separated by commas; all without.")
@click.option("--clock", is_flag=True, help="Compare clocks too: makes a topic, produces into it, deletes it.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(
    *,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
    database_url: str | None,
    channels: str | None,
    clock: bool,
    as_json: bool,
) -> None:
    """Look at servers, topics, schema and providers; say what to do.

    Changes nothing without --clock. Looks at the channels that have settings in the environment. Exit 0 when the
    roles can start, 3 when something would be refused, 4 when Kafka or PostgreSQL is away.

    Example: ringonce doctor --json
    """
    findings = []
    for finding in _examine(kafka_bootstrap, topic_prefix, database_url, channels, clock=clock):
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        click.echo(json.dumps([{**asdict(each), "verdict": each.verdict.value} for each in findings], indent=2))
    verdicts = {finding.verdict for finding in findings}
    if Verdict.AWAY in verdicts:
        click.get_current_context().exit(ServerUnreachable.exit_code)
    if Verdict.REFUSED in verdicts:
        click.get_current_context().exit(ConfigurationError.exit_code)


def _examine(
    bootstrap: str | None, topic_prefix: str | None, url: str | None, channels: str | None, *, clock: bool
) -> Iterator[Finding]:
    """Everything that can be looked at with the settings that are there."""
    flags = {"kafka_bootstrap": bootstrap, "topic_prefix": topic_prefix, "channel_names": channels}
    loader = Loader()
    roles = loader.load(RouterSettings, flags)
    store = loader.load(DatabaseSettings, {"database_url": url})
    for fault in loader.faults:
        yield Finding("settings", Verdict.REFUSED, fault, "docs/configuration.md has every setting")
    if roles is not None:
        names = roles.channel_names or tuple(CHANNELS)
        yield from examination.kafka(roles, [channel_row(name) for name in names], clock=clock)
    else:
        names = tuple(CHANNELS)
    if store is not None:
        yield from examination.database(store.database_url.get_secret_value())
    configured = [name for name in names if _has_settings(name)]
    if not configured:
        advice = f"senders need {channel_prefix('<channel>')}TARGET and SECRET, on the machines where they run"
        yield Finding("channels", Verdict.WARNING, "none has settings here", advice)
    for name in configured:
        yield from examination.channel(channel_row(name))


def _has_settings(channel: str) -> bool:
    """Whether anything is said about a channel; what its senders need may be set elsewhere."""
    return any(name.upper().startswith(channel_prefix(channel)) for name in os.environ)


def _show(finding: Finding) -> None:
    color = False if os.environ.get("NO_COLOR") else None
    verdict = click.style(f"{finding.verdict.value:<8}", fg=STYLES[finding.verdict])
    click.echo(f"{verdict} {finding.subject}: {finding.text}", color=color)
    if finding.advice:
        click.echo(f"{'':<8} → {finding.advice}", color=color)
