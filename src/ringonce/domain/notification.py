"""A notification as the domain sees it, and its canonical JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from typing import Final

NANOS: Final = 1_000_000_000
_EARLIEST: Final = -62_135_596_800  # 0001-01-01T00:00:00Z, the bounds of google.protobuf.Timestamp
_LATEST: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
_FIRST_SECOND: Final = datetime(1, 1, 1)  # noqa: DTZ001 - always UTC; printed with a literal Z


class Channel(IntEnum):
    """The wire contract's enum `notifications.v1.Channel`."""

    UNSPECIFIED = 0
    FIREBASE = 1
    APNS = 2
    WEBHOOK = 3
    WEBPUSH = 4
    INAPP = 5
    EMAIL = 6
    NTFY = 7

    @property
    def wire_name(self) -> str:
        """The enum value's name on the wire, such as ``CHANNEL_FIREBASE``."""
        return f"CHANNEL_{self.name}"


class Priority(IntEnum):
    """The wire contract's enum `notifications.v1.Priority`."""

    UNSPECIFIED = 0
    NORMAL = 1
    HIGH = 2

    @property
    def wire_name(self) -> str:
        """The enum value's name on the wire, such as ``PRIORITY_HIGH``."""
        return f"PRIORITY_{self.name}"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_CHANNEL_NAMES: Final = {int(channel): channel.wire_name for channel in Channel}
_PRIORITY_NAMES: Final = {int(priority): priority.wire_name for priority in Priority}


@lru_cache(maxsize=4096)
def _whole_seconds(seconds: int) -> str:
    """Kept, because the notifications of one moment share it and each prints it more than once."""
    return (_FIRST_SECOND + timedelta(seconds=seconds - _EARLIEST)).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Instant:
    """A protobuf Timestamp: `seconds` since the epoch (UTC) and `nanos` in 0 … 999,999,999."""

    seconds: int
    nanos: int = 0

    def __post_init__(self) -> None:
        if not _EARLIEST <= self.seconds <= _LATEST or not 0 <= self.nanos < NANOS:
            raise ValueError("timestamp out of range")

    def epoch(self) -> float:
        """Seconds since the epoch."""
        return self.seconds + self.nanos / NANOS

    def rfc3339(self) -> str:
        """As protobuf's JSON mapping prints it: UTC with 0, 3, 6 or 9 fractional digits."""
        whole = _whole_seconds(self.seconds)
        if not self.nanos:
            return f"{whole}Z"
        digits = f"{self.nanos:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        return f"{whole}.{digits}Z"


@dataclass(frozen=True, slots=True)
class Notification:
    """One message to one recipient over one channel.

    `channel` and `priority` are the wire's numbers, known or not: enums of proto3 are open.
    """

    id: str
    user_id: str = ""
    channel: int = 0
    title: str = ""
    body: str = ""
    payload_json: str = ""
    trace_id: str = ""
    created_at: Instant | None = None
    target: str = ""
    expires_at: Instant | None = None
    event_key: str = ""
    collapse_key: str = ""
    priority: int = 0

    def canonical_json(self) -> bytes:
        """The notification in protobuf's JSON mapping (UTF-8): fields at their default are left out.

        Source: https://protobuf.dev/programming-guides/json/
        """
        fields: dict[str, str | int | None] = {
            "id": self.id,
            "userId": self.user_id,
            "channel": _CHANNEL_NAMES.get(self.channel, self.channel) if self.channel else None,
            "title": self.title,
            "body": self.body,
            "payloadJson": self.payload_json,
            "traceId": self.trace_id,
            "createdAt": None if self.created_at is None else self.created_at.rfc3339(),
            "target": self.target,
            "expiresAt": None if self.expires_at is None else self.expires_at.rfc3339(),
            "eventKey": self.event_key,
            "collapseKey": self.collapse_key,
            "priority": _PRIORITY_NAMES.get(self.priority, self.priority) if self.priority else None,
        }
        present = {name: value for name, value in fields.items() if value}
        return _encode(present).encode()
