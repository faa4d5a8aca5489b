"""I5, offsets never pass unfinished work: looks ten times a second at what is committed, and then at what is done.

The order within a look is what proves something: committed offsets first, then where the next topics end, then the
rows. What is not there then was not there when the offset was committed. What cannot be asked then, because a server is
away, is asked at the next look. A row has to be older than the moment at which the offset was seen, however late it is
asked for: the database's clock is this machine's.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.chaos.duties import ANSWER, Duty, Registrar, duties

from ringonce.channels.registry import CHANNELS
from ringonce.kafka.port import Partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.chaos.follower import Copy, Follower
    from tests.fixtures.site import Site

log = logging.getLogger(__name__)

INTERVAL: Final = 0.1
SETTLING: Final = 15.0
"""Seconds at the end for what could not be judged before."""
ASKED_AT_ONCE: Final = 5000
MOST_FINDINGS: Final = 50
"""Findings that are spelt out; a sampler that finds more only counts them."""


@dataclass(slots=True)
class Covered:
    """An offset below a committed one, until it is judged. `seen_at` is when that was seen, in seconds since 1970."""

    duty: Duty
    partition: Partition
    offset: int
    seen_at: float
    marks: Mapping[Partition, int] | None = None
    asked: bool = False
    ended_at: float | None = None
    """when its row was written; None while there is none"""


class Sampler:
    """``with Sampler(site, follower):`` looks until the end of the block, and then judges what is left.

    The results may be read at any time; they are final after `stop`.
    """

    def __init__(self, site: Site, follower: Follower, channels: Iterable[str] = CHANNELS) -> None:
        self.findings: list[str] = []
        """what was wrong, the first `MOST_FINDINGS` of it"""
        self.violations = 0
        """how much was wrong"""
        self.samples = 0
        """looks at all groups' offsets"""
        self.missed = 0
        """looks at which no broker said what is committed"""
        self.late = 0
        """looks that had to leave something to the next one: a server was away, or the follower behind"""
        self.covered = 0
        """offsets that were judged"""
        self._follower = follower
        self._duties = {(duty.group, duty.topic): duty for duty in duties(site.names, channels)}
        # Strangers who only ask: they never join. (AdminClient.list_consumer_group_offsets would do, but the library
        # crashes in it when a coordinator is not ready.)
        self._groups = {
            group: Consumer(
                {"bootstrap.servers": site.bootstrap, "group.id": group, "reconnect.backoff.max.ms": 500}, logger=log
            )
            for group in sorted({duty.group for duty in self._duties.values()})
        }
        self._registrar = Registrar(site.database_url)
        self._commits: dict[tuple[str, Partition], int] = {}  # as last seen
        self._reached: dict[tuple[str, Partition], int] = {}  # the highest that was ever seen
        self._open: list[Covered] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def unjudged(self) -> int:
        """How many offsets are still to be judged; after `stop`, how many never could be."""
        return len(self._open)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look for the last time; returns when all that can be judged is."""
        self._stopping.set()
        self._thread.join()
        self._registrar.close()
        for consumer in self._groups.values():
            consumer.close()

    # In its thread

    def _run(self) -> None:
        try:
            while not self._stopping.wait(INTERVAL):
                self._look()
            deadline = time.monotonic() + SETTLING
            self._look()
            while self._open and time.monotonic() < deadline:
                time.sleep(INTERVAL)
                self._look()
        except Exception as error:  # noqa: BLE001 - one that sees nothing must not look like one that finds nothing
            self._find(f"the sampler has died: {error!r}")

    def _look(self) -> None:
        try:
            committed = self._committed()
        except KafkaException:
            self.missed += 1
        else:
            self.samples += 1
            self._cover(committed, time.time())
        self._mark()
        self._ask()
        self._open = [one for one in self._open if not self._judge(one)]
        self.late += any(one.marks is None or not one.asked for one in self._open)

    def _committed(self) -> dict[tuple[str, Partition], int]:
        """What every group has committed."""
        found = {}
        for group, consumer in self._groups.items():
            ours = [place for place in self._follower.partitions if (group, place.topic) in self._duties]
            asked = [TopicPartition(*place) for place in ours]
            for place in consumer.committed(asked, timeout=ANSWER):
                if place.error is not None:
                    raise KafkaException(place.error)
                if place.offset >= 0:
                    found[group, Partition(place.topic, place.partition)] = place.offset
        return found

    def _cover(self, committed: Mapping[tuple[str, Partition], int], now: float) -> None:
        """Take in what lies below a committed offset and did not before."""
        for (group, partition), before in self._commits.items():
            after = committed.get((group, partition), 0)
            if after < before:
                self._find(f"{group} went back in {partition} from {before} to {after or 'nothing'}")
                self._commits[group, partition] = after
        for (group, partition), after in committed.items():
            duty = self._duties.get((group, partition.topic))
            if duty is not None:
                self._commits[group, partition] = after
                reached = self._reached.get((group, partition), 0)
                self._open += [Covered(duty, partition, offset, now) for offset in range(reached, after)]
                self._reached[group, partition] = max(reached, after)

    def _mark(self) -> None:
        """Where the topics end in which a copy may lie: what comes to lie behind it came too late."""
        unmarked = [one for one in self._open if one.marks is None]
        wanted = {topic for one in unmarked for topic in one.duty.following}
        wanted |= {one.partition.topic for one in unmarked if one.duty.again}
        try:
            ends = self._follower.ends([place for place in self._follower.partitions if place.topic in wanted])
        except (KafkaException, TimeoutError):
            return
        for one in unmarked:
            one.marks = ends

    def _ask(self) -> None:
        """Ask for the rows of those that have just been covered, or could not be asked for before."""
        unasked: list[tuple[Covered, Copy]] = []
        for one in self._open:
            if one.asked:
                continue
            if one.duty.channel is None:
                one.asked = True
            elif (copy := self._copy(one)) is not None:
                unasked.append((one, copy))
        batches = iter(unasked)
        while batch := list(islice(batches, ASKED_AT_ONCE)):
            rows = self._registrar.rows({name for _, copy in batch for name in (copy.id, copy.root)})
            if rows is None:
                return
            for one, copy in batch:
                one.asked = True
                one.ended_at = rows.ended_at(one.duty, copy)

    def _copy(self, one: Covered) -> Copy | None:
        return self._follower.copy_at(*one.partition, one.offset)

    def _judge(self, one: Covered) -> bool:
        """Whether it has been judged."""
        copy = self._copy(one)
        if copy is None:
            # Nothing lies there, or the follower has not come so far.
            return self._follower.position(*one.partition) > one.offset
        in_time = one.ended_at is not None and one.ended_at <= one.seen_at
        if in_time or (one.marks is not None and self._went_on(one, copy, one.marks)):
            self.covered += 1
            return True
        if one.marks is None or not one.asked or not self._follower.caught_up(one.marks):
            return False
        self.covered += 1
        found = "no row" if one.ended_at is None else f"its row only {one.ended_at - one.seen_at:.3f} s later"
        self._find(f"{one.duty.group} is past {one.partition}@{one.offset} ({copy.id}): {found}, and no copy after it")
        return True

    def _went_on(self, one: Covered, copy: Copy, marks: Mapping[Partition, int]) -> bool:
        """Whether a copy of it lies in a topic that follows, below the mark."""
        for other in self._follower.copies_of(copy.root):
            if other.id != copy.id or other.offset >= marks.get(other.partition, 0):
                continue
            if one.duty.channel is None:
                # The router absorbs nothing: each record that came in has a copy of its own.
                if other.partition.topic in one.duty.following and other.origin == copy.origin:
                    return True
            elif other.partition.topic in one.duty.following or (one.duty.again and _after(copy, other)):
                return True
        return False

    def _find(self, text: str) -> None:
        self.violations += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(text)


def _after(copy: Copy, other: Copy) -> bool:
    """Whether `other` came to lie in the same topic after `copy`; there, brokers write the timestamps."""
    if other.partition == copy.partition:
        return other.offset > copy.offset
    return other.partition.topic == copy.partition.topic and other.timestamp_ms >= copy.timestamp_ms
