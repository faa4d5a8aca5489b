"""The ntfy protocol: a POST of the text to ``<server>/<topic>``, everything else in headers.

Source: https://docs.ntfy.sh/publish/. The topic is the notification's target. Tags and click come from `payload_json`,
an object: ``{"tags": ["warning"], "click": "https://example.org/orders/7"}``; anything else in it is not ours.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from ringonce.channels.http import Request
from ringonce.channels.port import BadTarget, Unsendable
from ringonce.channels.relay import host_port
from ringonce.domain.notification import Priority

if TYPE_CHECKING:
    from ringonce.channels.registry import ChannelRow
    from ringonce.domain.notification import Notification

_TOPIC: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_PLAIN: Final = re.compile(r"[ -~]*\Z")
_TOKEN: Final = re.compile(r"[!-~]{0,256}\Z")
_TAG: Final = re.compile(r"[^\x00-\x20,\x7f]{1,64}\Z")
_CLICK: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}:[!-~]{1,2000}\Z")
_BREAKS: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")

PRIORITIES: Final = {Priority.NORMAL: "default", Priority.HIGH: "high"}
LONGEST_TITLE: Final = 250
"""Characters; a longer title is cut."""

MOST_TAGS: Final = 16


class Ntfy:
    """Builds the calls of one channel. Implements `http.Builder`.

    Args:
        row: the channel.
        target: the server's URL, with or without a path.
        token: access token; empty for none.
        topic: where notifications without a target go; empty for nowhere.

    Raises:
        BadTarget: `target` is no URL.
        ValueError: the token cannot stand in a header.
    """

    def __init__(self, row: ChannelRow, target: str, token: str = "", topic: str = "") -> None:
        host_port(target)
        if "?" in target or "#" in target:
            raise BadTarget("the server's URL must end with its path")
        if _TOKEN.match(token) is None:
            raise ValueError("the token is no visible ASCII text")
        self._name = row.name
        self._server = target.rstrip("/")
        self._topic = topic
        self._fixed = {"content-type": "text/plain; charset=utf-8"}
        if token:
            self._fixed["authorization"] = f"Bearer {token}"

    def destination(self, notification: Notification) -> str:
        """The one server; see `Carrier.destination`."""
        topic = notification.target or self._topic
        if not topic:
            raise BadTarget("the notification names no topic")
        if _TOPIC.match(topic) is None:
            raise BadTarget("the target is no topic: 1 to 64 letters, digits, - and _")
        return self._name

    def request(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Request:  # noqa: ARG002 - the port's signature; ntfy knows neither
        """The call for a notification whose destination was found good.

        Raises:
            Unsendable: tags or click are there and are none.
        """
        headers = dict(self._fixed)
        title = one_line(notification.title)[:LONGEST_TITLE]
        if title:
            headers["title"] = header_text(title)
        if notification.priority in PRIORITIES:
            headers["priority"] = PRIORITIES[Priority(notification.priority)]
        extras = _extras(notification.payload_json)
        if tags := _tags(extras.get("tags")):
            headers["tags"] = header_text(",".join(tags))
        if click := extras.get("click"):
            if not isinstance(click, str) or _CLICK.match(click) is None:
                raise Unsendable("the payload's click is no URL")
            headers["click"] = click
        return Request(f"{self._server}/{notification.target or self._topic}", headers, notification.body.encode())


def one_line(text: str) -> str:
    """The text with a blank in place of whatever could end a header's line."""
    return _BREAKS.sub(" ", text).strip()


def header_text(text: str) -> str:
    """The text as it may stand in a header: as it is, or encoded (RFC 2047) where it is not plain ASCII."""
    if _PLAIN.match(text) is not None and not text.startswith("=?"):
        return text
    return f"=?UTF-8?B?{b64encode(text.encode()).decode()}?="


def _extras(payload: str) -> dict[str, Any]:
    """What `payload_json` says, where it is an object."""
    try:
        found = json.loads(payload) if payload else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _tags(found: object) -> list[str]:
    if found is None:
        return []
    tags = found.split(",") if isinstance(found, str) else found
    if not isinstance(tags, list) or len(tags) > MOST_TAGS:
        raise Unsendable(f"the payload's tags are no list of at most {MOST_TAGS}")
    clean = [tag.strip() if isinstance(tag, str) else "" for tag in tags]
    if any(_TAG.match(tag) is None for tag in clean):
        raise Unsendable("one of the payload's tags is no tag")
    return clean
