"""The channel email: from a notification to one mail, built once and sent as it is for all its tries.

The target is the address, the title the subject; the texts come from templates. The Message-ID is derived from the
root's id, so that a mail that comes twice can be told from two mails.
"""

from __future__ import annotations

import hashlib
import json
import re
import ssl
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote, urlsplit

from ringonce.channels.ntfy import one_line
from ringonce.channels.port import BadTarget

if TYPE_CHECKING:
    from ringonce.channels.registry import ChannelRow
    from ringonce.channels.templates import Templates
    from ringonce.domain.notification import Notification

LONGEST_SUBJECT: Final = 250
PORTS: Final = {"smtp": 587, "smtps": 465}

_ADDRESS: Final = re.compile(
    r"(?=.{3,254}\Z)(?=[^@]{1,64}@)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\Z"
)
_UNSUBSCRIBE: Final = re.compile(r"(https://|mailto:)[!-;=?-~]{1,800}\Z")  # visible ASCII but < and >
_POLICY: Final = SMTP.clone(cte_type="7bit")


class ServerAddress(NamedTuple):
    """Where a mail server is. `tls`: whether it speaks TLS from the first byte."""

    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read ``smtp://host[:587]`` or ``smtps://host[:465]``.

        Raises:
            BadTarget: it is neither.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise BadTarget("it is no URL") from error
        if parts.scheme not in PORTS or not parts.hostname or parts.username is not None or parts.path.strip("/"):
            raise BadTarget("it is neither smtp://host:port nor smtps://host:port")
        return cls(parts.hostname, PORTS[parts.scheme] if port is None else port, parts.scheme == "smtps")


def trusted(ca_file: str) -> ssl.SSLContext:
    """Whose certificates are believed: those in a PEM file, or the system's.

    Raises:
        OSError: there is no such file, or no certificate in it.
    """
    return ssl.create_default_context(cafile=ca_file or None)


class Mail(NamedTuple):
    """One mail as it goes over the wire."""

    sender: str
    recipient: str
    content: bytes


class Mails:
    """Makes the mails of one channel.

    `faults` are (setting, what is wrong with it); with any it cannot be used.

    Args:
        row: the channel.
        from_address: whom mails come from, with or without a name.
        templates: what their texts are made from.
        unsubscribe: a URL, in which ``{id}`` and ``{user}`` are filled in; empty for none.
    """

    def __init__(self, row: ChannelRow, from_address: str, templates: Templates, unsubscribe: str = "") -> None:
        self.faults: list[tuple[str, str]] = []
        self._name = row.name
        self._templates = templates
        self._unsubscribe = unsubscribe
        name, address = parseaddr(from_address)
        if _ADDRESS.match(address) is None or one_line(from_address) != from_address:
            self.faults.append(("FROM_ADDRESS", "it is no mail address"))
            return
        self._from = Address(name, addr_spec=address)
        if unsubscribe and _UNSUBSCRIBE.match(_filled(unsubscribe, "id", "user")) is None:
            self.faults.append(("UNSUBSCRIBE", "it is neither a mailto: nor an https: URL"))

    def destination(self, notification: Notification) -> str:
        """The one server; see `Carrier.destination`."""
        if _ADDRESS.match(notification.target) is None:
            raise BadTarget("the target is no mail address")
        return self._name

    def mail(self, notification: Notification, key: str, now: float) -> Mail:
        """The mail for a notification whose destination was found good; `now` in seconds since the epoch.

        Raises:
            Unsendable: the template does not go with its payload.
        """
        unsubscribe = _filled(self._unsubscribe, notification.id, notification.user_id)
        title = one_line(notification.title)
        texts = self._templates.render(
            {
                "title": title,
                "body": notification.body,
                "payload": _payload(notification.payload_json),
                "unsubscribe": unsubscribe,
            }
        )
        message = EmailMessage(_POLICY)
        message["From"] = self._from
        message["To"] = Address(addr_spec=notification.target)
        message["Subject"] = title[:LONGEST_SUBJECT]
        created = None if notification.created_at is None else notification.created_at.epoch()
        message["Date"] = format_datetime(datetime.fromtimestamp(now if created is None else created, UTC))
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(_encodable(texts.plain))
        if texts.html is not None:
            message.add_alternative(_encodable(texts.html), subtype="html")
        return Mail(self._from.addr_spec, notification.target, self._own_lines(key, unsubscribe) + message.as_bytes())

    def _own_lines(self, key: str, unsubscribe: str) -> bytes:
        """Headers whose values must not be folded: what is in them has been looked at character by character."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        lines = [f"Message-ID: <{digest}@{self._from.domain}>"]
        if _UNSUBSCRIBE.match(unsubscribe) is not None:
            lines.append(f"List-Unsubscribe: <{unsubscribe}>")
            if unsubscribe.startswith("https://"):
                lines.append("List-Unsubscribe-Post: List-Unsubscribe=One-Click")
        return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def _filled(unsubscribe: str, ident: str, user: str) -> str:
    # Not str.format, which would give a setting a way into objects.
    for name, value in (("{id}", ident), ("{user}", user)):
        unsubscribe = unsubscribe.replace(name, quote(value, safe=""))
    return unsubscribe


def _payload(text: str) -> dict[str, Any]:
    """The object in `payload_json`; empty where there is none."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _encodable(text: str) -> str:
    """JSON can spell lone surrogates, which no encoding has."""
    return text.encode("utf-8", "replace").decode("utf-8")
