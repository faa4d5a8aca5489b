"""What one process counts while it works: plain numbers, made into samples only when somebody asks.

For each message it does no more than a few additions. Each field is written by one thread and may be read by any.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ringonce.observe.events import (
    BreakerChanged,
    Event,
    Forwarded,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
    Recorded,
)
from ringonce.observe.metrics import Histogram, Metric, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ringonce.domain.outcome import Outcome
    from ringonce.observe.events import Emit

CLOSED = "closed"


class Meter:
    """Counts for one channel, or for the router."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.since_created = Histogram(Metric.SINCE_CREATED.value.buckets)
        self.since_dispatched = Histogram(Metric.SINCE_DISPATCHED.value.buckets)
        self.attempt_seconds = Histogram(Metric.ATTEMPT_SECONDS.value.buckets)
        self.produce_seconds = Histogram(Metric.PRODUCE_SECONDS.value.buckets)
        self._batch_rows = Histogram(Metric.BATCH_ROWS.value.buckets)
        self._database: dict[str, Histogram] = {}
        self._failures: Counter[str] = Counter()
        self._attempts: dict[tuple[type[Outcome], int | None], int] = {}
        self._terminal: Counter[str] = Counter()
        self._replayed: Counter[str] = Counter()
        self._forwards: Counter[tuple[str, str]] = Counter()
        self._routed: Counter[str] = Counter()
        self._rebalances: Counter[str] = Counter()
        self._changes: Counter[tuple[str, str]] = Counter()
        self._troubled: dict[str, str] = {}  # breakers that are not closed, by destination

    def beside(self, emit: Emit) -> Emit:
        """A subscriber that hears what `emit` hears, after it."""

        def both(event: Event) -> None:
            emit(event)
            self.heard(event)

        return both

    def heard(self, event: Event) -> None:
        """Something has happened."""
        if isinstance(event, Forwarded):
            self._forwards[event.stage, event.reason] += 1
        elif isinstance(event, Recorded):
            self._batch_rows.observe(event.rows)
        elif isinstance(event, BreakerChanged):
            self._changes[event.before, event.after] += 1
            if event.after == CLOSED:
                self._troubled.pop(event.destination, None)
            else:
                self._troubled[event.destination] = event.after
        elif isinstance(event, PartitionsAssigned):
            self._rebalances["assigned"] += 1
        elif isinstance(event, PartitionsRevoked):
            self._rebalances["revoked"] += 1
        elif isinstance(event, PartitionsLost):
            self._rebalances["lost"] += 1

    def attempted(self, outcome: Outcome, seconds: float) -> None:
        """A call to the provider has ended."""
        key = outcome.__class__, getattr(outcome, "status", None)  # http_status() costs several times as much
        self._attempts[key] = self._attempts.get(key, 0) + 1
        self.attempt_seconds.observe(seconds)

    def ended(self, statuses: Iterable[str], replays: Iterable[str]) -> None:
        """Terminal rows are durable: the status of each, and again of those that are a replay's."""
        self._terminal.update(statuses)
        self._replayed.update(replays)

    def asked(self, operation: str, seconds: float, *, ok: bool) -> None:
        """A statement has ended."""
        found = self._database.get(operation)
        if found is None:
            found = self._database[operation] = Histogram(Metric.DATABASE_SECONDS.value.buckets)
        found.observe(seconds)
        if not ok:
            self._failures[operation] += 1

    def routed(self, channel: str) -> None:
        """The router has put a record where it belongs."""
        self._routed[channel] += 1

    def breakers(self) -> Counter[str]:
        """How many circuit breakers are in each state, those that are closed apart."""
        return Counter(list(self._troubled.values()))

    def samples(self) -> Iterator[Sample]:
        """Everything counted so far."""
        yield from self._histograms()
        yield from self._counts()

    def _histograms(self) -> Iterator[Sample]:
        channel = self.channel
        for metric, histogram in (
            (Metric.SINCE_CREATED, self.since_created),
            (Metric.SINCE_DISPATCHED, self.since_dispatched),
            (Metric.ATTEMPT_SECONDS, self.attempt_seconds),
            (Metric.PRODUCE_SECONDS, self.produce_seconds),
            (Metric.BATCH_ROWS, self._batch_rows),
        ):
            if any(histogram.counts):
                yield Sample(metric, (channel,), histogram)
        for operation, histogram in self._database.copy().items():
            yield Sample(Metric.DATABASE_SECONDS, (channel, operation), histogram)
            yield Sample(Metric.DATABASE_FAILURES, (channel, operation), self._failures[operation])

    def _counts(self) -> Iterator[Sample]:
        channel = self.channel
        by_class: Counter[tuple[str, str]] = Counter()
        for (kind, status), count in self._attempts.copy().items():
            by_class[kind.__name__, "none" if status is None else f"{status // 100}xx"] += count
        for (outcome, status_class), count in by_class.items():
            yield Sample(Metric.ATTEMPTS, (channel, outcome, status_class), count)
        for (stage, reason), count in self._forwards.copy().items():
            yield Sample(Metric.FORWARDS, (channel, stage, reason), count)
        for (before, after), count in self._changes.copy().items():
            yield Sample(Metric.BREAKER_CHANGES, (channel, before, after), count)
        for name, count in self._routed.copy().items():
            yield Sample(Metric.ROUTED, (name,), count)
        for metric, counts in (
            (Metric.TERMINAL, self._terminal),
            (Metric.REPLAYED, self._replayed),
            (Metric.REBALANCES, self._rebalances),
        ):
            for value, count in counts.copy().items():
                yield Sample(metric, (channel, value), count)
