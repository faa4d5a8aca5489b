"""Claims and counts in memory, on the rows of the store in memory: the same contract suite as for the real ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.fakes.faults import Faults
from tests.fakes.store import _refusal

from ringonce.domain.disposition import Status
from ringonce.store.port import RowsRefused, StoreAway

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.fakes.store import MemoryStore

    from ringonce.store.claims import Bound, Claim


class MemoryClaims:
    """Implements `Claims`.

    `faults` are the declared outages, one for each statement; `lost_answers`: of the next statements, how many take
    effect and yet fail; `latency`: seconds that each takes. `batches` holds what each was about.
    """

    def __init__(self, store: MemoryStore, consumer: str, channel: str) -> None:
        self._store = store
        self._consumer = consumer
        self._channel = channel
        self.attempts: dict[tuple[str, str], int] = {}
        self.batches: list[tuple[str, list[str]]] = []
        self.faults: Faults[Exception] = Faults()
        self.lost_answers = 0
        self.latency = 0.0
        self.closed = False

    async def _begin(self, what: str, keys: Collection[str]) -> None:
        await asyncio.sleep(self.latency)
        fault = self.faults.next()
        if fault is not None:
            raise fault
        self.batches.append((what, list(keys)))

    def _end(self) -> None:
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreAway("the answer was lost")

    async def claim(self, claims: Sequence[Claim]) -> set[str]:
        """See `Claims.claim`."""
        await self._begin("claim", [claim.id for claim in claims])
        for claim in claims:
            state = _refusal(claim.row)
            if state is not None:
                raise RowsRefused(state)
        won = set()
        for claim in claims:
            root_is_through = claim.row.root_id != claim.id and self._gate(claim.row.root_id) is not None
            if root_is_through or self._store.gates.setdefault(self._key(claim.id), claim.owner) != claim.owner:
                continue
            row = claim.row._replace(channel=self._channel, status=Status.UNKNOWN)
            self._store.rows.setdefault(row.key, row)
            won.add(claim.id)
        self._end()
        return won

    async def release(self, claims: Sequence[Claim]) -> set[str]:
        """See `Claims.release`."""
        await self._begin("release", [claim.id for claim in claims])
        gone = {claim.id for claim in claims if self._gate(claim.id) == claim.owner}
        for ident in gone:
            del self._store.gates[self._key(ident)]
            if self._unknown(ident):
                del self._store.rows[(ident, self._channel)]
        self._end()
        return gone

    async def take_over(self, ids: Collection[str], owner: str) -> set[str]:
        """See `Claims.take_over`."""
        await self._begin("take over", ids)
        held = {ident for ident in ids if self._gate(ident) is not None}
        for ident in held:
            if self._unknown(ident):
                self._store.gates[self._key(ident)] = owner
        self._end()
        return held

    async def count(self, bounds: Sequence[Bound]) -> set[str]:
        """See `Claims.count`."""
        await self._begin("count", [bound.root for bound in bounds])
        counted = {bound.root for bound in bounds if self.attempts.get(self._key(bound.root), 0) < bound.limit}
        for root in counted:
            self.attempts[self._key(root)] = self.attempts.get(self._key(root), 0) + 1
        self._end()
        return counted

    async def give_back(self, roots: Collection[str]) -> None:
        """See `Claims.give_back`."""
        await self._begin("give back", roots)
        for root in roots:
            if self.attempts.get(self._key(root), 0) > 0:
                self.attempts[self._key(root)] -= 1
        self._end()

    async def close(self) -> None:
        """See `Claims.close`."""
        self.closed = True

    def _key(self, ident: str) -> tuple[str, str]:
        return (self._consumer, ident)

    def _gate(self, ident: str) -> str | None:
        return self._store.gates.get(self._key(ident))

    def _unknown(self, ident: str) -> bool:
        row = self._store.rows.get((ident, self._channel))
        return row is not None and row.status is Status.UNKNOWN
