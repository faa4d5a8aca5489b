"""Every metric there is: its name, its labels and a sentence about it; and what a measurement looks like.

docs/observability.md is generated from this module, and the alert rules and the dashboard are checked against it.
Labels are closed sets: a channel, a stage, an outcome. Never an id, an address or a text from outside.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROUTER: Final = "router"
"""The label `channel` of what belongs to none: the router, its topics, and its dead letters."""

TO_AN_HOUR: Final = (
    *(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    *(30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)
"""Buckets in seconds for what a recipient waits."""
CALL: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Buckets in seconds for one exchange with a server."""
BATCH: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
"""Buckets in rows."""


class Kind(StrEnum):
    """What may be done with a metric's values."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Description:
    """A metric. A counter's name ends in `_total`; times are seconds."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    sentence: str
    buckets: tuple[float, ...] = ()


def _counter(name: str, labels: str, sentence: str) -> Description:
    return Description(f"ringonce_{name}_total", Kind.COUNTER, tuple(labels.split()), sentence)


def _gauge(name: str, labels: str, sentence: str) -> Description:
    return Description(f"ringonce_{name}", Kind.GAUGE, tuple(labels.split()), sentence)


def _histogram(name: str, labels: str, buckets: tuple[float, ...], sentence: str) -> Description:
    return Description(f"ringonce_{name}", Kind.HISTOGRAM, tuple(labels.split()), sentence, buckets)


class Metric(Enum):
    """All of them, in the order in which an operator asks."""

    OLDEST_AGE = _gauge(
        "oldest_age_seconds",
        "channel stage seen_from",
        "How long the oldest eligible record has been waiting: in a retry stage from when it was due, in a DLQ from"
        " when it died, elsewhere from its timestamp; 0 when none waits. `seen_from` is `inside` (a sender, about what"
        " it holds) or `outside` (the exporter, about all that is not committed).",
    )
    SINCE_CREATED = _histogram(
        "delivery_since_created_seconds",
        "channel",
        TO_AN_HOUR,
        "From a notification's `created_at` to the provider's yes, for each that was delivered.",
    )
    SINCE_DISPATCHED = _histogram(
        "delivery_since_dispatched_seconds",
        "channel",
        TO_AN_HOUR,
        "From when a notification was put into Kafka (the time in `origin`) to the provider's yes.",
    )
    TERMINAL = _counter(
        "terminal_rows", "channel status", "Terminal rows that this process has written, by what became of the record."
    )
    REPLAYED = _counter("replayed_rows", "channel status", "Those among the terminal rows that are a replay's.")
    ATTEMPTS = _counter(
        "attempts",
        "channel outcome status_class",
        "Calls to the provider by outcome; `status_class` is `2xx` to `5xx`, or `none` where there was no answer.",
    )
    ATTEMPT_SECONDS = _histogram("attempt_seconds", "channel", CALL, "How long a call to the provider took.")
    FORWARDS = _counter(
        "forwards", "channel stage reason", "Records put into a later stage, or the DLQ, and acknowledged there."
    )
    ROUTED = _counter("routed", "channel", "Records that the router has put into a channel's topic, or into its DLQ.")
    IN_FLIGHT = _gauge("in_flight", "channel", "Send slots in use.")
    SLOTS = _gauge("send_slots", "channel", "Send slots that there are.")
    UNFINISHED = _gauge("unfinished", "channel", "Records in this process that are eligible and not finished.")
    HELD = _gauge(
        "held",
        "channel reason",
        "Records that wait for something: `breaker` for the provider to recover, `database` and `broker` for ours,"
        " `last-chance` for their next try because they would expire in a retry stage.",
    )
    BREAKERS = _gauge(
        "breakers", "channel state", "Circuit breakers by state: one for a channel, or one for each webhook host."
    )
    BREAKER_CHANGES = _counter("breaker_changes", "channel before after", "Circuit breakers' changes of state.")
    BATCH_ROWS = _histogram("batch_rows", "channel", BATCH, "Terminal rows written with one statement.")
    DATABASE_SECONDS = _histogram(
        "database_seconds",
        "channel operation",
        CALL,
        "How long a statement took: `gate` looks up what has been done, `record` writes rows, `note` attempts.",
    )
    DATABASE_FAILURES = _counter(
        "database_failures", "channel operation", "Statements that the database did not answer, or refused."
    )
    PRODUCE_SECONDS = _histogram(
        "produce_seconds", "channel", CALL, "From handing a record to the producer to its acknowledgement."
    )
    LAG = _gauge(
        "lag_records", "channel stage", "Records behind the committed offsets, those in a retry stage not due included."
    )
    DLQ_RECORDS = _gauge("dlq_records", "channel", "Records that the DLQ's topic holds, recorded or not.")
    HISTORY_ROWS = _gauge("history_rows", "channel status", "Terminal rows in the database.")
    PARTITIONS = _gauge("partitions", "channel stage", "Partitions that this process has.")
    REBALANCES = _counter(
        "rebalances", "channel kind", "Times that partitions were `assigned`, `revoked` in order, or `lost`."
    )
    BEAT_AGE = _gauge(
        "beat_age_seconds",
        "part",
        "Since when a part of the process has made no progress; at 60 the watchdog ends the process.",
    )
    SEEN = _gauge("exporter_seen", "server", "Whether the exporter's last look at `kafka` or `database` succeeded.")
    SEEN_AGE = _gauge("exporter_seen_age_seconds", "server", "How long ago the exporter last saw all of a server.")
    INFO = _gauge("info", "role channel node version", "Always 1: who the process is.")


class Histogram:
    """Counts by bucket, and the sum. One thread observes; any may read."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """One more; what clocks that disagree make negative counts as 0."""
        if value < 0:  # max() costs as much as all the rest
            value = 0.0
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Iterable[float]) -> None:
        """Many more, at a fraction of what so many calls cost."""
        bounds, counts, total = self.bounds, self.counts, 0.0
        for value in values:
            counts[bisect_left(bounds, value)] += 1  # what is negative belongs into the first one, too
            if value > 0:
                total += value
        self.total += total

    def cumulative(self) -> list[tuple[str, float]]:
        """For each upper bound how many lie at or below it, `+Inf` last."""
        found, below = [], 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], list(self.counts), strict=True):
            below += count
            found.append((bound, float(below)))
        return found


class Sample(NamedTuple):
    """One value of a metric, with the labels' values in the order of its description."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Histogram


Source: TypeAlias = "Callable[[], Iterable[Sample]]"
"""Gives the samples of a moment; is called in whichever thread serves them."""
