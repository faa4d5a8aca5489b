"""What the database keeps, for those who ask: the rows of the history, counted or one by one, and the attempts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from ringonce.store.inquiry import Inquiry
from ringonce.store.schema import Count

if TYPE_CHECKING:
    from datetime import datetime

EVERY: Final = 2**31 - 1
"""A limit that is none."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A row of `notifications_log` with all its columns; `recorded_at` is when it was written."""

    notification_id: str
    channel: str
    status: str
    attempts: int
    recorded_at: datetime
    sent_at: datetime | None
    sent_by: str | None
    last_error: str | None
    http_status: int | None
    stage: str | None
    user_id: str | None
    event_key: str | None
    trace_id: str | None
    root_id: str
    replay_of: str | None
    maybe_reached: bool
    created_at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Made:
    """A row of `delivery_attempts`: a call that was made. `duration` in seconds."""

    notification_id: str
    attempted_at: datetime
    node: str
    channel: str
    topic: str
    partition: int
    offset: int
    outcome: str
    http_status: int | None
    duration: float


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows of the history; None means any. `root`: a notification and its replays; times are of the record."""

    channel: str | None = None
    status: str | None = None
    user: str | None = None
    event_key: str | None = None
    root: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Archive(Inquiry):
    """See `Inquiry` for what each method raises."""

    def counts(self, wanted: Filter) -> list[Count]:
        """How many rows each channel has by status."""
        return self.ask("counts", Count, **asdict(wanted))

    def rows(self, wanted: Filter, limit: int = EVERY) -> list[Ended]:
        """The rows, newest first."""
        return self.ask("rows", Ended, **asdict(wanted), limit=limit)

    def attempts(self, root: str) -> list[Made]:
        """The attempts of a notification and of its replays, oldest first."""
        return self.ask("attempts", Made, root=root)
