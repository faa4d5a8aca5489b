"""Connects a running role with what counts it, and reads from it, for a scrape, what needs no counting.

Whoever scrapes does so in another thread. It only reads, and looks again when something has changed under its eyes, so
that no lock stands in the way of the work.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

from ringonce.domain.disposition import Status
from ringonce.domain.notification import NANOS
from ringonce.observe.events import Ended
from ringonce.observe.meter import CLOSED
from ringonce.observe.metrics import ROUTER, Metric, Sample
from ringonce.runtime.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ringonce.observe.meter import Meter
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.pipeline import Handler, Pipeline
    from ringonce.runtime.router import Router
    from ringonce.runtime.work import Work
    from ringonce.store.port import HistoryRow

T = TypeVar("T")

LOOKS: Final = 20
"""How often something is looked at that changes meanwhile; a look takes microseconds."""
INSIDE: Final = "inside"


def steady(look: Callable[[], T]) -> T | None:
    """What `look` returns, once nothing has changed while it looked; None when something always does."""
    for _ in range(LOOKS):
        try:
            return look()
        except RuntimeError:  # "changed size during iteration"
            continue
    return None


def tell_endings(pipeline: Pipeline) -> None:
    """Have an event for each terminal row; for a process that logs every message, beside whoever counts them."""
    recorder, emit = pipeline.recorder, pipeline.around.emit
    counted = recorder.written

    def written(batch: list[tuple[HistoryRow, Work]]) -> None:
        if counted is not None:
            counted(batch)
        for row, work in batch:
            emit(Ended(row.notification_id, work.trace_id, work.stage, row.status, row.attempts))

    recorder.written = written


class PipelineInstruments:
    """A sender's, or a DLQ recorder's."""

    def __init__(self, pipeline: Pipeline, handler: Handler, meter: Meter, clock: Clock) -> None:
        self._pipeline = pipeline
        self._meter = meter
        self._clock = clock
        self._sender = handler if isinstance(handler, Sender) else None
        pipeline.recorder.written = self._written
        if self._sender is not None:
            self._sender.watch(meter.attempted)

    def _written(self, batch: Sequence[tuple[HistoryRow, Work]]) -> None:
        # For each row there is: the value of its status, because an enum's hash is a call; and no call of ours.
        meter = self._meter
        replays = [row.status.value for row, _ in batch if row.replay_of is not None]
        meter.ended([row.status.value for row, _ in batch], replays)
        created: list[float] = []
        dispatched: list[float] = []
        for row, work in batch:
            sent_at = row.sent_at
            if sent_at is None or row.status is not Status.DELIVERED:
                continue
            envelope = work.envelope
            dispatched.append(sent_at - envelope.origin.timestamp_ms / 1000)
            if envelope.notification is not None and (moment := envelope.notification.created_at) is not None:
                created.append(sent_at - moment.seconds - moment.nanos / NANOS)
        meter.since_created.observe_all(created)
        meter.since_dispatched.observe_all(dispatched)

    def samples(self) -> Iterator[Sample]:
        """How the role stands now."""
        pipeline, intake, channel = self._pipeline, self._pipeline.intake, self._meter.channel
        now = self._clock.now()
        oldest = steady(intake.oldest)
        for stage in pipeline.profile.stages.values():
            if oldest is not None:
                age = max(0.0, now - oldest[stage.name]) if stage.name in oldest else 0.0
                yield Sample(Metric.OLDEST_AGE, (channel, stage.name, INSIDE), age)
        for stage_name, number in (steady(intake.partitions_by_stage) or {}).items():
            yield Sample(Metric.PARTITIONS, (channel, stage_name), number)
        yield Sample(Metric.UNFINISHED, (channel,), intake.active)
        if self._sender is None:
            held = pipeline.recorder.pending if pipeline.recorder.held else 0
            yield Sample(Metric.HELD, (channel, "database"), held)
            return
        standing = steady(self._sender.standing)
        if standing is None:
            return
        yield Sample(Metric.IN_FLIGHT, (channel,), standing.in_flight)
        yield Sample(Metric.SLOTS, (channel,), standing.slots)
        for reason, waiting in standing.held.items():
            yield Sample(Metric.HELD, (channel, reason), waiting)
        for state, number in self.breakers(standing.breakers).items():
            yield Sample(Metric.BREAKERS, (channel, state), number)

    def breakers(self, number: int | None = None) -> Mapping[str, int]:
        """How many circuit breakers are in which state."""
        if number is None:
            standing = None if self._sender is None else steady(self._sender.standing)
            number = 0 if standing is None else standing.breakers
        found = Counter({CLOSED: 0, "open": 0, "half-open": 0})
        found.update(self._meter.breakers())
        found[CLOSED] = max(0, number - found.total())
        return found

    # What the role needs in order to be of use: what is wrong, or nothing

    def unassigned(self) -> str:
        """Whether it has partitions."""
        return "" if self._pipeline.intake.partitions else "no partitions are assigned"

    def database_held(self) -> str:
        """Whether rows wait for the database."""
        return "rows wait for it" if self._pipeline.recorder.held else ""

    def broker_held(self) -> str:
        """Whether the group or a forward waits for the broker."""
        if self._sender is not None and self._sender.broker_away:
            return "records wait for it"
        return "too long without a poll to be sure of the group" if self._pipeline.consumer.stale() else ""


class RouterInstruments:
    """The router's; `channels` names the channel of each topic."""

    def __init__(self, router: Router, meter: Meter, channels: Mapping[str, str]) -> None:
        self._router = router
        self._meter = meter
        self._channels = channels
        router.acknowledged = self._acknowledged

    def _acknowledged(self, topic: str) -> None:
        self._meter.routed(self._channels.get(topic, ROUTER))

    def samples(self) -> Iterator[Sample]:
        """How it stands now."""
        yield Sample(Metric.UNFINISHED, (ROUTER,), self._router.open)
        yield Sample(Metric.HELD, (ROUTER, "broker"), self._router.held)
        yield Sample(Metric.PARTITIONS, (ROUTER, "entry"), self._router.partitions)

    def unassigned(self) -> str:
        """Whether it has partitions."""
        return "" if self._router.partitions else "no partitions are assigned"

    def broker_held(self) -> str:
        """Whether records wait for the broker."""
        return "records wait for it" if self._router.held else ""
