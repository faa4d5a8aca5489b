"""The relay protocol: our signed POST, to one fixed endpoint or to the notification's own target.

The headers of a call: `Idempotency-Key` (the root's id), `X-Signature` (hex HMAC-SHA256 of the exact body bytes),
`X-Channel`, `X-Trace-Id` and `traceparent` where there are any.
"""

from __future__ import annotations

import hmac
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import orjson

from ringonce.channels.http import Request
from ringonce.channels.port import BadTarget
from ringonce.channels.registry import Destinations

if TYPE_CHECKING:
    from collections.abc import Collection

    from ringonce.channels.registry import ChannelRow
    from ringonce.domain.notification import Notification

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HEADER_SAFE = re.compile(r"[\x21-\x7e]{1,256}\Z")
_URL = re.compile(r"[\x21-\x7e]{1,2048}\Z")


class BodyFormat(StrEnum):
    """What is posted: the notification's canonical JSON, or the payload's own bytes."""

    JSON = "json"
    PROTOBUF = "protobuf"


_CONTENT_TYPES: Final = {BodyFormat.JSON: "application/json", BodyFormat.PROTOBUF: "application/protobuf"}


def host_port(url: str) -> str:
    """The ``host:port`` of an absolute http or https URL, lower-case.

    Raises:
        BadTarget: it is not one.
    """
    if _URL.match(url) is None:
        raise BadTarget("the target is not a URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadTarget("the target is not a URL") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.username is not None:
        raise BadTarget("the target is not an absolute http or https URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{DEFAULT_PORTS[parts.scheme] if port is None else port}"


def _named_host(text: str) -> str:
    """An entry of the allow-list. The port must be there: nobody should have to guess which one was meant."""
    found = host_port(f"http://{text}")
    if found != text.lower():
        raise BadTarget(f"{text!r} on the allow-list is not host:port")
    return found


class Relay:
    """Builds the calls of one channel.

    Args:
        row: the channel.
        target: where to post, or for a channel with a destination per host where to post without a target.
        secret: signs the body.
        body: what is posted.
        allowed: ``host:port`` of targets that may be called; `target`'s own is always among them.

    Raises:
        BadTarget: `target` is no URL, or one of `allowed` no ``host:port``.
    """

    def __init__(
        self, row: ChannelRow, target: str, secret: bytes, body: BodyFormat, allowed: Collection[str] = ()
    ) -> None:
        self._name = row.name
        self._per_host = row.destinations is Destinations.PER_HOST
        self._target = target
        self._target_host = host_port(target)
        self._allowed = {self._target_host, *map(_named_host, allowed)}
        self._signer = hmac.new(secret, digestmod="sha256")  # copied for each body: the key's part is done once
        self._format = body
        self._fixed = {"content-type": _CONTENT_TYPES[body], "x-channel": self._name}

    def destination(self, notification: Notification) -> str:
        """What the call's breaker and share of the slots stand for.

        Raises:
            BadTarget: the target cannot or may not be called.
        """
        if not self._per_host:
            return self._name
        if not notification.target:
            return self._target_host
        host = host_port(notification.target)
        if host not in self._allowed:
            raise BadTarget("the target's host is not on the allow-list")
        return host

    def request(self, notification: Notification, key: str, traceparent: str | None, payload: bytes) -> Request:
        """The call for a notification whose destination was found good.

        `payload` are the record's own bytes, `key` the idempotency key.
        """
        body = payload if self._format is BodyFormat.PROTOBUF else orjson.dumps(notification.json_fields())
        signer = self._signer.copy()
        signer.update(body)
        headers = {**self._fixed, "idempotency-key": key, "x-signature": signer.hexdigest()}
        # What cannot stand in a header stays in the body and in the row.
        if notification.trace_id and _HEADER_SAFE.match(notification.trace_id):
            headers["x-trace-id"] = notification.trace_id
        if traceparent is not None:
            headers["traceparent"] = traceparent
        own = self._per_host and notification.target
        return Request(notification.target if own else self._target, headers, body)
