"""What becomes of a record: it is recorded, forwarded, held, or left to its partition's next owner.

The decisions are the domain's; they are carried out here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ringonce.domain.disposition import Disposition, Forward, Hold, Reason, Record, Skip, Status, decide, defer
from ringonce.domain.outcome import Delivered, Outcome, Rejected, describe
from ringonce.runtime.forwarder import Forwarder
from ringonce.runtime.parking import Parking
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from ringonce.channels.registry import ChannelRow
    from ringonce.kafka.port import Publisher
    from ringonce.kafka.topics import TopicNames
    from ringonce.runtime.pipeline import Pipeline
    from ringonce.runtime.work import Work


class Settlement:
    """Settles the records of one channel.

    Args:
        pipeline: told what is finished and what is given up; its recorder writes the rows.
        row: the channel.
        publisher: acks=all.
        names: the topics' names.
    """

    def __init__(self, pipeline: Pipeline, row: ChannelRow, publisher: Publisher, names: TopicNames) -> None:
        self._pipeline = pipeline
        self._recorder = pipeline.recorder
        self._clock = pipeline.around.clock
        self._name = row.name
        self._ladder = row.ladder
        self.parking = Parking()
        """What is held until a moment that is known."""
        self.forwarder = Forwarder(
            publisher,
            partial(names.stage, row.name),
            pipeline.around.clock,
            pipeline.around.emit,
            allowed=pipeline.may_publish,
            settled=pipeline.settled,
            unpublishable=self._unpublishable,
            abandoned=pipeline.abandoned,
        )

    def decide(self, work: Work, outcome: Outcome) -> None:
        """This was the stage's last outcome."""
        self.apply(work, decide(outcome, work.situation(), self._ladder, self._clock.now()), outcome)

    def reject(self, work: Work, reason: str) -> None:
        """It can never be delivered."""
        work.outcome = Rejected(reason)
        self.decide(work, work.outcome)

    def defer(self, work: Work, reason: Reason) -> None:
        """It cannot be tried now, through no fault of its own."""
        self.apply(work, defer(reason, work.situation(), self._ladder, self._clock.now()), work.outcome)

    def expire(self, work: Work, outcome: Outcome | None) -> None:
        """No attempt may start any more; `outcome` is that of the last one."""
        self.apply(work, Record(Status.EXPIRED), outcome)

    def leave_behind(self, work: Work, *, ours: bool) -> None:
        """Give up work that is not under way, but not the knowledge that it may have reached the provider."""
        put_off = defer(Reason.BREAKER_OPEN, work.situation(), self._ladder, self._clock.now())
        if ours and work.learned and not isinstance(put_off, Hold):
            self.apply(work, put_off, work.outcome)
        else:
            self._pipeline.abandoned(work)

    def apply(self, work: Work, disposition: Disposition, outcome: Outcome | str | None) -> None:
        """Carry out what was decided; `outcome`, or what stands for it, is written down as the error."""
        match disposition:
            case Record(status) if work.tenure.closed and status is not Status.DELIVERED:
                self._pipeline.abandoned(work)  # its next owner sees for itself
            case Record(status):
                work.phase = Phase.SETTLING
                delivered = isinstance(outcome, Delivered)
                error = _error(outcome)
                sent_at = self._clock.now() if delivered else None
                self._recorder.submit(work.row(self._name, status, error, sent_at=sent_at), work)
            case Forward():
                work.phase = Phase.SETTLING
                self.forwarder.forward(work, disposition, outcome)
            case Hold(after):
                work.phase = Phase.QUEUED
                if work.tenure.leaving:
                    self.leave_behind(work, ours=not work.tenure.closed)
                    return
                work.single = True
                self.parking.park(work, self._clock.monotonic() + after)
            case Skip():
                self._pipeline.settled(work)

    def _unpublishable(self, work: Work, detail: str) -> None:
        """Its copy can never be published: the row is written here."""
        row = work.row(self._name, Status.DLQ, f"unpublishable: {detail}")
        self._recorder.submit(row, work)


def _error(outcome: Outcome | str | None) -> str | None:
    """What stands in `last_error`."""
    if outcome is None or isinstance(outcome, str):
        return outcome
    return None if isinstance(outcome, Delivered) else describe(outcome)
