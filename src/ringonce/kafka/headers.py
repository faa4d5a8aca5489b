"""The headers of DESIGN.md: their names, and what they are worth when they come from outside."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ringonce.domain.identity import MAX_REPLAYS, Origin, ReplayClaim
from ringonce.domain.notification import Channel

if TYPE_CHECKING:
    from ringonce.kafka.port import Headers, Record

ROUTER_NODE: Final = "router-node"
CHANNEL: Final = "channel"
ORIGIN: Final = "origin"
RETRY_COUNT: Final = "retry.count"
ATTEMPTS: Final = "attempts"
DEFERRED_SINCE: Final = "deferred.since"
ERROR_CLASS: Final = "error.class"
ERROR_MESSAGE: Final = "error.message"
ERROR_TIMESTAMP: Final = "error.timestamp"
ERROR_STATUS: Final = "error.status"
ORIGINAL_TOPIC: Final = "original.topic"
PREVIOUS_TOPIC: Final = "previous.topic"
FORWARD_REASON: Final = "forward.reason"
MAYBE_REACHED: Final = "maybe.reached"
NOTIFICATION_ID: Final = "notification.id"
REPLAY_OF: Final = "replay.of"
REPLAY_COUNT: Final = "replay.count"
IDEMPOTENCY_KEY: Final = "idempotency.key"
ROOT_ID: Final = "root.id"
VALUE_SIZE: Final = "value.size"
VALUE_SHA256: Final = "value.sha256"
TRACEPARENT: Final = "traceparent"

RESERVED: Final = frozenset(
    {
        ROUTER_NODE,
        CHANNEL,
        ORIGIN,
        RETRY_COUNT,
        ATTEMPTS,
        DEFERRED_SINCE,
        ERROR_CLASS,
        ERROR_MESSAGE,
        ERROR_TIMESTAMP,
        ERROR_STATUS,
        ORIGINAL_TOPIC,
        PREVIOUS_TOPIC,
        FORWARD_REASON,
        MAYBE_REACHED,
        NOTIFICATION_ID,
        REPLAY_OF,
        REPLAY_COUNT,
        IDEMPOTENCY_KEY,
        ROOT_ID,
        VALUE_SIZE,
        VALUE_SHA256,
    }
)
"""What the router removes from a record that enters: all our own names; `traceparent` passes."""

LONGEST_MESSAGE: Final = 500
"""Characters of `error.message` and `last_error`."""

MAX_COUNT: Final = 1_000_000
# Version ff and ids of zeros alone are invalid (https://www.w3.org/TR/trace-context/#traceparent-header).
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z")
_LONGEST_NUMBER: Final = 18  # digits; what is longer is no count and no time


NO_CLAIM: Final = ReplayClaim()


class Hints(NamedTuple):
    """What a record's headers say, each out-of-range or unreadable one left at its default.

    `deferred_since`: seconds since the epoch. `error` and `reason` matter to those who read a DLQ.
    """

    origin: Origin | None = None
    retry_count: int = 0
    attempts: int = 0
    deferred_since: float | None = None
    maybe_reached: bool = False
    claim: ReplayClaim = NO_CLAIM
    traceparent: str | None = None
    original_topic: str | None = None
    error: str | None = None
    error_status: int | None = None
    reason: str | None = None
    root: str | None = None


NO_HINTS: Final = Hints()

_READ: Final = (RESERVED | {TRACEPARENT}) - {ROUTER_NODE, CHANNEL, ERROR_CLASS, ERROR_TIMESTAMP, PREVIOUS_TOPIC}
"""The headers that are read; the others are for people."""


def read(headers: Headers, now: float) -> Hints:
    """Read a record's headers; `now` in seconds since the epoch. Of several with one name the last counts."""
    if not headers:
        return NO_HINTS
    texts = {name: text for name, value in headers if name in _READ and (text := _text(value)) is not None}
    origin = texts.get(ORIGIN)
    if len(texts) == (ORIGIN in texts) + (TRACEPARENT in texts):  # it comes from the router and has been nowhere else
        return Hints(None if origin is None else Origin.parse(origin), traceparent=_traceparent(texts))
    deferred = _number(texts.get(DEFERRED_SINCE), None)
    return Hints(
        origin=None if origin is None else Origin.parse(origin),
        retry_count=_count(texts.get(RETRY_COUNT)),
        attempts=_count(texts.get(ATTEMPTS)),
        deferred_since=deferred / 1000 if deferred is not None and deferred / 1000 <= now else None,
        maybe_reached=texts.get(MAYBE_REACHED) == "true",
        claim=_claim(texts),
        traceparent=_traceparent(texts),
        original_topic=texts.get(ORIGINAL_TOPIC),
        error=_bounded(texts.get(ERROR_MESSAGE)),
        error_status=_status(texts.get(ERROR_STATUS)),
        reason=_bounded(texts.get(FORWARD_REASON)),
        root=texts.get(ROOT_ID),
    )


def _traceparent(texts: dict[str, str]) -> str | None:
    text = texts.get(TRACEPARENT)
    return text if text is not None and _TRACEPARENT.match(text) else None


def _claim(texts: dict[str, str]) -> ReplayClaim:
    if NOTIFICATION_ID not in texts:
        return NO_CLAIM
    count = _number(texts.get(REPLAY_COUNT), None)
    return ReplayClaim(
        id=texts[NOTIFICATION_ID],
        of=texts.get(REPLAY_OF),
        count=count if count is not None and count <= MAX_REPLAYS else None,
        key=texts.get(IDEMPOTENCY_KEY),
    )


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _number(text: str | None, default: int | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > _LONGEST_NUMBER:
        return default
    return int(text)


def _count(text: str | None) -> int:
    number = _number(text, 0)
    return number if number is not None and number <= MAX_COUNT else 0


def _status(text: str | None) -> int | None:
    number = _number(text, None)
    return number if number is not None and 100 <= number <= 999 else None  # noqa: PLR2004 - three digits


def _bounded(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_MESSAGE]


def replace(headers: Headers, changes: dict[str, str | None]) -> Headers:
    """The headers with those named in `changes` replaced, never appended to; None takes one away."""
    kept = [(name, value) for name, value in headers if name not in changes]
    kept.extend((name, text.encode()) for name, text in changes.items() if text is not None)
    return kept


class Entered:
    """What the router called `node` makes of a record's headers: ours removed; origin, channel and node set."""

    def __init__(self, node: str) -> None:
        self._node = (ROUTER_NODE, node.encode())
        self._channels = {int(channel): (CHANNEL, channel.wire_name.encode()) for channel in Channel}

    def __call__(self, record: Record, channel: int) -> Headers:
        """The headers of a record that enters; `channel` as the payload says it, known or not."""
        (topic, number), offset, timestamp_ms, _, _, headers = record
        origin = Origin.spell(topic, number, offset, timestamp_ms).encode()
        kept = [header for header in headers if header[0] not in RESERVED]
        known = self._channels.get(channel) or (CHANNEL, str(channel).encode())
        kept += ((ORIGIN, origin), known, self._node)
        return kept


def millis(seconds: float) -> str:
    """A time in the form the headers use: whole milliseconds since the epoch."""
    return str(int(seconds * 1000))


def one_line(text: str) -> str:
    """An error's text for a header or a row: bounded, on one line, encodable."""
    safe = text.encode("utf-8", "replace").decode()
    return " ".join(safe.split())[:LONGEST_MESSAGE]
