"""The channels, one row each: literal mappings, and the only place that a new channel is entered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ringonce.domain.classify import NTFY, RELAY, SMTP, Protocol
from ringonce.domain.notification import Channel
from ringonce.domain.stages import STANDARD, Ladder


class Destinations(Enum):
    """Where a channel's calls go, which is what a breaker and a share of the send slots stand for."""

    ONE = "one"
    PER_HOST = "per host"


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """What sets a channel apart from the others."""

    channel: Channel
    destinations: Destinations = Destinations.ONE
    protocol: Protocol = RELAY
    ladder: Ladder = STANDARD

    @property
    def name(self) -> str:
        """The channel's name in topics, commands and rows."""
        return self.channel.name.lower()


ROWS: Final = (
    ChannelRow(Channel.FIREBASE),
    ChannelRow(Channel.APNS),
    ChannelRow(Channel.WEBHOOK, destinations=Destinations.PER_HOST),
)

CHANNELS: Final = {row.name: row for row in ROWS}
"""What a fleet consists of where nobody names its channels."""

FURTHER: Final = (
    ChannelRow(Channel.EMAIL, protocol=SMTP),
    ChannelRow(Channel.NTFY, protocol=NTFY),
)
"""Channels that are there for the naming (RINGONCE_CHANNEL_NAMES): they need servers of their own."""

CATALOGUE: Final = {**CHANNELS, **{row.name: row for row in FURTHER}}
"""Every channel that the product knows."""
