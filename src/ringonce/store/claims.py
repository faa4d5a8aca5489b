"""What a sender makes durable before a call, where its channel's semantics ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ringonce.store.port import HistoryRow


class Claim(NamedTuple):
    """A history row `unknown`, and the name under which its gate row is claimed: another one for each claim."""

    row: HistoryRow
    owner: str

    @property
    def id(self) -> str:
        """Whose gate row it is."""
        return self.row.notification_id


class Bound(NamedTuple):
    """A root, and how often it may be sent in all."""

    root: str
    limit: int


class Claims(Protocol):
    """Claims and counts of one consumer in one channel. Batches have distinct ids, or roots, and are sorted by them.

    Every method raises `StoreAway` when it is unknown whether anything was written.
    """

    async def claim(self, claims: Sequence[Claim]) -> set[str]:
        """Write gate row and history row of each, together; the ids of those that are claimed now.

        Not claimed is what has a gate row of another owner, or whose root has one. Repeating is harmless.

        Raises:
            RowsRefused: one of them is at fault; nothing was written.
        """
        ...

    async def release(self, claims: Sequence[Claim]) -> set[str]:
        """Delete gate row and history row of each, where the owner is still the claim's; the ids of those deleted.

        Repeating is harmless.
        """
        ...

    async def take_over(self, ids: Collection[str], owner: str) -> set[str]:
        """Of `ids`, those that have a gate row; where the history says `unknown`, its owner is `owner` from now on.

        So whoever claimed it can no longer release it.
        """
        ...

    async def count(self, bounds: Sequence[Bound]) -> set[str]:
        """Count one more attempt for each root that has not used up its limit; those roots.

        Repeating counts again.
        """
        ...

    async def give_back(self, roots: Collection[str]) -> None:
        """Take one attempt back from each root. Never to be repeated: it could take back somebody else's."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...
