"""One call to a provider, as the timeline keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kept(StrEnum):
    """Which attempts are kept: none; the failed ones and the last of a record that had failures; every one."""

    OFF = "off"
    FAILURES = "failures"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Attempt:
    """When it began (seconds since the epoch), its outcome's class, the status code if there was one, and seconds."""

    at: float
    outcome: str
    status: int | None
    seconds: float
