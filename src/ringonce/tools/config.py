"""`ringonce config`."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from ringonce import configured
from ringonce.carriers import kit_of
from ringonce.errors import ConfigurationError
from ringonce.settings import (
    Loader,
    RoleSettings,
    RouterSettings,
    SemanticsSettings,
    SenderSettings,
    StoreSettings,
    channel_prefix,
    load,
)
from ringonce.tools.guarantees import lines as lines_of
from ringonce.tools.inforce import InForce, in_force
from ringonce.tools.roles import chosen_delays, router_command, sender_command

if TYPE_CHECKING:
    from collections.abc import Mapping


KINDS: Final[Mapping[str, type[RoleSettings]]] = {
    "router": RouterSettings,
    "sender": SenderSettings,
    "dlq": StoreSettings,
    "router-dlq": StoreSettings,
}


@click.command("config", context_settings={"ignore_unknown_options": True})
@click.option("--role", required=True, type=click.Choice([*KINDS]), help="Whose.")
@click.option("--channel", help="The channel of a sender, or of a dlq.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[FLAGS OF THE ROLE]...")
def config(role: str, channel: str | None, flags: tuple[str, ...]) -> None:
    """Show which settings are in force, and where each comes from.

    Secrets are masked. Give it the flags that the role gets. Exit 3 when the role would not start with them.

    Example: ringonce config --role sender --channel firebase --max-attempts 2
    """
    if (channel is None) is (role in {"sender", "dlq"}):
        raise click.UsageError(f"--role {role} {'needs' if channel is None else 'has no'} --channel")
    if channel is None:
        given = router_command.make_context("router", list(flags)).params
    else:
        configured.channel_row(channel)
        given = sender_command.make_context("sender", ["--channel", channel, *flags]).params
    kind = KINDS[role]
    common = {name: given.get(name) for name in kind.model_fields} | {"channel_names": given.get("channels")}
    lines = in_force(kind, common)
    of_channel: dict[str, Any] = {}
    faults: list[str] = []
    if role == "sender" and channel is not None:
        kind_of = kit_of(configured.channel_row(channel)).settings
        of_channel = {name: given.get(name) for name in kind_of.model_fields}
        of_channel["delays"], faults = chosen_delays(given["delays"], given["delay_30s"], given["delay_5m"])
        lines += _completed(in_force(kind_of, of_channel, channel_prefix(channel)), channel, of_channel)
    width = max(len(line.variable) for line in lines)
    for line in lines:
        click.echo(f"{line.variable:<{width}}  {line.value}  [{line.source.value}]")
    if role == "sender" and channel is not None:
        _tell_the_guarantee(channel, of_channel)
    # As the role itself does it, so that what is said here is what it would say.
    if role == "sender" and channel is not None:
        configured.sender_settings(channel, common, of_channel, faults)
    else:
        load(kind, **common)


def _tell_the_guarantee(channel: str, flags: Mapping[str, Any]) -> None:
    """What the channel promises, as far as it can be told."""
    loaded = Loader().load(SemanticsSettings, flags, channel_prefix(channel))
    if loaded is None:
        return
    with contextlib.suppress(ConfigurationError):  # the role's own check says it
        semantics = configured.semantics_of(configured.channel_row(channel), loaded)
        click.echo("\n".join(["", *lines_of(channel, semantics)]))


def _completed(lines: list[InForce], channel: str, flags: Mapping[str, Any]) -> list[InForce]:
    """The lines with what follows from the channel's row: stages, semantics, calls; as far as they can be loaded."""
    row = configured.channel_row(channel)
    loaded = Loader().load(kit_of(row).settings, flags, channel_prefix(channel))
    if loaded is None:
        return lines
    found: dict[str, str] = {}
    with contextlib.suppress(ConfigurationError):  # the role's own check says it
        stages = configured.with_settings(row, loaded).ladder.retries
        found["DELAYS"] = ", ".join(f"{stage.name}={stage.delay:g}" for stage in stages)
    with contextlib.suppress(ConfigurationError):
        semantics = configured.semantics_of(row, loaded)
        found["SEMANTICS"] = str(semantics)
        found["MAX_ATTEMPTS"] = str(configured.calls_of(semantics, loaded))
    return [replace(line, value=found.get(line.variable.rpartition("__")[2]) or line.value) for line in lines]
