"""Keeps an eye on a fleet from outside, so that its ages are known when its processes are dead.

Kafka and the database are looked at in a thread each: one that does not answer holds up nothing of the other. What was
seen counts until the next look fails; then nothing is said instead of something old.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from ringonce.domain.stages import DLQ
from ringonce.errors import RingonceError
from ringonce.observe.metrics import ROUTER, Metric, Sample
from ringonce.runtime.letters import open_letter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ringonce.kafka.outside import Ahead
    from ringonce.kafka.port import Record
    from ringonce.runtime.clock import Clock
    from ringonce.store.schema import Count

log = logging.getLogger("ringonce")

OUTSIDE: Final = "outside"
LEISURE: Final = 20.0
"""Seconds of pause for each second that counting rows took: it must not become the database's main work."""

GRACE: Final = 2.0
"""Seconds that a look which is under way may still take when the process ends."""
LONGEST_WAIT: Final = 5.0
OVERDUE: Final = 60.0
"""Seconds after which a look that does not come back makes what was seen before worthless."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Post:
    """A group in one of its topics. `delay`: seconds from a record's append until it is due."""

    group: str
    topic: str
    channel: str
    stage: str
    delay: float = 0.0


class Sight(NamedTuple):
    """What lies before a post. `since`: when its oldest record became eligible, or will (seconds since the epoch)."""

    post: Post
    lag: int
    size: int
    since: float | None


class Groups(Protocol):
    """Where groups stand."""

    def ahead(self, group: str, topic: str) -> Ahead:
        """What lies before `group` in `topic`; raises `ServerUnreachable`."""
        ...


class Look(Generic[T]):
    """Asks one server again and again, in a thread of its own; ``with Look(…):``.

    Args:
        server: its name in the log and in the metrics.
        ask: brings everything that is wanted; raises `RingonceError`.
        clock: for ages.
        interval: seconds between two looks, at least.
        leisure: seconds of pause for each second that a look took.
    """

    def __init__(self, server: str, ask: Callable[[], T], clock: Clock, interval: float, leisure: float = 0.0) -> None:
        self.server = server
        self._ask = ask
        self._clock = clock
        self._interval = interval
        self._leisure = leisure
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"look-{server}", daemon=True)
        self._seen: T | None = None
        self._seen_at = self._due = self.beat = clock.monotonic()
        self.trouble = "nothing was seen yet"
        """What is wrong, or nothing."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(GRACE)

    @property
    def seen(self) -> T | None:
        """What the last look has brought; None when it failed, or is overdue."""
        return None if self.trouble or self.age > OVERDUE else self._seen

    @property
    def age(self) -> float:
        """Seconds by which the next look is overdue, or that have passed since the last one that succeeded."""
        now = self._clock.monotonic()
        return now - self._seen_at if self.trouble or now < self._due else now - self._due

    def look(self) -> None:
        """Look once."""
        began = self.beat = self._clock.monotonic()
        try:
            self._seen = self._ask()
        except RingonceError as error:
            if not self.trouble or self._seen is not None:
                log.warning("the exporter sees nothing of %s", self.server, extra={"reason": str(error)})
            self._seen, self.trouble = None, "it does not answer"
        else:
            if self.trouble:
                log.info("the exporter sees %s", self.server)
            self.trouble, self._seen_at = "", self._clock.monotonic()
        self.beat = self._clock.monotonic()
        self._due = self.beat + max(self._interval, 0.0 if self.trouble else self._leisure * (self.beat - began))

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._clock.monotonic() >= self._due:
                self.look()
            self._stopping.wait(min(LONGEST_WAIT, max(0.0, self._due - self._clock.monotonic())))
            self.beat = self._clock.monotonic()


class Surveyor:
    """Turns what the looks have seen into samples; `kafka` and `database` are looks."""

    def __init__(self, kafka: Look[list[Sight]], database: Look[list[Count]], clock: Clock) -> None:
        self._kafka = kafka
        self._database = database
        self._clock = clock

    def samples(self) -> Iterator[Sample]:
        """Everything seen; ages are those of this moment."""
        for look in (self._kafka, self._database):
            yield Sample(Metric.SEEN, (look.server,), float(look.seen is not None))
            yield Sample(Metric.SEEN_AGE, (look.server,), look.age)
        now = self._clock.now()
        for sight in self._kafka.seen or ():
            channel, stage = sight.post.channel, sight.post.stage
            age = 0.0 if sight.since is None else max(0.0, now - sight.since)
            yield Sample(Metric.OLDEST_AGE, (channel, stage, OUTSIDE), age)
            yield Sample(Metric.LAG, (channel, stage), sight.lag)
            if stage == DLQ:
                yield Sample(Metric.DLQ_RECORDS, (channel,), sight.size)
        for count in self._database.seen or ():
            yield Sample(Metric.HISTORY_ROWS, (count.channel or ROUTER, count.status), count.rows)


def survey(groups: Groups, posts: Sequence[Post]) -> list[Sight]:
    """Look at every post.

    Raises:
        ServerUnreachable: the broker did not answer.
    """
    found = []
    for post in posts:
        ahead = groups.ahead(post.group, post.topic)
        since = min((eligible_since(post, record) for record in ahead.firsts), default=None)
        found.append(Sight(post, ahead.lag, ahead.size, since))
    return found


def eligible_since(post: Post, record: Record) -> float:
    """When a record became eligible, or will: when it is due in a retry stage, when it died in a DLQ."""
    if post.stage == DLQ:
        return open_letter(record, None, 0.0).died_at
    return record.timestamp_ms / 1000 + post.delay
