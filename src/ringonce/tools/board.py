"""What `ringonce top` shows: a line for each channel and stage, out of two readings of the fleet's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ringonce.domain.stages import DLQ, MAIN
from ringonce.observe.metrics import ROUTER, Metric
from ringonce.observe.reading import quantile
from ringonce.tools.age import read_age

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ringonce.observe.reading import Reading

ENTRY: Final = "entry"
LATE: Final = 60.0
"""Seconds after which what waits is shown as late: the limit of the alert rules."""

_FIRST: Final = (ENTRY, MAIN)


class Line(NamedTuple):
    """One channel's stage. What nobody says is None.

    `age`: seconds for which its oldest eligible record has waited; `lag`: records behind the committed offset. The
    others are the channel's, in the line of its first stage: `rate` of terminal rows (of routed records for the
    router) per second, `p50` and `p99` in seconds from dispatch to the provider's yes, send slots in use and there,
    `breakers` that are not closed, records `held`, and dead letters per minute.
    """

    channel: str
    stage: str
    age: float | None = None
    lag: float | None = None
    rate: float | None = None
    p50: float | None = None
    p99: float | None = None
    in_flight: float | None = None
    slots: float | None = None
    breakers: float | None = None
    held: float | None = None
    dead_per_minute: float | None = None

    @property
    def late(self) -> bool:
        """Whether something has waited for too long; in a DLQ it is not waiting for us."""
        return self.stage != DLQ and (self.age or 0.0) >= LATE


def board(before: Reading, after: Reading) -> list[Line]:
    """The lines, channel by channel, each with its stages in the order in which a record comes by them."""
    known = after.labels(Metric.OLDEST_AGE, "channel", "stage") | after.labels(Metric.LAG, "channel", "stage")
    for metric in (Metric.IN_FLIGHT, Metric.TERMINAL):
        known |= {(channel, MAIN) for (channel,) in after.labels(metric, "channel") if channel != ROUTER}
    known |= {(ROUTER, ENTRY) for _ in after.labels(Metric.ROUTED)}
    return [_line(channel, stage, before, after) for channel, stage in sorted(known, key=_order)]


def _order(place: tuple[str, ...]) -> tuple[bool, str, int, float, str]:
    channel, stage = place
    rank = 0 if stage in _FIRST else 2 if stage == DLQ else 1
    delay = read_age(stage.rpartition("-")[2]) or 0.0  # a retry stage is called after its delay
    return channel != ROUTER, channel, rank, delay, stage


def _line(channel: str, stage: str, before: Reading, after: Reading) -> Line:
    line = Line(
        channel,
        stage,
        after.most(Metric.OLDEST_AGE, channel=channel, stage=stage),
        after.sum(Metric.LAG, channel=channel, stage=stage),
    )
    if stage not in _FIRST:
        return line
    buckets = [reading.buckets(Metric.SINCE_DISPATCHED, channel=channel) for reading in (before, after)]
    states = after.values(Metric.BREAKERS, channel=channel)
    closed = after.values(Metric.BREAKERS, channel=channel, state="closed")
    return line._replace(
        rate=_rate(channel, before, after),
        p50=quantile(0.5, *buckets),
        p99=quantile(0.99, *buckets),
        in_flight=after.sum(Metric.IN_FLIGHT, channel=channel),
        slots=after.sum(Metric.SLOTS, channel=channel),
        breakers=sum(states) - sum(closed) if states else None,
        held=after.sum(Metric.HELD, channel=channel),
        dead_per_minute=_dead(channel, before, after),
    )


def _rate(channel: str, before: Reading, after: Reading) -> float | None:
    if channel == ROUTER:
        return _grown(before, after, before.sum(Metric.ROUTED), after.sum(Metric.ROUTED))
    inside = [reading.sum(Metric.TERMINAL, channel=channel) for reading in (before, after)]
    outside = [reading.sum(Metric.HISTORY_ROWS, channel=channel) for reading in (before, after)]
    # A process counts at once; the exporter knows the rows of processes that cannot be asked, but counts now and then.
    return _grown(before, after, *(outside if inside[1] is None else inside))


def _dead(channel: str, before: Reading, after: Reading) -> float | None:
    if channel == ROUTER:
        return None
    inside = [reading.sum(Metric.FORWARDS, channel=channel, stage=DLQ) for reading in (before, after)]
    outside = [reading.sum(Metric.DLQ_RECORDS, channel=channel) for reading in (before, after)]
    if inside[1] is None and outside[1] is None and after.sum(Metric.SLOTS, channel=channel) is not None:
        return 0.0  # a sender that has counted none yet
    grown = _grown(before, after, *(outside if inside[1] is None else inside))
    return None if grown is None else grown * 60.0


def _grown(before: Reading, after: Reading, first: float | None, then: float | None) -> float | None:
    """By how much per second; None where nobody counts, or counting began anew."""
    seconds = after.at - before.at
    if then is None or seconds <= 0:
        return None
    grown = then - (first or 0.0)
    return grown / seconds if grown >= 0 else None


def cells(lines: Sequence[Line]) -> list[list[str]]:
    """The lines for a person, without a head; see `HEAD`."""
    found = []
    for line in lines:
        slots = "-" if line.in_flight is None else f"{line.in_flight:.0f}/{line.slots or 0:.0f}"
        breaker = "-" if line.breakers is None else f"{line.breakers:.0f} open" if line.breakers else "closed"
        found.append(
            [
                line.channel if line.stage in _FIRST else "",
                line.stage,
                _span(line.age),
                _count(line.lag),
                _count(line.rate),
                _span(line.p50),
                _span(line.p99),
                slots,
                breaker,
                _count(line.held),
                _count(line.dead_per_minute),
            ]
        )
    return found


HEAD: Final = ("CHANNEL", "STAGE", "OLDEST", "LAG", "ROWS/S", "P50", "P99", "IN FLIGHT", "BREAKER", "HELD", "DLQ/MIN")


def _count(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"  # noqa: PLR2004 - two digits


def _span(seconds: float | None) -> str:
    """A time in two or three digits."""
    if seconds is None:
        return "-"
    if seconds == 0:
        return "0"
    for limit, unit, size in ((1.0, "ms", 0.001), (120.0, "s", 1.0), (7200.0, "m", 60.0)):
        if seconds < limit:
            amount = seconds / size
            return f"{amount:.1f} {unit}" if unit == "s" and amount < 10 else f"{amount:.0f} {unit}"  # noqa: PLR2004
    return f"{seconds / 3600:.0f} h"
