"""Which offsets of a partition are done, and what may be committed.

Finished means: the terminal row is committed, or the copy in the next topic is acknowledged. Nothing else.
"""

from __future__ import annotations

from collections import deque


class Tenure:
    """One assignment of one partition to this process, from the moment it came to the moment it went.

    Its identity is the epoch: whoever finishes a record names the tenure under which the record was delivered, so a
    partition that left and came back cannot be advanced by what belongs to the time before.

    Offsets rise but need not be adjacent: compaction and transactions leave gaps, so nothing here counts by one.
    """

    __slots__ = ("_committed", "_finished", "_next", "_open", "closed", "leaving", "partition", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.leaving = False  # to be given up: what is under way may end, nothing new begins
        self.closed = False
        self._open: deque[int] = deque()  # delivered, in order; the head is the lowest that is not finished
        self._finished: set[int] = set()  # finished, but above the head
        self._next: int | None = None  # last delivered + 1
        self._committed: int | None = None

    def deliver(self, offset: int) -> bool:
        """Take note of a polled record; False when its offset was delivered before (it is not to be worked on)."""
        if self._next is not None and offset < self._next:
            return False
        self._open.append(offset)
        self._next = offset + 1
        return True

    def finish(self, offset: int) -> None:
        """The record is done for good. Late news for a closed tenure is ignored: another owner decides now."""
        if self.closed:
            return
        opened, finished = self._open, self._finished
        if not opened or not opened[0] <= offset <= opened[-1] or offset in finished:
            raise ValueError(f"offset {offset} of {self.topic}[{self.partition}] was finished before or never came")
        if offset != opened[0]:
            finished.add(offset)
            return
        opened.popleft()
        while finished and opened[0] in finished:
            finished.remove(opened.popleft())

    @property
    def mark(self) -> int | None:
        """The low-water mark: the lowest delivered offset that is not finished, else the last delivered + 1.

        None before the first record and once closed. It never goes back.
        """
        if self.closed or self._next is None:
            return None
        return self._open[0] if self._open else self._next

    def committable(self) -> int | None:
        """The mark, where it has not been committed yet."""
        mark = self.mark
        return mark if mark is not None and (self._committed is None or mark > self._committed) else None

    def committed(self, offset: int) -> None:
        """The broker has taken `offset`."""
        if self._committed is None or offset > self._committed:
            self._committed = offset

    def uncommitted(self) -> None:
        """The broker did not take what was committed: the mark, which never goes back, is offered again."""
        self._committed = None

    def close(self) -> None:
        """The partition is given up, revoked or lost: nothing is finished or committed any more."""
        self.closed = True

    @property
    def unfinished(self) -> int:
        """How many delivered records are not finished."""
        return len(self._open) - len(self._finished)

    @property
    def span(self) -> int:
        """Offsets from the lowest unfinished record to the last delivered one, both included; 0 when all is done."""
        return self._next - self._open[0] if self._open and self._next is not None else 0
