"""What every stand can do, whichever way it is brought up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Service:
    """One line of what is there: `condition` is up, not answering, down or external (not ours); `pid` only for ours."""

    name: str
    condition: str
    address: str
    pid: int | None = None


class Stand(Protocol):
    """Kafka, PostgreSQL and the mock providers."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """The environment variables with which the product finds this stand."""
        ...

    def up(self) -> list[Service]:
        """Starts what is missing and returns when everything answers.

        Raises:
            StandError: something did not come up, each said in one message; what did come up stays.
        """
        ...

    def down(self, *, purge: bool = False) -> list[str]:
        """Stops what `up` has started, in this or an earlier call, and nothing else; returns the names.

        Args:
            purge: remove the data too.
        """
        ...

    def services(self) -> list[Service]:
        """What belongs to the stand, and how each part does."""
        ...

    def show_logs(self, service: str | None, lines: int, *, follow: bool) -> list[str]:
        """The command that shows the last lines of a service's log, or of all; empty when there are none.

        Raises:
            StandError: there is no such log.
        """
        ...
