"""What one attempt showed: a closed set of values.

`Indeterminate` (the request may have reached the provider) is never merged with `Refused` (answered, but try again)
or `NotSent` (nothing reached it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, get_args


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider took it."""

    status: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """It will never be taken, here or later; `status` is None when no provider was asked."""

    reason: str
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """The address is dead and is retired."""

    status: int


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too many requests; `retry_after` in seconds where the provider said so."""

    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Answered, but try again; `retry_after` in seconds where the provider said so."""

    status: int
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """No connection: nothing reached the provider."""

    detail: str


@dataclass(frozen=True, slots=True)
class Indeterminate:
    """No answer after the request may have been sent."""

    detail: str


Outcome: TypeAlias = Delivered | Rejected | Gone | Throttled | Refused | NotSent | Indeterminate
Failure: TypeAlias = Throttled | Refused | NotSent | Indeterminate
"""Outcomes after which another try makes sense, and which count against the provider."""

_FAILURES: Final = get_args(Failure)


def is_failure(outcome: Outcome) -> bool:
    """Whether the provider failed (a Rejected or Gone means that it is healthy)."""
    return isinstance(outcome, _FAILURES)


def retry_after(outcome: Outcome) -> float | None:
    """Seconds the provider asked us to wait, where it did."""
    return outcome.retry_after if isinstance(outcome, Throttled | Refused) else None


def http_status(outcome: Outcome) -> int | None:
    """The status code that the provider answered, where it did."""
    match outcome:
        case NotSent() | Indeterminate():
            return None
        case Delivered(status) | Gone(status) | Throttled(status) | Refused(status):
            return status
        case Rejected(status=status):
            return status


def describe(outcome: Outcome) -> str:  # noqa: PLR0911 - one line per kind of outcome
    """One line for `last_error` and `error.message`: no address, no payload."""
    match outcome:
        case Delivered(status):
            return f"delivered with status {status}"
        case Rejected(reason):
            return reason
        case Gone(status):
            return f"address gone, status {status}"
        case Throttled(status, after):
            return f"throttled with status {status}{_asked(after)}"
        case Refused(status, after):
            return f"refused with status {status}{_asked(after)}"
        case NotSent(detail):
            return f"not sent: {detail}"
        case Indeterminate(detail):
            return f"no answer: {detail}"


def _asked(after: float | None) -> str:
    return "" if after is None else f", retry after {after:g} s"
