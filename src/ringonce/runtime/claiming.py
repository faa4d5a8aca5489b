"""The guard of at-most-once: gate row and history row `unknown` are there before the call, and one winner makes it.

Each claim has a name of its own, so that nobody, this process after a lost partition included, releases another's. The
race that this is about: A's call is refused while B, who has the partition by now, finds A's row. If B skipped and A
then deleted the row, the notification would be lost. So B takes the row over before it skips, and A's release finds
nothing that is A's; or A was first, then B finds no row, and asks the gate again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ringonce.domain.disposition import Record, Status
from ringonce.domain.outcome import Indeterminate
from ringonce.domain.semantics import After, after_outcome, give_up
from ringonce.runtime.batching import Batching
from ringonce.runtime.tries import Ending, Finding, Withheld
from ringonce.runtime.work import Phase
from ringonce.store.claims import Claim
from ringonce.store.port import RowsRefused, StoreAway

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from ringonce.domain.outcome import Outcome
    from ringonce.domain.semantics import AtMostOnce
    from ringonce.runtime.surety import Surety
    from ringonce.runtime.tries import Call
    from ringonce.runtime.work import Work
    from ringonce.store.claims import Claims


class _Skipped(NamedTuple):
    """A record that the gate knows, by its id or its root."""

    id: str
    root: str


class _Wanted(NamedTuple):
    """A claim that is to be made."""

    id: str
    claim: Claim
    work: Work


class Claiming:
    """Implements `Guard`."""

    def __init__(self, semantics: AtMostOnce, claims: Claims, surety: Surety) -> None:
        self._semantics = semantics
        self._claims = claims
        self._surety = surety
        self._numbers = count(1)
        clock, emit = surety.clock, surety.emit
        self._wanted = Batching("claims", self._claim, _id, clock, emit)
        self._returned = Batching("claims", claims.release, _id, clock, emit)
        self._skipped = Batching("claims", self._take_over, _id, clock, emit)

    def _owner(self) -> str:
        return f"{self._surety.owner}-{next(self._numbers)}"

    async def _claim(self, wanted: Sequence[_Wanted]) -> set[str]:
        # Asked anew at each repetition: what has to go meanwhile is not claimed for us.
        claims = [one.claim for one in wanted if not one.work.tenure.leaving]
        if not claims:
            return set()
        try:
            return await self._claims.claim(claims)
        except RowsRefused:
            bare = [Claim(claim.row.bare(), claim.owner) for claim in claims]
        try:
            return await self._claims.claim(bare)
        except RowsRefused as refusal:
            # Not even the ids are taken: nothing in the data explains that, so it is the database's fault.
            raise StoreAway(str(refusal)) from refusal

    async def _take_over(self, skipped: Sequence[_Skipped]) -> set[str]:
        ids = {one.id for one in skipped} | {one.root for one in skipped}
        held = await self._claims.take_over(ids, self._owner())
        return {one.id for one in skipped if one.id in held or one.root in held}

    def around(self, call: Call) -> Call:
        """See `Guard.around`."""

        async def claimed(work: Work) -> Outcome:
            claim = await self._take(work)
            try:
                outcome = await call(work)
            except asyncio.CancelledError:
                # The request is on its way without us: without an answer it stays `unknown`, and that is its end.
                outcome = work.outcome = Indeterminate("cancelled")
            match after_outcome(self._semantics, outcome):
                case After.GO_ON:
                    pass
                case After.GIVE_BACK:
                    await self._release(work, claim)
                case After.END:
                    raise Withheld(Finding(Ending.RULED, outcome, Record(Status.UNKNOWN)))
            return outcome

        return claimed

    async def _take(self, work: Work) -> Claim:
        claim = Claim(work.row(self._surety.channel, Status.UNKNOWN, None), self._owner())
        answer = self._wanted.ask(_Wanted(claim.id, claim, work))
        try:
            won = await asyncio.shield(answer)
        except asyncio.CancelledError:
            # The statement is on its way whatever becomes of us; what it claims is released after it.
            if await answer:
                await self._break_off(work, claim)
            raise
        if not won:
            raise Withheld(Finding(Ending.UNSURE, None))
        if work.tenure.leaving or self._surety.expired(work):
            await self._break_off(work, claim)
            raise Withheld(Finding(Ending.UNSURE if work.tenure.leaving else Ending.EXPIRED, None))
        return claim

    async def _break_off(self, work: Work, claim: Claim) -> None:
        if give_up(self._semantics, begun=False) is After.GIVE_BACK:
            await self._release(work, claim)

    async def _release(self, work: Work, claim: Claim) -> None:
        # Whether the row was still there does not matter: whatever comes next asks the gate first.
        if self._surety.ours(work):
            await self._returned.ask(claim)

    def skip(self, work: Work) -> None:
        """See `Guard.skip`: only a row that nobody can release any more lets a record be skipped."""
        work.phase = Phase.SETTLING
        answer = self._skipped.ask(_Skipped(work.envelope.identity.id, work.root))
        answer.add_done_callback(partial(self._taken_over, work))

    def _taken_over(self, work: Work, answer: asyncio.Future[bool]) -> None:
        if work.phase is not Phase.SETTLING or answer.cancelled():
            return
        if answer.result():
            self._surety.settled(work)
            return
        work.phase = Phase.QUEUED
        if work.tenure.leaving:
            self._surety.abandoned(work)
        else:
            self._surety.again(work)

    @property
    def held(self) -> bool:
        """See `Guard.held`."""
        return self._wanted.held or self._returned.held or self._skipped.held

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """See `Guard.tasks`."""
        return [self._wanted.run(), self._returned.run(), self._skipped.run()]


def _id(item: _Wanted | Claim | _Skipped) -> str:
    return item.id
