"""What to do about a record: values, and the one function that chooses among them.

The rules are those of DESIGN.md, "Delivery rules"; the runtime carries them out and never second-guesses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ringonce.domain.outcome import (
    Delivered,
    Gone,
    Indeterminate,
    NotSent,
    Outcome,
    Refused,
    Rejected,
    Throttled,
    retry_after,
)
from ringonce.domain.stages import DLQ, MAIN, Ladder, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

LAST_CHANCE_PAUSE: Final = 2.0
"""Seconds between the tries of a record for which no later stage is due before it expires."""

LONGEST_DEFERRAL: Final = 24 * 3600.0
"""Seconds for which a record may be put off without an attempt."""


class Status(StrEnum):
    """The terminal statuses of `notifications_log`."""

    DELIVERED = "delivered"
    DLQ = "dlq"
    EXPIRED = "expired"
    GONE = "gone"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why a record was forwarded: the header `forward.reason`."""

    NEXT_RETRY = "next-retry"
    PERMANENT = "permanent"
    EXHAUSTED = "exhausted"
    BREAKER_OPEN = "breaker-open"
    BUSY = "busy"
    TOO_OLD = "too-old"

    @property
    def spends_nothing(self) -> bool:
        """Whether a forward with this reason leaves the record's tries as they were."""
        return self in {Reason.BREAKER_OPEN, Reason.BUSY}


@dataclass(frozen=True, slots=True)
class Record:
    """Write the terminal row."""

    status: Status


@dataclass(frozen=True, slots=True)
class Forward:
    """Publish the record to the stage's topic; once that is acknowledged, it is done here."""

    stage: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep it, outside the send slots, and try again `after` seconds."""

    after: float


@dataclass(frozen=True, slots=True)
class Skip:
    """It is done already."""


Disposition: TypeAlias = Record | Forward | Hold | Skip

DELIVERED: Final = Record(Status.DELIVERED)


class Situation(NamedTuple):
    """Where a record stands. Times are seconds since the epoch.

    `deferred_since`: when it was first put off without an attempt, if it was.
    """

    stage: str
    expires_at: float | None = None
    deferred_since: float | None = None

    def expired(self, now: float) -> bool:
        """Whether no attempt may start any more."""
        return self.expires_at is not None and now >= self.expires_at


def decide(outcome: Outcome, situation: Situation, ladder: Ladder, now: float) -> Disposition:
    """What follows from a stage's last outcome, when its tries are used up or make no sense."""
    match outcome:
        case Delivered():
            return DELIVERED
        case Gone():
            return Record(Status.GONE)
        case Rejected():
            return Forward(DLQ, Reason.PERMANENT)
        case Refused() | Throttled() | NotSent() | Indeterminate():
            return _try_later(retry_after(outcome), situation, ladder, now)


def _try_later(asked: float | None, situation: Situation, ladder: Ladder, now: float) -> Disposition:
    later = ladder.later(situation.stage)
    if not later:
        return Forward(DLQ, Reason.EXHAUSTED)
    if situation.expired(now):
        return Record(Status.EXPIRED)
    in_time = [stage for stage in later if situation.expires_at is None or now + stage.delay < situation.expires_at]
    if not in_time:
        return Hold(max(LAST_CHANCE_PAUSE, asked or 0.0))
    return Forward(_covering(in_time, asked or 0.0).name, Reason.NEXT_RETRY)


def _covering(stages: Sequence[Stage], wait: float) -> Stage:
    """The first stage whose delay covers `wait`, else the last."""
    return next((stage for stage in stages if stage.delay >= wait), stages[-1])


def defer(reason: Reason, situation: Situation, ladder: Ladder, now: float) -> Disposition:
    """What becomes of a record that cannot be tried now through no fault of its own; it spends no attempt.

    It goes one stage on; from the last retry stage it returns to it, until it expires or has been put off for too long.
    """
    if situation.expired(now):
        return Record(Status.EXPIRED)
    if situation.deferred_since is not None and now - situation.deferred_since >= LONGEST_DEFERRAL:
        return Forward(DLQ, Reason.TOO_OLD)
    later = ladder.later(situation.stage)
    if later:
        return Forward(later[0].name, reason)
    last = ladder.last()
    # A channel without retry stages has nowhere to put a record off to: main would bring it back at once.
    return Forward(last.name, reason) if last.name != MAIN else Hold(LAST_CHANCE_PAUSE)
