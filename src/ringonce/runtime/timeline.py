"""One notification through everything: copies in the topics, calls and rows, put in the order of their times.

The clocks are those of producers, brokers, senders and the database: steps that are milliseconds apart may stand the
wrong way round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ringonce.domain.identity import Origin
from ringonce.domain.stages import DLQ, MAIN
from ringonce.kafka import headers as names
from ringonce.runtime.envelope import open_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ringonce.domain.notification import Channel
    from ringonce.kafka.port import Record
    from ringonce.store.archive import Ended, Made

ENTRY: Final = "entry"
"""What stands in place of a stage for the entry topic."""

_REPLAY = re.compile(r"replay-[0-9]+-(.+)", re.DOTALL)
_SYNTHETIC = re.compile(r"(.+)-[0-9a-f]{8}")
_MILLISECONDS = re.compile(rb"[0-9]{1,15}")


class Step(StrEnum):
    """What happened, in the order in which it does where times are equal."""

    ENTERED = "entered"  # published to the entry topic
    ROUTED = "routed"  # in the channel's main topic
    REPLAYED = "replayed"  # there again, or in the stage that was chosen, under a replay's id
    TRIED = "tried"  # a call to the provider
    FORWARDED = "forwarded"  # in a retry stage
    BURIED = "buried"  # in a DLQ
    RECORDED = "recorded"  # its row was written


ORDER: Final = list(Step)


@dataclass(frozen=True, slots=True)
class Topic:
    """Where a record may lie: `stage` is one of a channel's, or `ENTRY`; `channel` is None before the router."""

    stage: str
    channel: Channel | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record lies, or lay."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `at` in seconds since the epoch, `duration` in seconds; what does not apply is None.

    `id` is a replay's where it is about one. `outcome` is an attempt's, `status` a row's; `attempts` counts calls so
    far.
    """

    at: float
    step: Step
    id: str
    place: Place | None = None
    node: str | None = None
    channel: str | None = None
    outcome: str | None = None
    status: str | None = None
    http_status: int | None = None
    duration: float | None = None
    attempts: int | None = None
    reason: str | None = None
    error: str | None = None
    maybe_reached: bool = False


def root_of(ident: str) -> str:
    """The id that a notification shares with its replays."""
    match = _REPLAY.fullmatch(ident)
    return ident if match is None else match[1]


class Sought:
    """A notification by its root: tells its records from others."""

    def __init__(self, root: str, topics: Mapping[str, Topic]) -> None:
        self.root = root
        self._topics = topics
        synthetic = _SYNTHETIC.fullmatch(root)
        self._origin = None if synthetic is None else Origin.parse(synthetic[1])
        # An id that was made up for a record is not in its value, but where it entered is in its headers.
        self._trace = (root if self._origin is None else str(self._origin)).encode()

    def __call__(self, record: Record) -> bool:
        """Whether a record is a copy of it or of a replay."""
        return self._may_be(record) and self._is(record)

    def _may_be(self, record: Record) -> bool:
        """Without decoding: of thousands of records few get past this."""
        trace, origin = self._trace, self._origin
        if record.value is not None and trace in record.value:
            return True
        if any(value is not None and trace in value for _, value in record.headers):
            return True
        return origin is not None and (record.partition.number, record.offset) == (origin.partition, origin.offset)

    def _is(self, record: Record) -> bool:
        envelope = open_record(record, self._topics[record.partition.topic].channel, 0.0)
        notification = envelope.notification
        return envelope.identity.root == self.root or (notification is not None and notification.id == self.root)


def timeline(
    copies: Iterable[Record], attempts: Iterable[Made], rows: Iterable[Ended], topics: Mapping[str, Topic]
) -> list[Entry]:
    """Everything that is known, in its order."""
    entries = [_copied(record, topics[record.partition.topic]) for record in copies]
    entries += map(_tried, attempts)
    entries += map(_recorded, rows)
    return sorted(entries, key=lambda entry: (_millisecond(entry), ORDER.index(entry.step), entry.at, str(entry.place)))


def _millisecond(entry: Entry) -> int:
    """A broker's times are cut off to milliseconds: within one, a copy may seem older than the call that led to it."""
    return int(entry.at * 1000 + 0.001)  # what comes from whole milliseconds may lie a hair below


def _copied(record: Record, topic: Topic) -> Entry:
    envelope = open_record(record, topic.channel, max(0, record.timestamp_ms) / 1000)
    hints, identity = envelope.hints, envelope.identity
    place = Place(record.partition.topic, record.partition.number, record.offset)
    appended = max(0, record.timestamp_ms) / 1000
    channel = None if topic.channel is None else topic.channel.name.lower()
    if topic.stage == ENTRY:
        return Entry(appended, Step.ENTERED, identity.id, place)
    # A forward always says why.
    if topic.stage == MAIN or (topic.stage != DLQ and identity.replay and hints.reason is None):
        step = Step.REPLAYED if identity.replay else Step.ROUTED
        node = None if identity.replay else _text(record, names.ROUTER_NODE)
        return Entry(appended, step, identity.id, place, node, channel)
    return Entry(
        _forwarded_at(record, appended),
        Step.BURIED if topic.stage == DLQ else Step.FORWARDED,
        identity.id,
        place,
        channel=channel,
        attempts=hints.attempts,
        http_status=hints.error_status,
        reason=hints.reason,
        error=hints.error,
        maybe_reached=hints.maybe_reached,
    )


def _forwarded_at(record: Record, appended: float) -> float:
    """A DLQ keeps the time of the record that was copied; when it was is in a header."""
    for name, value in reversed(record.headers):
        if name == names.ERROR_TIMESTAMP and value is not None and _MILLISECONDS.fullmatch(value):
            return int(value) / 1000
    return appended


def _text(record: Record, header: str) -> str | None:
    for name, value in reversed(record.headers):
        if name == header and value is not None:
            return names.one_line(value.decode("utf-8", "replace"))
    return None


def _tried(attempt: Made) -> Entry:
    return Entry(
        attempt.attempted_at.timestamp(),
        Step.TRIED,
        attempt.notification_id,
        Place(attempt.topic, attempt.partition, attempt.offset),
        attempt.node,
        attempt.channel,
        attempt.outcome,
        http_status=attempt.http_status,
        duration=attempt.duration,
    )


def _recorded(row: Ended) -> Entry:
    return Entry(
        row.recorded_at.timestamp(),
        Step.RECORDED,
        row.notification_id,
        node=row.sent_by,
        channel=row.channel or None,
        status=row.status,
        http_status=row.http_status,
        attempts=row.attempts,
        error=row.last_error,
        maybe_reached=row.maybe_reached,
    )
