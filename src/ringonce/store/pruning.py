"""Removes old rows without keeping the senders out: a few pages of a table at a time, each a transaction of its own.

Rows that somebody has locked are left for another time, so nobody waits for a pruning and it waits for no one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ringonce.store.inquiry import Inquiry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

TABLES: Final = ("attempts", "history", "counts", "gate")
"""What is pruned, in this order: counts and gate last, because they keep a notification from being sent again."""

PAGES: Final = 32
"""Pages of 8 KiB in one transaction: some two thousand rows."""


class Pruning(Inquiry):
    """See `Inquiry` for what each method raises."""

    def cutoff(self, age: float) -> datetime:
        """The moment `age` seconds ago, by the database's clock, which has written the rows' times."""
        moment: datetime = self.value("cutoff", age=age)
        return moment

    def count(self, table: str, cutoff: datetime) -> int:
        """How many rows of one of `TABLES` are older than that."""
        rows: int = self.value(f"prune_{table}_count", cutoff=cutoff)
        return rows

    def remove(self, table: str, cutoff: datetime, pages: int = PAGES) -> Iterator[int]:
        """Remove the rows of one of `TABLES` that are older, some pages with each step; how many each has removed."""
        end = self.value(f"prune_{table}_pages")
        for first in range(0, end, pages):
            yield self.change(f"prune_{table}", cutoff=cutoff, first=f"({first},0)", end=f"({first + pages},0)")
