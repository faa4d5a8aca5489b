"""A group membership in memory, as a pipeline sees its consumer thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ringonce.kafka.port import Offsets, Partition, Record
    from ringonce.kafka.thread import Owner


class MemoryConsumer:
    """Has the surface of `kafka.thread.ConsumerThread`; a test plays the group's part."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.paused: Collection[Partition] | None = frozenset()
        self.allowed = 0
        self.resting: set[Partition] = set()
        self.commits: list[Offsets] = []
        self.assignment: list[Partition] = []
        self.is_stale = False
        self.started = False
        self.stopped = False
        self.beat = 0.0
        self.fed = 0.0

    def start(self) -> None:
        """See `ConsumerThread.start`."""
        self.started = True

    def allow(self, total: int) -> None:
        """See `ConsumerThread.allow`."""
        self.allowed = total

    def release_but(self, resting: Collection[Partition]) -> None:
        """See `ConsumerThread.release_but`."""
        self.resting = set(resting)

    def commit(self, offsets: Offsets) -> None:
        """See `ConsumerThread.commit`."""
        self.commits.append(dict(offsets))

    def stale(self) -> bool:
        """See `ConsumerThread.stale`."""
        return self.is_stale

    async def stop(self) -> None:
        """See `ConsumerThread.stop`: the owner is asked one last time."""
        self.stopped = True
        await self.revoke(self.assignment)

    # The group's part

    def assign(self, *partitions: Partition) -> None:
        """These come."""
        self.assignment += partitions
        self.owner.assigned(list(partitions))

    def bring(self, *records: Record) -> None:
        """These were polled."""
        self.owner.arrived(list(records))

    async def revoke(self, partitions: Sequence[Partition]) -> Offsets:
        """These go in order."""
        going = list(partitions)
        offsets = await self.owner.revoked(going)
        self.assignment = [partition for partition in self.assignment if partition not in going]
        self.commits.append(dict(offsets))
        return offsets

    def lose(self, *partitions: Partition) -> None:
        """These are gone."""
        self.assignment = [partition for partition in self.assignment if partition not in partitions]
        self.owner.lost(list(partitions))

    @property
    def committed(self) -> Offsets:
        """What the group has for each partition in the end."""
        return {partition: offset for offsets in self.commits for partition, offset in offsets.items()}
