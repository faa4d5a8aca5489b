"""Writes down what could not be delivered: every record of a DLQ topic becomes a row with status `dlq`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.domain.disposition import Status
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Sequence

    from ringonce.kafka.port import Partition
    from ringonce.runtime.intake import Holding
    from ringonce.runtime.pipeline import Pipeline
    from ringonce.runtime.work import Work


class DlqHandler:
    """Implements `pipeline.Handler`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._channel = pipeline.profile.name
        self._recorder = pipeline.recorder

    def ready(self, work: Work) -> None:
        """A record came."""
        work.phase = Phase.SETTLING
        error = work.envelope.hints.error or work.envelope.fault
        self._recorder.submit(work.row(self._channel, Status.DLQ, error), work)

    def done(self, work: Work) -> None:
        """See `Handler.done`."""

    def leave(self, holding: Holding, *, ours: bool) -> None:
        """See `Handler.leave`: everything is under way the moment it comes."""

    def tick(self, *, full: bool) -> None:
        """See `Handler.tick`."""

    def paused(self, partitions: Sequence[Partition]) -> Collection[Partition]:  # noqa: ARG002 - the port's signature
        """See `Handler.paused`: capacity alone holds a recorder back."""
        return ()

    def waits(self) -> bool:
        """See `Handler.waits`: the recorder says itself when the database is away."""
        return False

    def tasks(self) -> list[Coroutine[object, object, None]]:
        """See `Handler.tasks`."""
        return []

    def cancel(self) -> None:
        """See `Handler.cancel`."""

    async def close(self) -> int:
        """See `Handler.close`."""
        return 0
