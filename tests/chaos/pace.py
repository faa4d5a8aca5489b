"""I4, others do not notice, and I6, it recovers alone: both read off the times at which rows were written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from tests.chaos.checker import Verdict
from tests.chaos.sent import Fate, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tests.chaos.sent import Sent
    from tests.fixtures.rows import Row

SHARE: Final = 0.9
"""Of the throughput that has to be kept, or reached again."""
FACTOR: Final = 2.0
"""By which the p99 may grow."""
FLOOR: Final = 0.5
"""Seconds below which a p99 tells more of the machine than of us."""
SPAN: Final = 2.0
"""Seconds of the window in which a rate is counted."""
STEP: Final = 0.1
STAYS: Final = 3.0
"""Seconds for which a rate has to hold to count as recovered; one stumble later on is the machine's."""
RECOVERY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run, in seconds since 1970; its end does not belong to it."""

    start: float
    end: float

    def __contains__(self, moment: float) -> bool:
        return self.start <= moment < self.end

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Pace:
    """What one window saw. `p99` in seconds from the produce to the row; infinite where rows are missing."""

    offered: int
    recorded: int
    p99: float

    @property
    def share(self) -> float:
        """Of what was offered that was recorded in the window; at most 1, as a backlog is no achievement."""
        return min(1.0, self.recorded / self.offered) if self.offered else 0.0


def _first(sent: Iterable[Sent]) -> list[Sent]:
    """One for each key that has to get a row by being delivered: repetitions and nonsense tell nothing of pace."""
    found: dict[str, Sent] = {}
    for one in sorted(sent, key=lambda one: one.at):
        if one.fate is Fate.OK:
            found.setdefault(one.key, one)
    return [one for one in found.values() if one.kind is Kind.PLAIN]


def _recorded_at(one: Sent, rows: Mapping[str, Row]) -> float:
    row = rows.get(one.key)
    return inf if row is None else float(row["recorded_at"].timestamp())


def pace(sent: Iterable[Sent], rows: Mapping[str, Row], window: Window) -> Pace:
    """What a window saw of these."""
    plain = _first(sent)
    offered = [one for one in plain if one.at in window]
    waits = sorted(_recorded_at(one, rows) - one.at for one in offered)
    recorded = sum(_recorded_at(one, rows) in window for one in plain)
    return Pace(len(offered), recorded, waits[ceil(0.99 * len(waits)) - 1] if waits else inf)


def _channel(one: Sent) -> str:
    return one.channel


def undisturbed(
    sent: Sequence[Sent],
    rows: Mapping[str, Row],
    fault: Window,
    calm: Window,
    bystanders: Collection[str],
    *,
    group: Callable[[Sent], str | None] = _channel,
    floor: float = FLOOR,
) -> Verdict:
    """I4: during a fault the others keep their throughput and their p99.

    Args:
        sent: what came in.
        rows: the history by id.
        fault: while something was broken.
        calm: while nothing was, in the same run.
        bystanders: the groups that were not to notice.
        group: to which a record belongs: its channel, or its host.
        floor: a p99 up to here is never too long.
    """
    told, ok = [], bool(bystanders)
    for name in sorted(bystanders):
        ours = [one for one in sent if group(one) == name]
        before, during = pace(ours, rows, calm), pace(ours, rows, fault)
        kept = during.share >= SHARE * before.share and during.p99 <= max(floor, FACTOR * before.p99)
        ok = ok and kept and before.recorded > 0 and during.offered > 0
        told.append(
            f"{name} recorded {during.share:.0%} of {during.offered} (calm {before.share:.0%} of {before.offered}),"
            f" p99 {during.p99:.2f} s (calm {before.p99:.2f} s)"
        )
    return Verdict("I4", ok, "; ".join(told) or "nobody was looked at")


def seconds_to_recover(sent: Sequence[Sent], rows: Mapping[str, Row], after: Window) -> float | None:
    """I6: seconds from the fault's end to the first moment from which on rows come at the rate that is offered.

    Counted in sliding windows; the moment is the beginning of the first one. None when there is none, or too little was
    offered to tell.

    Args:
        sent: what came in; pass only those of the channels that were hit.
        rows: the history by id.
        after: from the fault's end to the end of the load, or to the next fault.
    """
    plain = _first(sent)
    offered = sum(one.at in after for one in plain)
    steps = int((after.seconds - SPAN) / STEP) + 1
    if not offered or steps < 1:
        return None
    counts = [0] * (steps + ceil(SPAN / STEP) + 1)
    for one in plain:
        slot = (_recorded_at(one, rows) - after.start) / STEP
        if 0 <= slot < len(counts):
            counts[int(slot)] += 1
    sums = [0, *accumulate(counts)]
    enough = SHARE * SPAN * offered / after.seconds
    width, stays = round(SPAN / STEP), round(STAYS / STEP)
    good = [sums[step + width] - sums[step] >= enough for step in range(steps)]
    since = next((step for step in range(steps) if all(good[step : step + stays])), None)
    return None if since is None else since * STEP


def recovered(sent: Sequence[Sent], rows: Mapping[str, Row], after: Window, limit: float = RECOVERY) -> Verdict:
    """I6: it recovers alone, within `limit` seconds; for the arguments see `seconds_to_recover`."""
    seconds = seconds_to_recover(sent, rows, after)
    if seconds is None:
        return Verdict("I6", ok=False, text=f"not at {SHARE:.0%} of the offered rate within {after.seconds:.1f} s")
    text = f"at {SHARE:.0%} of the offered rate {seconds:.1f} s after the fault's end, allowed {limit:g}"
    return Verdict("I6", seconds <= limit, text)
