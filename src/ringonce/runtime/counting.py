"""The guard of `bounded(n)`: every call is counted before it is made, by root, over all stages, restarts and replays.

A process that dies after sending has used up the attempt. Where nobody knows whether the database counted, it counts
again, and what is given back is given back once only: an answer that is lost costs a send, never adds one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ringonce.domain.semantics import After, after_outcome, give_up
from ringonce.runtime.batching import Batching
from ringonce.runtime.gatekeeper import GOOD_FOR
from ringonce.runtime.tries import Ending, Finding, Withheld
from ringonce.store.claims import Bound

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from ringonce.domain.outcome import Outcome
    from ringonce.domain.semantics import Bounded
    from ringonce.runtime.surety import Surety
    from ringonce.runtime.tries import Call
    from ringonce.runtime.work import Work
    from ringonce.store.claims import Claims


class _Wanted(NamedTuple):
    """An attempt that is to be counted."""

    bound: Bound
    work: Work


class Counting:
    """Implements `Guard`."""

    def __init__(self, semantics: Bounded, claims: Claims, surety: Surety) -> None:
        self._semantics = semantics
        self._claims = claims
        self._surety = surety
        self._counts = Batching("attempts", self._count_all, _root, surety.clock, surety.emit)
        self._returns = Batching("attempts", self._return, str, surety.clock, surety.emit, repeat=False)
        self.skip = surety.settled

    async def _count_all(self, wanted: Sequence[_Wanted]) -> set[str]:
        # Asked anew at each repetition: what has to go meanwhile is not counted for us.
        bounds = [one.bound for one in wanted if not one.work.tenure.leaving]
        return await self._claims.count(bounds) if bounds else set()

    async def _return(self, roots: Sequence[str]) -> Sequence[str]:
        await self._claims.give_back(roots)
        return roots

    def around(self, call: Call) -> Call:
        """See `Guard.around`."""

        async def counted(work: Work) -> Outcome:
            await self._count(work)
            outcome = await call(work)  # once begun it stays counted, even where it is cancelled
            if after_outcome(self._semantics, outcome) is After.GIVE_BACK:
                await self._give_back(work)
            return outcome

        return counted

    async def _count(self, work: Work) -> None:
        began = self._surety.clock.monotonic()
        bound = self._semantics.bound(work.envelope.identity.replay)
        answer = self._counts.ask(_Wanted(Bound(work.root, bound), work))
        try:
            granted = await asyncio.shield(answer)
        except asyncio.CancelledError:
            # The statement is on its way whatever becomes of us; what it counts is taken back after it.
            if await answer:
                await self._break_off(work)
            raise
        if not granted and work.tenure.leaving:
            raise Withheld(Finding(Ending.UNSURE, None))
        if not granted:
            cause = f"all {bound} attempts are used up"
            raise Withheld(Finding(Ending.RULED, None, self._semantics.exhausted(), cause))
        ending = self._objection(work, began)
        if ending is not None:
            await self._break_off(work)
            raise Withheld(Finding(ending, None))

    def _objection(self, work: Work, began: float) -> Ending | None:
        """Why the call should not be made after all: the database may have kept us waiting."""
        if work.tenure.leaving or self._surety.clock.monotonic() - began > GOOD_FOR:
            return Ending.UNSURE
        return Ending.EXPIRED if self._surety.expired(work) else None

    async def _break_off(self, work: Work) -> None:
        if give_up(self._semantics, begun=False) is After.GIVE_BACK:
            await self._give_back(work)

    async def _give_back(self, work: Work) -> None:
        if self._surety.ours(work):
            await self._returns.ask(work.root)

    @property
    def held(self) -> bool:
        """See `Guard.held`."""
        return self._counts.held

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """See `Guard.tasks`."""
        return [self._counts.run(), self._returns.run()]


def _root(wanted: _Wanted) -> str:
    return wanted.bound.root
