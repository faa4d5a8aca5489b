"""What this process has taken in: its partitions, their ledgers, and how much more may come.

Records of a retry stage wait here until they are due. Everything else is handed on at once, and counts against the
capacity until it is settled.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ringonce.domain.ledger import Tenure
from ringonce.runtime.envelope import open_record
from ringonce.runtime.work import Phase, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ringonce.domain.notification import Channel
    from ringonce.domain.stages import Stage
    from ringonce.kafka.port import Offsets, Partition, Record
    from ringonce.runtime.clock import Clock

CAPACITY: Final = 2000
"""Records that may be in the process and not settled, those that are not due apart."""

CAPACITY_BYTES: Final = 16 * 1024 * 1024

WIDEST_SPAN: Final = 10_000
"""Offsets from a partition's lowest unfinished record to its last one; beyond that it is paused."""


@dataclass(slots=True, eq=False)
class Holding:
    """A partition in our hands."""

    partition: Partition
    stage: Stage
    tenure: Tenure
    works: dict[int, Work] = field(default_factory=dict)
    waiting: deque[tuple[float, Work]] = field(default_factory=deque)  # (due, work), due by the monotonic clock


class Intake:
    """All holdings of the process.

    Args:
        stages: the stage of each topic that is consumed.
        channel: whose topics they are; None for the router's DLQ.
        clock: for due times.
        ready: given each record that is eligible.
    """

    def __init__(
        self, stages: Mapping[str, Stage], channel: Channel | None, clock: Clock, ready: Callable[[Work], None]
    ) -> None:
        self._stages = stages
        self._channel = channel
        self._clock = clock
        self._ready = ready
        self._holdings: dict[Partition, Holding] = {}
        self._by_tenure: dict[int, Holding] = {}
        self.active = 0  # eligible and not settled
        self.active_bytes = 0
        self.finished = 0

    @property
    def partitions(self) -> list[Partition]:
        """Every partition in our hands."""
        return list(self._holdings)

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Partitions came."""
        for partition in partitions:
            tenure = Tenure(partition.topic, partition.number)
            holding = Holding(partition, self._stages[partition.topic], tenure)
            self._holdings[partition] = holding
            self._by_tenure[id(tenure)] = holding

    def arrived(self, records: Sequence[Record]) -> None:
        """Records were polled; of each partition at most one batch that is not due is ever here."""
        now, monotonic = self._clock.now(), self._clock.monotonic()
        for record in records:
            holding = self._holdings.get(record.partition)
            if holding is None or holding.tenure.leaving or not holding.tenure.deliver(record.offset):
                continue
            work = Work(record, open_record(record, self._channel, now), holding.tenure, holding.stage.name)
            holding.works[record.offset] = work
            delay = holding.stage.delay
            if delay:
                # Never longer than the delay after first sight, whatever the clocks of this machine and the broker say.
                left = min(delay, record.timestamp_ms / 1000 + delay - now)
                if left > 0 or holding.waiting:
                    work.phase = Phase.WAITING
                    holding.waiting.append((monotonic + left, work))
                    continue
            self._admit(work)

    def _admit(self, work: Work) -> None:
        work.phase = Phase.QUEUED
        self.active += 1
        self.active_bytes += work.record.size
        self._ready(work)

    def promote(self) -> None:
        """Hand on what has become due."""
        now = self._clock.monotonic()
        for holding in self._holdings.values():
            while holding.waiting and holding.waiting[0][0] <= now:
                self._admit(holding.waiting.popleft()[1])

    def resting(self) -> set[Partition]:
        """Partitions with records that are not due: nothing more of them is wanted now."""
        return {holding.partition for holding in self._holdings.values() if holding.waiting}

    def room(self) -> int:
        """How many more records may be taken in."""
        if self.active_bytes >= CAPACITY_BYTES:
            return 0
        return max(0, CAPACITY - self.active)

    def settle(self, work: Work) -> None:
        """Its terminal action is durable."""
        if work.phase is Phase.DONE:
            return
        work.tenure.finish(work.record.offset)
        self.finished += 1
        self._remove(work)

    def abandon(self, work: Work) -> None:
        """It will not be finished here."""
        if work.phase is not Phase.DONE:
            self._remove(work)

    def _remove(self, work: Work) -> None:
        if work.phase is not Phase.WAITING:
            self.active -= 1
            self.active_bytes -= work.record.size
        work.phase = Phase.DONE
        holding = self._by_tenure.get(id(work.tenure))
        if holding is not None:
            holding.works.pop(work.record.offset, None)

    def leaving(self, partitions: Iterable[Partition]) -> list[Holding]:
        """Take in nothing more from these; what they hold. What was not due is given up at once."""
        going = [self._holdings[partition] for partition in partitions if partition in self._holdings]
        for holding in going:
            holding.tenure.leaving = True
            for _, work in holding.waiting:
                self.abandon(work)
            holding.waiting.clear()
        return going

    def close(self, holdings: Sequence[Holding]) -> None:
        """These are not ours any more; late news about them is ignored."""
        for holding in holdings:
            holding.tenure.close()
            self._holdings.pop(holding.partition, None)
            self._by_tenure.pop(id(holding.tenure), None)

    def committable(self) -> Offsets:
        """The offsets that may be committed and have not been."""
        found = {}
        for holding in self._holdings.values():
            mark = holding.tenure.committable()
            if mark is not None:
                found[holding.partition] = mark
        return found

    def marks(self, holdings: Iterable[Holding]) -> Offsets:
        """The low-water marks of partitions that go, committed or not: what was handed over may not have been sent."""
        return {holding.partition: mark for holding in holdings if (mark := holding.tenure.mark) is not None}

    def committed(self, offsets: Offsets) -> None:
        """These are on their way to the broker."""
        for partition, offset in offsets.items():
            if partition in self._holdings:
                self._holdings[partition].tenure.committed(offset)

    def uncommitted(self, partitions: Sequence[Partition]) -> None:
        """A commit of theirs failed: offer the offsets again."""
        for partition in partitions:
            if partition in self._holdings:
                self._holdings[partition].tenure.uncommitted()

    def partitions_by_stage(self) -> Counter[str]:
        """How many partitions of each stage are in our hands."""
        return Counter(holding.stage.name for holding in list(self._holdings.values()))

    def oldest(self) -> dict[str, float]:
        """By stage, since when its oldest record has been eligible (seconds since the epoch); none where none is.

        A partition's due times rise, so its first record is the one. For a thread that only looks: what changes under
        its eyes may raise RuntimeError.
        """
        found: dict[str, float] = {}
        for holding in list(self._holdings.values()):
            work = next(iter(holding.works.values()), None)
            if work is not None and work.phase is not Phase.WAITING:
                name, since = holding.stage.name, work.record.timestamp_ms / 1000 + holding.stage.delay
                found[name] = min(since, found.get(name, since))
        return found

    def too_wide(self) -> set[Partition]:
        """Partitions whose ledgers span so much that they have to pause."""
        return {holding.partition for holding in self._holdings.values() if holding.tenure.span > WIDEST_SPAN}
