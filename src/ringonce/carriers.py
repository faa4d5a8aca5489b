"""What each protocol needs to be put to work: its settings, what builds its calls, and what carries them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ringonce.channels.email import Mails, ServerAddress, trusted
from ringonce.channels.http import HttpCarrier
from ringonce.channels.http_httpx import HttpxHttp
from ringonce.channels.http_pyreqwest import PyreqwestHttp
from ringonce.channels.ntfy import Ntfy
from ringonce.channels.port import BadTarget
from ringonce.channels.relay import BodyFormat, Relay, host_port
from ringonce.channels.smtp import SmtpCarrier
from ringonce.channels.templates import Templates
from ringonce.errors import ConfigurationError
from ringonce.settings import (
    ChannelSettings,
    DeliverySettings,
    EmailSettings,
    HttpSettings,
    NtfySettings,
    channel_prefix,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ringonce.channels.port import Addresses, Carrier, HttpPort
    from ringonce.channels.registry import ChannelRow


class Kit(NamedTuple):
    """One protocol: the class of its settings, and how builder and carrier are made from them.

    Both raise `ConfigurationError` with everything that is wrong with the settings. `places` are the hosts and ports
    that may be called, once nothing is wrong.
    """

    settings: type[DeliverySettings]
    build: Callable[[ChannelRow, Any], Addresses]
    carry: Callable[[ChannelRow, Any, Callable[[], float]], Carrier]
    places: Callable[[Any], list[tuple[str, int]]]


def make_relay(row: ChannelRow, channel: ChannelSettings) -> Relay:
    """What builds the calls of a relay channel.

    Raises:
        ConfigurationError: the target is no URL, or an allowed host no host:port.
    """
    secret = channel.secret.get_secret_value().encode()
    try:
        return Relay(row, channel.target, secret, BodyFormat(channel.body), channel.allow_hosts)
    except BadTarget as error:
        raise ConfigurationError([f"{channel_prefix(row.name)}TARGET or ALLOW_HOSTS: {error}"]) from None


def _carry_relay(row: ChannelRow, channel: ChannelSettings, now: Callable[[], float]) -> Carrier:
    return HttpCarrier(make_relay(row, channel), make_http(channel), row.protocol, now)


def make_ntfy(row: ChannelRow, channel: NtfySettings) -> Ntfy:
    """What builds the calls of an ntfy channel.

    Raises:
        ConfigurationError: the target is no URL, or the token cannot stand in a header.
    """
    try:
        return Ntfy(row, channel.target, channel.token.get_secret_value(), channel.topic)
    except BadTarget as error:
        raise ConfigurationError([f"{channel_prefix(row.name)}TARGET: {error}"]) from None
    except ValueError as error:
        raise ConfigurationError([f"{channel_prefix(row.name)}TOKEN: {error}"]) from None


def _carry_ntfy(row: ChannelRow, channel: NtfySettings, now: Callable[[], float]) -> Carrier:
    return HttpCarrier(make_ntfy(row, channel), make_http(channel), row.protocol, now)


def make_mails(row: ChannelRow, channel: EmailSettings) -> Mails:
    """What makes the mails of an email channel.

    Raises:
        ConfigurationError: addresses, templates or the List-Unsubscribe are not what they should be.
    """
    faults: list[str] = []
    prefix = channel_prefix(row.name)
    templates = Templates(channel.templates, channel.template)
    faults += [f"{prefix}TEMPLATE: {fault}" for fault in templates.faults]
    mails = Mails(row, channel.from_address, templates, channel.unsubscribe)
    faults += [f"{prefix}{setting}: {fault}" for setting, fault in mails.faults]
    try:
        ServerAddress.parse(channel.target)
    except BadTarget as error:
        faults.append(f"{prefix}TARGET: {error}")
    try:
        trusted(channel.ca_file)
    except OSError as error:
        faults.append(f"{prefix}CA_FILE: {error.strerror or 'it holds no certificate'}")
    if bool(channel.username) is not bool(channel.password.get_secret_value()):
        faults.append(f"{prefix}USERNAME and PASSWORD go together")
    if faults:
        raise ConfigurationError(faults)
    return mails


def _carry_mails(row: ChannelRow, channel: EmailSettings, now: Callable[[], float]) -> Carrier:
    return SmtpCarrier(
        make_mails(row, channel),
        ServerAddress.parse(channel.target),
        trusted(channel.ca_file),
        channel.username,
        channel.password.get_secret_value(),
        now,
        encrypted=channel.starttls == "required",
    )


def _relay_places(channel: ChannelSettings) -> list[tuple[str, int]]:
    return [_place(channel.target), *(_place(f"http://{host}") for host in channel.allow_hosts)]


def _ntfy_places(channel: NtfySettings) -> list[tuple[str, int]]:
    return [_place(channel.target)]


def _mail_places(channel: EmailSettings) -> list[tuple[str, int]]:
    host, port, _ = ServerAddress.parse(channel.target)
    return [(host, port)]


def _place(url: str) -> tuple[str, int]:
    host, _, port = host_port(url).rpartition(":")
    return host.strip("[]"), int(port)


def make_http(channel: HttpSettings) -> HttpPort:
    """The HTTP client that was chosen."""
    return PyreqwestHttp() if channel.http_client == "pyreqwest" else HttpxHttp()


KITS: Final[Mapping[str, Kit]] = {
    "relay": Kit(ChannelSettings, make_relay, _carry_relay, _relay_places),
    "ntfy": Kit(NtfySettings, make_ntfy, _carry_ntfy, _ntfy_places),
    "smtp": Kit(EmailSettings, make_mails, _carry_mails, _mail_places),
}
"""By the protocol's name."""


def kit_of(row: ChannelRow) -> Kit:
    """What the channel's protocol needs."""
    return KITS[row.protocol.name]
