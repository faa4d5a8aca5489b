"""Everything that the core reports, as frozen values; logs, metrics and traces subscribe.

No event carries a payload, an address or a secret. Times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Started:
    """A role is ready and has joined its group."""

    role: str
    node: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A role has stopped in order; `left` records were unfinished and come again."""

    role: str
    node: str
    left: int


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """Partitions came to this process."""

    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """Partitions were given up in order; `left` records of theirs were still under way."""

    partitions: tuple[str, ...]
    left: int


@dataclass(frozen=True, slots=True)
class PartitionsLost:
    """Partitions are gone without our being asked."""

    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BreakerChanged:
    """A circuit breaker went from one state to another. `destination` is a channel, or host:port."""

    destination: str
    before: str
    after: str
    cause: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A batch of terminal rows is committed."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A record's copy in the next topic is acknowledged."""

    notification_id: str
    trace_id: str
    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A record's terminal row is committed. Raised only where somebody listens at DEBUG."""

    notification_id: str
    trace_id: str
    stage: str
    status: str
    attempts: int


@dataclass(frozen=True, slots=True)
class RowStripped:
    """The database refused a row's data; it was written with its id, channel and status only."""

    notification_id: str
    sqlstate: str


@dataclass(frozen=True, slots=True)
class AttemptsDropped:
    """So many attempts are missing from the timeline: the database was away for too long, or refused them."""

    attempts: int


@dataclass(frozen=True, slots=True)
class Held:
    """Work waits for a server of ours: the database or the broker. Raised again while it lasts."""

    what: str
    reason: str
    waiting: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """What was held goes on."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unpublishable:
    """A record that can never be published to the next topic; it ended as a row."""

    notification_id: str
    stage: str
    detail: str


Event: TypeAlias = (
    Started
    | Stopped
    | PartitionsAssigned
    | PartitionsRevoked
    | PartitionsLost
    | BreakerChanged
    | Recorded
    | Forwarded
    | Ended
    | RowStripped
    | AttemptsDropped
    | Held
    | Resumed
    | Unpublishable
)
Emit: TypeAlias = "Callable[[Event], None]"
