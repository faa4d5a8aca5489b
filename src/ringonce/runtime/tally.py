"""Counts dead letters by what they died of and how long ago."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ringonce.runtime.letters import DeadLetter

AGES: Final = (("1h", 3600.0), ("1d", 86_400.0), ("7d", 7 * 86_400.0))
"""The buckets: below so many seconds."""
OLDER: Final = "older"
BUCKETS: Final = (*(name for name, _ in AGES), OLDER)


class Cause(NamedTuple):
    """What a letter died of, from its headers; empty or None where they do not say."""

    error_class: str
    reason: str
    status: int | None


class Tally:
    """Counts; `now` in seconds since the epoch."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._counts: dict[Cause, Counter[str]] = {}
        self.total = 0
        self.undecodable = 0
        self.maybe_reached = 0

    def add(self, letter: DeadLetter) -> None:
        """One more."""
        cause = Cause(letter.error_class, letter.reason, letter.status)
        self._counts.setdefault(cause, Counter())[bucket(self._now - letter.died_at)] += 1
        self.total += 1
        self.undecodable += letter.notification is None
        self.maybe_reached += letter.maybe_reached

    def rows(self) -> list[tuple[Cause, Counter[str]]]:
        """Each cause with its counts by age, the most frequent first."""
        return sorted(
            self._counts.items(),
            key=lambda row: (-row[1].total(), row[0].error_class, row[0].reason, row[0].status or 0),
        )

    def json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "total": self.total,
            "undecodable": self.undecodable,
            "maybe_reached": self.maybe_reached,
            "causes": [
                {
                    "error_class": cause.error_class or None,
                    "reason": cause.reason or None,
                    "status": cause.status,
                    "total": ages.total(),
                    "ages": {name: ages[name] for name in BUCKETS},
                }
                for cause, ages in self.rows()
            ],
        }


def bucket(age: float) -> str:
    """The bucket of an age in seconds."""
    return next((name for name, limit in AGES if age < limit), OLDER)
