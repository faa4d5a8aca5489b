"""Reads every topic of a site along with the fleet: who lies where, and which copies a record has had.

It belongs to no group and commits nothing, so that the fleet cannot tell that it is there.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from ringonce.channels.registry import CHANNELS
from ringonce.domain.stages import DLQ
from ringonce.kafka import headers as names
from ringonce.kafka.consumer import to_record
from ringonce.kafka.port import Partition
from ringonce.runtime.envelope import open_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka import Message
    from tests.fixtures.site import Site

    from ringonce.domain.identity import Origin
    from ringonce.domain.notification import Channel
    from ringonce.kafka.port import Record
    from ringonce.kafka.topics import TopicNames

log = logging.getLogger(__name__)

DIGITS: Final = 16
"""Of a SHA-256 in hex that are kept, as in `Sent.digest`."""
BATCH: Final = 500
LOOK: Final = 0.05
ANSWER: Final = 2.0
"""Seconds that a broker has to say where the topics end."""
RENEWAL: Final = 5.0
"""Seconds that a client which asks has before another takes its place."""
STOPPING: Final = 30.0

LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE})
"""What is said where a log has become shorter than it was."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One record of one topic. Copies of one root share their strings: there are some hundred thousand."""

    partition: Partition
    offset: int
    id: str
    root: str
    origin: Origin
    """where it entered"""
    digest: str
    """the first 64 bits of the value's SHA-256, in hex; of the value that it had, where the router left it behind"""
    timestamp_ms: int
    """the broker's, where the topic uses LogAppendTime, else the producer's"""
    reason: str | None
    """`forward.reason`"""
    maybe_reached: bool


def topics_of(topic_names: TopicNames, channels: Iterable[str]) -> dict[str, Channel | None]:
    """Every topic of a site that has these channels, and whose it is; the entry topics are nobody's."""
    found: dict[str, Channel | None] = {topic_names.entry: None, topic_names.entry_dlq: None}
    for name in channels:
        row = CHANNELS[name]
        stages = [*(stage.name for stage in row.ladder.consumed()), DLQ]
        found.update({topic_names.stage(name, stage): row.channel for stage in stages})
    return found


class Follower:
    """``with Follower(site, channels) as follower:`` reads from the beginning, in a thread, until the end of the block.

    Brokers may come and go. The topics have to exist. All methods may be called from any thread.

    Raises:
        RuntimeError: from any method, once reading has failed for good: the thread died, or a log lost its end.
    """

    def __init__(self, site: Site, channels: Iterable[str] = CHANNELS) -> None:
        self._entry = site.names.entry
        self._channels = topics_of(site.names, channels)
        self._bootstrap = site.bootstrap
        self._admin = self._fresh_admin()
        self._former: list[AdminClient] = []  # a client must outlive what it was asked
        self._renewed_at = time.monotonic()
        # A topic of ours begins at 0 and has hardly a gap: a record's place in the list is its offset.
        self._logs: dict[Partition, list[Copy | None]] = {}
        self._roots: dict[str, list[Copy]] = {}
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def _fresh_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap}, logger=log)

    def _renew_admin(self) -> None:
        """One that was there when a broker hung may never be answered again."""
        if time.monotonic() - self._renewed_at > RENEWAL:
            self._former.append(self._admin)
            self._admin, self._renewed_at = self._fresh_admin(), time.monotonic()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to read."""
        described = self._admin.list_topics(timeout=STOPPING).topics
        for topic in self._channels:
            self._logs.update({Partition(topic, number): [] for number in described[topic].partitions})
        self._thread.start()

    def stop(self) -> None:
        """Read no further; what was read stays."""
        self._stopping.set()
        self._thread.join(STOPPING)
        self._check()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All that are read."""
        return tuple(self._logs)

    def copy_at(self, topic: str, partition: int, offset: int) -> Copy | None:
        """The record that lies there; None when it has not been read, or there is none (see `position`)."""
        self._check()
        found = self._logs[Partition(topic, partition)]
        return found[offset] if 0 <= offset < len(found) else None

    def copies_of(self, root: str) -> tuple[Copy, ...]:
        """Every copy of a root, its replays' too, in the order in which they were read."""
        self._check()
        return tuple(self._roots.get(root, ()))

    def position(self, topic: str, partition: int) -> int:
        """The offset up to which a partition has been read."""
        self._check()
        return len(self._logs[Partition(topic, partition)])

    def ends(self, partitions: Iterable[Partition] | None = None) -> dict[Partition, int]:
        """The high watermark of all or some partitions, asked for now.

        Raises:
            KafkaException, TimeoutError: the broker does not answer.
        """
        asked: dict[TopicPartition, Any] = {
            TopicPartition(*partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for partition in (self._logs if partitions is None else partitions)
        }
        if not asked:
            return {}
        answers = self._admin.list_offsets(asked, request_timeout=ANSWER)
        try:
            found = {place: answer.result(ANSWER).offset for place, answer in answers.items()}
        except TimeoutError:
            self._renew_admin()
            raise
        except KafkaException:
            self._renew_admin()
            # After a broker's restart it is asked with a leader epoch that is no more, until somebody looks again.
            self._admin.list_topics(timeout=ANSWER)
            raise
        if any(end < 0 for end in found.values()):
            # What was never answered may come back as if it were an answer.
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return {Partition(place.topic, place.partition): end for place, end in found.items()}

    def caught_up(self, ends: Mapping[Partition, int] | None = None) -> bool:
        """Whether it has read to `ends`, or to where the topics end now; no while no broker says where that is."""
        self._check()
        if ends is None:
            try:
                ends = self.ends()
            except (KafkaException, TimeoutError):
                return False
        return all(len(self._logs[partition]) >= end for partition, end in ends.items())

    def _check(self) -> None:
        if self._failure is not None:
            raise RuntimeError("the follower has failed") from self._failure

    # In its thread

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks next
            self._failure = error

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "nobody",  # must be said, and is not used: nothing is subscribed to or committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 16_384,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 100,
                "reconnect.backoff.max.ms": 500,
            },
            logger=log,
        )
        try:
            consumer.assign([TopicPartition(*partition, 0) for partition in self._logs])
            while not self._stopping.is_set():
                # consume() waits out its timeout unless its batch is full: poll for one, then take what is there.
                first = consumer.poll(LOOK)
                if first is not None:
                    for message in (first, *consumer.consume(BATCH, 0)):
                        self._take(message)
        finally:
            consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._keep(to_record(message))
        elif error.code() in LOST:
            raise KafkaException(error)

    def _keep(self, record: Record) -> None:
        known = self._logs[record.partition]
        if record.offset < len(known):
            return
        copy = self._copy(record)
        # The root first: who sees that the partition was read this far must find the copy.
        self._roots.setdefault(copy.root, []).append(copy)
        known.extend([None] * (record.offset - len(known)))
        known.append(copy)

    def _copy(self, record: Record) -> Copy:
        topic = record.partition.topic
        # What a record's headers said when it came in is a stranger's word: the router takes it away.
        believed = record._replace(headers=[]) if topic == self._entry else record
        envelope = open_record(believed, self._channels[topic], time.time())
        identity, hints = envelope.identity, envelope.hints
        fresh = Copy(
            record.partition,
            record.offset,
            identity.id,
            identity.root,
            envelope.origin,
            _digest(believed),
            record.timestamp_ms,
            None if hints.reason is None else sys.intern(hints.reason),
            hints.maybe_reached,
        )
        return _sharing(fresh, self._roots.get(fresh.root, ()))


def _sharing(fresh: Copy, known: Iterable[Copy]) -> Copy:
    """The copy with the strings of one that is like it, if there is one."""
    for one in known:
        if (one.id, one.origin, one.digest) == (fresh.id, fresh.origin, fresh.digest):
            return replace(fresh, id=one.id, root=one.root, origin=one.origin, digest=one.digest)
    return fresh


def _digest(record: Record) -> str:
    if record.value is None:
        # The router may have had to leave the value behind; then it wrote down which it was.
        left = dict(record.headers).get(names.VALUE_SHA256)
        if left is not None:
            return left.decode("ascii", "replace")[:DIGITS]
    return hashlib.sha256(record.value or b"").hexdigest()[:DIGITS]
