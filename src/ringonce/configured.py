"""What the settings come to: a channel with its delays, its promise, its topics, its place in a group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ringonce.carriers import kit_of
from ringonce.channels.registry import CATALOGUE, ChannelRow
from ringonce.domain.semantics import (
    BadSemantics,
    OnExhausted,
    OnRefused,
    Semantics,
    calls_per_stage,
    declared,
)
from ringonce.errors import ConfigurationError
from ringonce.kafka.settings import ConsumerSettings
from ringonce.kafka.topics import TopicNames, TopicSpec, specs
from ringonce.settings import (
    DeliverySettings,
    Loader,
    RoleSettings,
    SemanticsSettings,
    SenderSettings,
    channel_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


def channel_row(name: str, rows: Mapping[str, ChannelRow] = CATALOGUE) -> ChannelRow:
    """The channel's row.

    Raises:
        ConfigurationError: there is no such channel.
    """
    try:
        return rows[name]
    except KeyError:
        raise ConfigurationError([f"there is no channel {name!r}; there are {', '.join(sorted(rows))}"]) from None


def with_settings(row: ChannelRow, channel: DeliverySettings) -> ChannelRow:
    """The channel's row with the delays that were set.

    Raises:
        ConfigurationError: a stage that does not exist, or delays that do not rise.
    """
    try:
        return replace(row, ladder=row.ladder.with_delays(channel.delays))
    except KeyError as error:
        raise ConfigurationError([f"{row.name} has no retry stage {error.args[0]}"]) from None
    except ValueError as error:
        raise ConfigurationError([str(error)]) from None


def semantics_of(row: ChannelRow, channel: SemanticsSettings) -> Semantics:
    """What the channel promises: as declared, or its protocol's own.

    Raises:
        ConfigurationError: it cannot be read, or not be kept over the channel's protocol.
    """
    refused, exhausted = OnRefused(channel.on_refused), OnExhausted(channel.on_exhausted)
    try:
        return declared(row.protocol.name, channel.semantics, refused, exhausted)
    except BadSemantics as error:
        raise ConfigurationError([f"{channel_prefix(row.name)}SEMANTICS: {error}"]) from None


def calls_of(semantics: Semantics, channel: DeliverySettings) -> int:
    """Provider calls within one stage: as set, or the semantics' own."""
    return calls_per_stage(semantics, channel.max_attempts if "max_attempts" in channel.model_fields_set else None)


def sender_settings(
    channel: str, flags: Mapping[str, Any], channel_flags: Mapping[str, Any], faults: Sequence[str] = ()
) -> tuple[SenderSettings, DeliverySettings]:
    """Both parts of a sender's settings; `faults` have been found before.

    Raises:
        ConfigurationError: everything that is missing or wrong in either.
    """
    loader = Loader()
    loader.faults += faults
    settings = loader.load(SenderSettings, flags)
    row = channel_row(channel)
    kit = kit_of(row)
    of_channel = loader.load(kit.settings, channel_flags, channel_prefix(channel))
    # Without the rest too: whoever has to set a target shall not have to come back for the semantics.
    alone = Loader().load(SemanticsSettings, channel_flags, channel_prefix(channel))
    checks: list[Callable[[], object]] = [] if alone is None else [lambda: semantics_of(row, alone)]
    if of_channel is not None:
        checks += [lambda: with_settings(row, of_channel), lambda: kit.build(row, of_channel)]
    for check in checks:
        try:
            check()
        except ConfigurationError as error:
            loader.faults += error.faults
    loader.check()
    assert settings is not None and of_channel is not None  # noqa: S101, PT018 - check() has raised otherwise
    return settings, of_channel


def membership_of(settings: RoleSettings, group: str) -> ConsumerSettings:
    """A membership of the group, which is given the topics' prefix."""
    return ConsumerSettings(
        settings.kafka_bootstrap,
        f"{settings.topic_prefix}{group}",
        settings.node_id,
        settings.session_timeout,
        settings.max_poll_interval,
    )


def channel_specs(names: TopicNames, row: ChannelRow | None) -> list[TopicSpec]:
    """The topics of one channel and of the router, or of the router alone."""
    return specs(names, {} if row is None else {row.name: row.ladder})


def topic_specs(settings: RoleSettings, rows: Collection[ChannelRow]) -> list[TopicSpec]:
    """Every topic of the fleet."""
    return specs(TopicNames(settings.topic_prefix), {row.name: row.ladder for row in rows})
