"""What a guard has to know of the sender that it works for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.observe.events import Emit
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.work import Work


@dataclass(frozen=True, slots=True)
class Surety:
    """The sender, as a guard sees it.

    `owner` is this process's name, another one after each start; `ours` says whether a record's partition is ours
    beyond doubt; `settled` finishes a record, `abandoned` leaves it to its next owner, `again` has the gate asked anew.
    """

    channel: str
    owner: str
    clock: Clock
    emit: Emit
    ours: Callable[[Work], bool]
    settled: Callable[[Work], None]
    abandoned: Callable[[Work], None]
    again: Callable[[Work], None]

    def expired(self, work: Work) -> bool:
        """Whether no attempt may start any more."""
        return work.expired(self.clock.now())
