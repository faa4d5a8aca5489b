"""What stands around each call so that a channel keeps its semantics.

A guard wraps the courier's call. What has to be durable before it is written in batches, for records that hold a send
slot, and awaited; after it, what surely had no effect is undone. The decisions are those of `domain.semantics`. Under
effectively-once nothing stands around a call, and it costs nothing.

Nothing is undone for a record whose partition may be somebody else's: what was claimed or counted stays, which errs to
fewer sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ringonce.domain.semantics import AtMostOnce, Bounded, EffectivelyOnce, Semantics
from ringonce.runtime.claiming import Claiming
from ringonce.runtime.counting import Counting
from ringonce.runtime.tries import unguarded

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ringonce.runtime.surety import Surety
    from ringonce.runtime.tries import Call
    from ringonce.runtime.work import Work
    from ringonce.store.claims import Claims


class Guard(Protocol):
    """Keeps one channel's semantics."""

    def around(self, call: Call) -> Call:
        """The call with what has to happen before and after it; raises `Withheld` where it is not to be."""
        ...

    def skip(self, work: Work) -> None:
        """The gate knows the record: see to it that this stays so, and have it settled."""
        ...

    @property
    def held(self) -> bool:
        """Whether the database is away."""
        ...

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """What has to run beside the calls."""
        ...


class Unguarded:
    """Implements `Guard` for effectively-once: the gate before and the key on the call are all there is."""

    held = False

    def __init__(self, settled: Callable[[Work], None]) -> None:
        self.skip = settled

    def around(self, call: Call) -> Call:
        """See `Guard.around`."""
        return unguarded(call)

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """See `Guard.tasks`."""
        return []


def guard_for(semantics: Semantics, claims: Claims | None, surety: Surety) -> Guard:
    """The guard of a channel with these semantics; `claims` only where they make something durable before a call."""
    if isinstance(semantics, EffectivelyOnce):
        return Unguarded(surety.settled)
    assert claims is not None  # noqa: S101 - the composition root sees to it
    match semantics:
        case AtMostOnce():
            return Claiming(semantics, claims, surety)
        case Bounded():
            return Counting(semantics, claims, surety)
