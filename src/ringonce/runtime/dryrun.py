"""Shows what a sender would do with each record: no call, no write, no commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.channels.port import BadTarget
from ringonce.runtime.envelope import Envelope, open_record

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ringonce.channels.port import Addresses
    from ringonce.channels.registry import ChannelRow
    from ringonce.kafka.consumer import GroupConsumer, Member
    from ringonce.kafka.port import Offsets, Partition
    from ringonce.runtime.clock import Clock


class DryRun:
    """Implements `kafka.consumer.Member`, as a member of a group of its own that commits nothing.

    `stages`: the stage of each topic; `show` is given one line for each record, without payload and address.
    """

    def __init__(
        self,
        row: ChannelRow,
        stages: Mapping[str, str],
        addresses: Addresses,
        clock: Clock,
        show: Callable[[str], None],
    ) -> None:
        self._row = row
        self._stages = stages
        self._addresses = addresses
        self._clock = clock
        self._show = show

    def run(self, stop: threading.Event, join: Callable[[Member], GroupConsumer]) -> None:
        """Read and show until `stop` is set."""
        consumer = join(self)
        while not stop.is_set():
            for record in consumer.poll(500):
                envelope = open_record(record, self._row.channel, self._clock.now())
                stage = self._stages[record.partition.topic]
                self._show(f"{record.partition}@{record.offset} {stage} {envelope.identity.id}: {self.plan(envelope)}")
        consumer.close()

    def plan(self, envelope: Envelope) -> str:
        """What would become of a record."""
        if envelope.notification is None or envelope.fault is not None:
            return f"dlq, {envelope.fault}"
        if envelope.expires_at is not None and envelope.expires_at <= self._clock.now():
            return "expired"
        try:
            self._addresses.destination(envelope.notification)
        except BadTarget as error:
            return f"dlq, {error}"
        return f"send, Idempotency-Key {envelope.identity.key}"

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """See `Member.assigned`."""

    def revoked(self, partitions: Sequence[Partition]) -> Offsets:  # noqa: ARG002 - the port's signature
        """See `Member.revoked`."""
        return {}

    def lost(self, partitions: Sequence[Partition]) -> None:
        """See `Member.lost`."""

    def commit_failed(self, partitions: Sequence[Partition]) -> None:
        """See `Member.commit_failed`."""
