"""Within a process, one copy of a root at a time: a second one waits until the first is finished or abandoned."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringonce.runtime.work import Work


class Roots:
    """Who holds each root, and who waits for it."""

    def __init__(self) -> None:
        self._holders: dict[str, Work] = {}
        self._waiting: dict[str, deque[Work]] = {}

    def take(self, work: Work) -> bool:
        """Whether `work` holds its root now; else it waits, and `free` will bring it back."""
        holder = self._holders.setdefault(work.root, work)
        if holder is work:
            return True
        self._waiting.setdefault(work.root, deque()).append(work)
        return False

    def free(self, work: Work) -> Work | None:
        """`work` is finished or abandoned; the next one that waited for its root, which does not hold it yet.

        Between being returned here and taking the root, that one may be abandoned too (its partition goes): then it
        comes by here without holding anything, and whoever waited behind it must be called: nobody else would do it.
        """
        root = work.root
        holder = self._holders.get(root)
        if holder is work:
            del self._holders[root]
        else:
            self._leave(work)
            if holder is not None:
                return None
        waiting = self._waiting.get(root)
        if not waiting:
            return None
        following = waiting.popleft()
        if not waiting:
            del self._waiting[root]
        return following

    def _leave(self, work: Work) -> None:
        waiting = self._waiting.get(work.root)
        if waiting is not None and work in waiting:
            waiting.remove(work)
            if not waiting:
                del self._waiting[work.root]
