"""A notification as the domain sees it, and the fields of its canonical JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

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


class Notification(NamedTuple):
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

    def json_fields(self) -> dict[str, str | int]:
        """The notification in protobuf's JSON mapping: fields at their default are left out.

        Source: https://protobuf.dev/programming-guides/json/
        """
        fields: dict[str, Any] = {name: value for name, value in zip(_JSON_NAMES, self, strict=True) if value}
        for name, known in (("channel", _CHANNEL_NAMES), ("priority", _PRIORITY_NAMES)):
            if name in fields:
                fields[name] = known.get(fields[name], fields[name])
        for name in ("createdAt", "expiresAt"):
            if name in fields:
                fields[name] = fields[name].rfc3339()
        return fields


_JSON_NAMES: Final = tuple(
    head + "".join(word.capitalize() for word in words)
    for head, *words in (name.split("_") for name in Notification._fields)
)
"""The fields' names in JSON: in lower camel case."""
