"""Reading to an end that was fixed at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from confluent_kafka import TopicPartition

from ringonce.errors import ServerUnreachable
from ringonce.kafka import reader as module
from ringonce.kafka.reader import BoundedReader
from ringonce.kafka.settings import ConsumerSettings

if TYPE_CHECKING:
    import logging

TOPIC = "notification-firebase-dlq"


class Message:
    """A polled message."""

    def __init__(self, partition: int, offset: int) -> None:
        self._place = partition, offset

    def error(self) -> None:
        """There is none."""

    def headers(self) -> None:
        """There are none."""

    def topic(self) -> str:
        """Always the same."""
        return TOPIC

    def partition(self) -> int:
        """Its partition."""
        return self._place[0]

    def offset(self) -> int:
        """Its offset."""
        return self._place[1]

    def timestamp(self) -> tuple[int, int]:
        """Kind and milliseconds."""
        return 1, 0

    def key(self) -> None:
        """There is none."""

    def value(self) -> None:
        """There is none."""


class Topic:
    """A topic of two partitions as a consumer's library shows it: where others write while it is read."""

    ends: ClassVar = {0: 3, 1: 0}
    start: ClassVar = {0: -1001, 1: -1001}
    polls: ClassVar[list[list[Message]]] = []
    positions: ClassVar[dict[int, int]] = {}
    committed_offsets: ClassVar[list[dict[int, int]]] = []
    asked: ClassVar[list[int]] = []
    low: ClassVar = 0

    def __init__(self, _: dict[str, Any], *, logger: logging.Logger) -> None:  # noqa: ARG002 - the library's own
        self.assigned: list[TopicPartition] = []

    def list_topics(self, topic: str, timeout: float) -> Any:
        """The topic's partitions."""
        assert timeout
        partitions = type("Metadata", (), {"partitions": dict.fromkeys(self.ends)})
        return type("Cluster", (), {"topics": {topic: partitions}})

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        """Where it begins and ends now."""
        assert timeout
        return self.low, self.ends[partition.partition]

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Where the group stands."""
        assert timeout
        return [TopicPartition(TOPIC, p.partition, self.start[p.partition]) for p in partitions]

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read from here."""
        self.assigned = partitions

    def consume(self, most: int, timeout: float) -> list[Message]:
        """The next poll."""
        assert timeout
        self.asked.append(most)
        return self.polls.pop(0)

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Where the consumer stands."""
        return [TopicPartition(TOPIC, p.partition, self.positions.get(p.partition, -1001)) for p in partitions]

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        """The group's new offsets."""
        assert not asynchronous
        self.committed_offsets.append({p.partition: p.offset for p in offsets})


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> type[Topic]:
    fresh = type("FreshTopic", (Topic,), {"polls": [], "positions": {}, "committed_offsets": [], "asked": []})
    monkeypatch.setattr(module, "Consumer", fresh)
    return fresh


def reader() -> BoundedReader:
    return BoundedReader(ConsumerSettings("nowhere:1", "g", "c"), TOPIC)


def test_what_comes_after_the_end_is_left_for_the_next_call(topic: type[Topic]) -> None:
    """It is not returned."""
    topic.polls.append([Message(0, offset) for offset in range(5)])
    one = reader()
    assert [record.offset for record in one.next(100) or []] == [0, 1, 2]
    assert one.next(100) is None


def test_no_more_is_asked_for_than_there_is(topic: type[Topic]) -> None:
    """The library would wait for the rest until its timeout."""
    topic.polls += [[Message(0, 0), Message(0, 1)], [Message(0, 2)]]
    one = reader()
    one.next(2)
    one.next(100)
    assert topic.asked == [2, 1]


def test_a_gap_before_the_end_is_stepped_over(topic: type[Topic]) -> None:
    """The last records were compacted away; a call that brings nothing says so and is no end."""
    topic.polls += [[Message(0, 0)], []]
    topic.positions[0] = 9
    one = reader()
    assert [record.offset for record in one.next(100) or []] == [0]
    assert one.next(100) == []
    assert one.next(100) is None


def test_a_broker_that_falls_silent_is_away(topic: type[Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a minute in which nothing came of what is there, not before."""
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    topic.polls += [[], []]
    one = reader()
    now[0] += module.SILENCE
    assert one.next(100) == []
    now[0] += 1
    with pytest.raises(ServerUnreachable, match="no record of notification-firebase-dlq for 30 s"):
        one.next(100)


def test_reading_goes_on_where_the_group_stands(topic: type[Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is read to its end is not assigned at all."""
    monkeypatch.setattr(topic, "start", {0: 3, 1: 0})
    one = reader()
    assert one.next(100) is None
    assert one._consumer.assigned == []  # type: ignore[attr-defined]


def test_it_can_be_read_again_from_anywhere(topic: type[Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from before the topic's beginning, and where nothing is said from there."""
    monkeypatch.setattr(topic, "ends", {0: 9, 1: 9, 2: 9})
    monkeypatch.setattr(topic, "start", {0: -1001, 1: -1001, 2: -1001})
    monkeypatch.setattr(topic, "low", 4)
    one = reader()
    one.seek({0: 6, 1: 2})
    assert {p.partition: p.offset for p in one._consumer.assigned} == {0: 6, 1: 4, 2: 4}  # type: ignore[attr-defined]


def test_an_earlier_end_is_kept_and_a_later_one_is_not(topic: type[Topic], monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic may have been made anew since the end was written down."""
    monkeypatch.setattr(topic, "ends", {0: 3, 1: 5, 2: 4})
    monkeypatch.setattr(topic, "start", {0: -1001, 1: -1001, 2: -1001})
    one = reader()
    one.limit({0: 9, 1: 2})
    assert one.ends == {0: 3, 1: 2, 2: 0}


def test_what_is_committed_is_what_is_said(topic: type[Topic]) -> None:
    """Nothing where nothing is said."""
    one = reader()
    one.commit({})
    one.commit({0: 2})
    assert topic.committed_offsets == [{0: 2}]
