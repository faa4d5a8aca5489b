"""`ringonce dlq …`."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Final

import click

from ringonce.configured import channel_row
from ringonce.errors import ConfigurationError, RingonceError
from ringonce.replaying import dead_letter_at, dead_letters
from ringonce.runtime.tally import Tally
from ringonce.settings import RoleSettings, load
from ringonce.tools.letters import counts, portrait
from ringonce.tools.topics import kafka, prefix

if TYPE_CHECKING:
    from ringonce.channels.registry import ChannelRow

ROUTER: Final = "router"
PLACE: Final = re.compile(r"([a-z]+):([0-9]{1,9}):([0-9]{1,18})\Z")

channel_option = click.option("--channel", help="Whose DLQ.")
router_option = click.option("--router", "of_router", is_flag=True, help="The router's DLQ.")


class NoSuchLetter(RingonceError):  # noqa: N818 - what is the case
    """The DLQ does not hold what was asked for."""

    exit_code = 1


@click.group()
def dlq() -> None:
    """Look at dead letters."""


def whose(channel: str | None, *, of_router: bool) -> ChannelRow | None:
    """The channel's row, or None for the router.

    Raises:
        ConfigurationError: neither or both were named, or there is no such channel.
    """
    if (channel is None) is not of_router:
        raise ConfigurationError(["say whose DLQ: either --channel or --router"])
    return None if channel is None else channel_row(channel)


@dlq.command()
@channel_option
@router_option
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@kafka
@prefix
def ls(
    *, channel: str | None, of_router: bool, as_json: bool, kafka_bootstrap: str | None, topic_prefix: str | None
) -> None:
    """Count dead letters by error, reason, status and age.

    Everything that lies in the DLQ, replayed or not. Reads Kafka only, and changes nothing.

    Example: ringonce dlq ls --channel firebase
    """
    row = whose(channel, of_router=of_router)
    settings = load(RoleSettings, kafka_bootstrap=kafka_bootstrap, topic_prefix=topic_prefix)
    tally = Tally(time.time())
    for letter in dead_letters(settings, row):
        tally.add(letter)
    owner = ROUTER if row is None else row.name
    if as_json:
        click.echo(json.dumps({"owner": owner, **tally.json()}, indent=2))
    elif not tally.total:
        click.echo(f"the DLQ of {owner} is empty")
    else:
        click.echo("\n".join(counts(tally)))
        beside = f"{tally.undecodable} undecodable, {tally.maybe_reached} may have reached the provider"
        click.echo(f"{tally.total} in the DLQ of {owner}: {beside}")


@dlq.command()
@click.argument("letter", metavar="ID|CHANNEL:PARTITION:OFFSET")
@channel_option
@router_option
@click.option("--reveal", is_flag=True, help="Show user, address, title, body and payload too.")
@kafka
@prefix
def show(
    *,
    letter: str,
    channel: str | None,
    of_router: bool,
    reveal: bool,
    kafka_bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Show a dead letter: its last error, its route, its content.

    By its id, or its original's, with --channel or --router: then every dead letter that it has is shown. Or by its
    place, such as apns:2:417 or router:0:3. Exit 1 when there is none.

    Example: ringonce dlq show order-4711 --channel firebase
    """
    place = None if channel or of_router else PLACE.match(letter)
    if place is None:
        row = whose(channel, of_router=of_router)
    else:
        row = None if place[1] == ROUTER else channel_row(place[1])
    settings = load(RoleSettings, kafka_bootstrap=kafka_bootstrap, topic_prefix=topic_prefix)
    if place is None:
        found = [each for each in dead_letters(settings, row) if letter in {each.id, each.root}]
    else:
        at = dead_letter_at(settings, row, int(place[2]), int(place[3]))
        found = [] if at is None else [at]
    if not found:
        raise NoSuchLetter(f"there is no dead letter {letter} in the DLQ of {ROUTER if row is None else row.name}")
    now = time.time()
    click.echo("\n\n".join("\n".join(portrait(each, now, reveal=reveal)) for each in found))
