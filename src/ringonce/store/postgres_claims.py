"""Claims and counts on PostgreSQL: one statement per batch, rows locked in the order of their keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ringonce.store.postgres import Access
from ringonce.store.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ringonce.store.claims import Bound, Claim
    from ringonce.store.postgres import Connection


class PostgresClaims:
    """Implements `Claims`; connects when it is first asked.

    Args:
        url: a libpq URL.
        name: of the connections, as the server shows it.
        consumer: whose gate and counts.
        channel: whose history.
        node: who writes it.
    """

    def __init__(self, url: str, name: str, consumer: str, channel: str, node: str) -> None:
        # Two: what is undone after one call does not wait for what is done before the next.
        self._access = Access(url, f"{name}-claims", size=2)
        self._whose = {"consumer": consumer, "channel": channel, "node": node}

    async def claim(self, claims: Sequence[Claim]) -> set[str]:
        """See `Claims.claim`."""
        return await self._ask("claim", rows=json.dumps([_columns(claim) for claim in claims]))

    async def release(self, claims: Sequence[Claim]) -> set[str]:
        """See `Claims.release`."""
        rows = [{"notification_id": claim.id, "owner": claim.owner} for claim in claims]
        return await self._ask("release", rows=json.dumps(rows))

    async def take_over(self, ids: Collection[str], owner: str) -> set[str]:
        """See `Claims.take_over`."""
        return await self._ask("take_over", ids=sorted(ids), owner=owner)

    async def count(self, bounds: Sequence[Bound]) -> set[str]:
        """See `Claims.count`."""
        rows = [{"root_id": bound.root, "most": bound.limit} for bound in bounds]
        return await self._ask("count_attempts", rows=json.dumps(rows))

    async def give_back(self, roots: Collection[str]) -> None:
        """See `Claims.give_back`."""
        await self._ask("give_back_attempts", roots=sorted(roots))

    async def _ask(self, query: str, **parameters: object) -> set[str]:
        given: Mapping[str, object] = {**self._whose, **parameters}

        async def run(connection: Connection) -> set[str]:
            cursor = await connection.execute(QUERIES[query], given)
            return {row[0] for row in await cursor.fetchall()}

        return await self._access.run(run)

    async def close(self) -> None:
        """See `Claims.close`."""
        await self._access.close()


def _columns(claim: Claim) -> dict[str, object]:
    row = claim.row
    return {
        "owner": claim.owner,
        "notification_id": row.notification_id,
        "user_id": row.user_id,
        "attempts": row.attempts,
        "stage": row.stage,
        "trace_id": row.trace_id,
        "event_key": row.event_key,
        "root_id": row.root_id,
        "replay_of": row.replay_of,
        "maybe_reached": row.maybe_reached,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }
