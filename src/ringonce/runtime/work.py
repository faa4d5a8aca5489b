"""A record on its way through a process."""

from __future__ import annotations

from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING

from ringonce.domain.disposition import Situation
from ringonce.domain.notification import Instant
from ringonce.domain.outcome import http_status
from ringonce.store.port import HistoryRow

if TYPE_CHECKING:
    import asyncio

    from ringonce.channels.port import Prepared
    from ringonce.domain.attempt import Attempt
    from ringonce.domain.disposition import Status
    from ringonce.domain.ledger import Tenure
    from ringonce.domain.outcome import Outcome
    from ringonce.kafka.port import Record
    from ringonce.runtime.envelope import Envelope


class Phase(Enum):
    """Where a piece of work is; it moves down this list, and back to QUEUED when it is held."""

    WAITING = auto()  # in a retry stage, not due
    QUEUED = auto()  # eligible, in some queue of ours
    FLYING = auto()  # holds a send slot
    SETTLING = auto()  # its row or its copy is being made durable
    DONE = auto()  # finished, or given up


class Work:
    """One polled record and what this process knows of it.

    `attempts` counts provider calls over all stages; `spent` those of this stage that count against its tries.
    `maybe_reached` is sticky. `looked_at` is when the gate was last asked (monotonic); `place` is the record's in its
    lane, once it has one. `tried` holds the attempts for the timeline that nobody has taken yet: None where there has
    been none worth keeping, empty once they were taken.
    """

    __slots__ = (
        "attempts",
        "call",
        "envelope",
        "interrupt",
        "looked_at",
        "maybe_reached",
        "outcome",
        "phase",
        "place",
        "record",
        "single",
        "spent",
        "stage",
        "tenure",
        "tried",
    )

    def __init__(self, record: Record, envelope: Envelope, tenure: Tenure, stage: str) -> None:
        self.record = record
        self.envelope = envelope
        self.tenure = tenure
        self.stage = stage
        self.phase = Phase.QUEUED
        self.attempts = envelope.hints.attempts
        self.spent = 0
        self.maybe_reached = envelope.hints.maybe_reached
        self.looked_at = -inf
        self.place: int | None = None
        self.single = False  # one call without tries: a probe, or the last chances before it expires
        self.outcome: Outcome | None = None
        self.call: Prepared | None = None
        self.interrupt: asyncio.Event | None = None
        self.tried: list[Attempt] | None = None

    @property
    def root(self) -> str:
        """What it shares with every copy and replay of itself."""
        return self.envelope.identity.root

    @property
    def learned(self) -> bool:
        """Whether it may have reached the provider and no header says so yet: that must not be forgotten."""
        return self.maybe_reached and not self.envelope.hints.maybe_reached

    def expired(self, now: float) -> bool:
        """Whether no attempt may start any more."""
        expires_at = self.envelope.expires_at
        return expires_at is not None and now >= expires_at

    @property
    def trace_id(self) -> str:
        """The notification's trace id, where it has one."""
        return "" if self.envelope.notification is None else self.envelope.notification.trace_id

    def situation(self) -> Situation:
        """What the domain's rules need to know of it."""
        return Situation(self.stage, self.envelope.expires_at, self.envelope.hints.deferred_since)

    def row(self, channel: str, status: Status, error: str | None, *, sent_at: float | None = None) -> HistoryRow:
        """Its terminal row."""
        identity, notification = self.envelope.identity, self.envelope.notification
        row_stage = self.stage
        if notification is None:
            return HistoryRow(
                identity.id,
                channel,
                status,
                identity.root,
                self.attempts,
                last_error=error,
                stage=row_stage,
                replay_of=identity.replay_of,
                maybe_reached=self.maybe_reached,
            )
        created_at, expires_at = notification.created_at, notification.expires_at
        return HistoryRow(
            identity.id,
            channel,
            status,
            identity.root,
            self.attempts,
            notification.user_id or None,
            error,
            sent_at,
            self.envelope.hints.error_status if self.outcome is None else http_status(self.outcome),
            row_stage,
            notification.trace_id or None,
            notification.event_key or None,
            identity.replay_of,
            self.maybe_reached,
            None if created_at is None else _microseconds(created_at),
            None if expires_at is None else _microseconds(expires_at),
        )


def _microseconds(instant: Instant) -> str:
    """For a database's timestamp, cut off: it would round, and out of the last moment of the year 9999 make 10000."""
    beyond = instant.nanos % 1000
    return (Instant(instant.seconds, instant.nanos - beyond) if beyond else instant).rfc3339()
