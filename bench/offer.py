"""An open-loop load: records are due by the clock, whether the fleet keeps up or not."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Final

from bench.figures import percentile
from bench.letters import Post

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from bench.letters import Letter

TICK: Final = 0.002
LINGER: Final = 0.002


@dataclass(frozen=True, slots=True)
class Offered:
    """When each record was due, in seconds since the epoch, by id; and how late the worst of them was handed over."""

    due: Mapping[str, float]
    late: float

    def after(self, seconds: float) -> dict[str, float]:
        """Those due later than so many seconds after the first: without the warm-up."""
        first = min(self.due.values())
        return {key: moment for key, moment in self.due.items() if moment - first >= seconds}

    def only(self, ids: Collection[str], seconds: float) -> dict[str, float]:
        """Those of `ids` that were due after the warm-up."""
        return {key: moment for key, moment in self.after(seconds).items() if key in ids}


def offer(bootstrap: str, load: Sequence[Letter], rate: float) -> Offered:
    """Produce `load` at `rate` per second.

    A record's time is when it was due: what a late producer makes it wait counts as latency, too. The first record goes
    ahead and has no time: with it the producer finds its broker, which takes half a second.
    """
    post = Post(bootstrap, LINGER)
    post.put(load[0])
    post.flush()
    began, epoch, late = monotonic(), time(), 0.0
    for number, letter in enumerate(load[1:]):
        due = number / rate
        while (elapsed := monotonic() - began) < due:
            post.poll()
            sleep(min(TICK, due - elapsed))
        late = max(late, elapsed - due)
        post.put(letter)
    post.flush()
    return Offered({letter.id: epoch + number / rate for number, letter in enumerate(load[1:])}, late)


def waits(due: Mapping[str, float], reached: Mapping[str, float]) -> list[float]:
    """Seconds from when each was due to when it got there; who never did is not in it."""
    return [reached[key] - moment for key, moment in due.items() if key in reached]


def p99_ms(due: Mapping[str, float], reached: Mapping[str, float]) -> float:
    """The 99th percentile of `waits`, in milliseconds."""
    return percentile(waits(due, reached), 0.99) * 1000


def pace(due: Mapping[str, float], reached: Mapping[str, float]) -> float:
    """Records per second that got there while these were due: late ones do not count."""
    start, end = min(due.values()), max(due.values())
    return sum(1 for key in due if key in reached and reached[key] <= end) / (end - start)
