"""Sends dead letters again: the value unchanged, a new identity in the headers."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ringonce.domain.identity import replay_id
from ringonce.errors import ConfigurationError, ServerUnreachable
from ringonce.kafka import headers as names
from ringonce.kafka.codec import with_channel
from ringonce.kafka.port import PublishFailed, Unpublishable
from ringonce.runtime.failpoints import Failpoints, Point
from ringonce.runtime.selection import Verdict
from ringonce.runtime.sieve import BATCH

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ringonce.kafka.port import Headers, Record
    from ringonce.kafka.producer import KafkaProducer
    from ringonce.kafka.reader import BoundedReader
    from ringonce.runtime.clock import Clock
    from ringonce.runtime.letters import DeadLetter
    from ringonce.runtime.order import Order
    from ringonce.runtime.selection import Rules
    from ringonce.runtime.sieve import Sieve
    from ringonce.store.replays import Standing

ANSWER: Final = 60.0
"""Seconds without any acknowledgement after which the broker counts as away."""
ANSWER_TO_STOP: Final = 10.0
"""The same, once the replay is to stop."""


def replay_headers(letter: DeadLetter, rules: Rules) -> Headers:
    """The headers of a letter's next replay.

    `origin`, `maybe.reached` and an explicit `idempotency.key` stay, the latter unless it is renewed; the counts of the
    last run go.
    """
    count = letter.replay + 1
    changes = {
        names.ORIGIN: str(letter.envelope.origin),
        names.NOTIFICATION_ID: replay_id(letter.root, count),
        names.REPLAY_OF: letter.root,
        names.REPLAY_COUNT: str(count),
        names.RETRY_COUNT: None,
        names.ATTEMPTS: None,
        names.DEFERRED_SINCE: None,
        names.ERROR_CLASS: None,
        names.ERROR_MESSAGE: None,
        names.ERROR_TIMESTAMP: None,
        names.ERROR_STATUS: None,
        names.ORIGINAL_TOPIC: None,
        names.PREVIOUS_TOPIC: None,
        names.FORWARD_REASON: None,
    }
    if rules.fresh_key:
        changes[names.IDEMPOTENCY_KEY] = fresh_key(letter.root, count)
    if rules.fix is not None:
        changes[names.CHANNEL] = rules.fix.wire_name
    return names.replace(letter.record.headers, changes)


def fresh_key(root: str, count: int) -> str:
    """An Idempotency-Key that no receiver has seen: the same for every copy of one replay."""
    return f"fresh-{count}-{hashlib.sha256(root.encode()).hexdigest()}"


@dataclass(slots=True)
class Progress:
    """How far a replay has come.

    Args:
        positions: by partition, the offset before which everything is done.
        published: records that are acknowledged.
        verdicts: the letters that were skipped, by what spoke against them; those not asked for are among them.
        total: letters that were asked for.
        seen: of these, those that have been looked at.
        finished: whether there is nothing left to do.
        before: whether that was so before this process began.
    """

    positions: dict[int, int]
    published: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    total: int = 0
    seen: int = 0
    finished: bool = False
    before: bool = False

    @property
    def skipped(self) -> int:
        """Letters that were asked for and not sent."""
        return self.verdicts.total() - self.verdicts[Verdict.OTHER]


def begin(order: Order, found: Standing | None, reader: BoundedReader) -> tuple[Order, Progress]:
    """The order as it is to be understood, and where it begins; `reader` ends where it ends.

    Args:
        order: what was asked for now.
        found: what is written down of the replay of that name, if anything.
        reader: of its DLQ.

    Raises:
        ConfigurationError: the replay of that name was asked for something else.
    """
    if found is None:
        # Where it makes a choice, letters that an earlier replay has passed by may be among the chosen.
        return order, Progress(dict(reader.starts if order.plain else reader.lows))
    asked = order.asked()
    if found.asked != asked:
        differ = ", ".join(sorted(name for name in asked if found.asked.get(name) != asked[name]))
        fault = f"the replay {order.name!r} was begun with another choice of {differ}: repeat it, or use another name"
        raise ConfigurationError([fault])
    reader.limit(found.ends)
    selection = replace(order.selection, since=found.since, until=found.until)
    verdicts = Counter({Verdict(name): number for name, number in found.skipped.items()})
    progress = Progress(
        dict(found.positions), found.published, verdicts, finished=found.finished, before=found.finished
    )
    progress.seen = progress.published + progress.skipped
    return replace(order, selection=selection), progress


@dataclass(frozen=True, slots=True)
class Means:
    """What a replay works with: `topic` is where it publishes to, `clock` paces it."""

    reader: BoundedReader
    producer: KafkaProducer
    topic: str
    clock: Clock
    failpoints: Failpoints


class Replay:
    """Replays one DLQ up to the reader's end.

    Args:
        means: what it works with.
        sieve: which letters; surveyed.
        progress: where it begins; kept up to date.
        limit: the most that are published, in all; None for no limit.
        rate: the most that are published in a second; None for no limit.
        keep: told of the progress after each batch, once all of it is acknowledged.
    """

    def __init__(
        self,
        means: Means,
        sieve: Sieve,
        progress: Progress,
        *,
        limit: int | None = None,
        rate: float | None = None,
        keep: Callable[[Progress], None],
    ) -> None:
        self._means = means
        self._sieve = sieve
        self._progress = progress
        self._limit = limit
        self._rate = rate
        self._keep = keep
        self._open = 0
        self._again: list[tuple[Record, Headers]] = []
        self._published = 0
        self._due = 0.0

    def run(self, stop: threading.Event) -> None:
        """Publish until the end, the limit, or until `stop` is set.

        Raises:
            ServerUnreachable: a server has gone away; what was kept until then holds.
        """
        reader, progress = self._means.reader, self._progress
        reader.seek(progress.positions)
        self._due = self._means.clock.monotonic()
        while not stop.is_set():
            most = self._most()
            batch = reader.next(most) if most > 0 else None
            if batch is None:
                progress.finished = True
                if most > 0:
                    progress.positions.update(reader.ends)
                self._keep(progress)
                return
            if batch:
                self._carry_out(batch, stop)

    def _most(self) -> int:
        """How many records the next batch may have: never more than may still be published, a second's at most."""
        left = BATCH if self._limit is None else self._limit - self._progress.published
        return min(BATCH, left, BATCH if self._rate is None else max(1, int(self._rate)))

    def _carry_out(self, batch: list[Record], stop: threading.Event) -> None:
        progress = self._progress
        self._published = 0
        positions: dict[int, int] = {}
        verdicts: Counter[Verdict] = Counter()
        for letter, verdict in self._sieve.sift(batch):
            if verdict is Verdict.GO:
                self._wait(stop)
            if stop.is_set():
                break
            verdicts[verdict] += 1
            if verdict is Verdict.GO:
                self._send(letter)
            positions[letter.record.partition.number] = letter.record.offset + 1
        if not self._settle(stop):
            return  # what it comes to is not known: these are published again, under the same ids
        progress.seen += verdicts.total() - verdicts[Verdict.OTHER]
        verdicts[Verdict.UNPUBLISHABLE] += verdicts.pop(Verdict.GO, 0) - self._published
        progress.positions.update(positions)
        progress.published += self._published
        progress.verdicts.update(verdicts)
        self._keep(progress)

    def _wait(self, stop: threading.Event) -> None:
        """Until the next record may go."""
        if self._rate is None:
            return
        clock = self._means.clock
        while (rest := self._due - clock.monotonic()) > 0 and not stop.is_set():
            self._means.producer.poll(min(rest, 0.1))
        # What was missed meanwhile (a slow database) is not made up for by a burst.
        self._due = max(self._due, clock.monotonic() - 1.0) + 1.0 / self._rate

    def _send(self, letter: DeadLetter) -> None:
        record, fix = letter.record, self._sieve.rules.fix
        if fix is not None and record.value is not None:
            record = record._replace(value=with_channel(record.value, fix))
        self._publish(record, replay_headers(letter, self._sieve.rules))

    def _publish(self, record: Record, headers: Headers) -> None:
        self._open += 1

        def done(failure: PublishFailed | None) -> None:
            self._open -= 1
            if failure is None:
                self._published += 1
                self._means.failpoints.hit(Point.AFTER_PUBLISH)
            elif not isinstance(failure, Unpublishable):  # such stay in the DLQ, where their row already says why
                self._again.append((record, headers))

        self._means.producer.publish(self._means.topic, record.key, record.value, headers, done)
        self._means.producer.poll(0)

    def _settle(self, stop: threading.Event) -> bool:
        """Wait until everything is acknowledged; whether it is."""
        clock, producer = self._means.clock, self._means.producer
        since, before = clock.monotonic(), self._published
        while self._open or self._again:
            again, self._again = self._again, []
            for record, headers in again:
                self._publish(record, headers)
            producer.poll(0.1)
            if self._published > before:
                since, before = clock.monotonic(), self._published
            silence = clock.monotonic() - since
            if stop.is_set() and silence > ANSWER_TO_STOP:
                return False
            if silence > ANSWER:
                raise ServerUnreachable("Kafka", self._means.reader.bootstrap, f"no acknowledgement for {ANSWER:g} s")
        return True
