"""The router: where each record goes, and what is committed of it."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.fakes.clock import EPOCH, FakeClock
from tests.fakes.publisher import MemoryPublisher
from tests.fakes.samples import notification, record

from ringonce.domain.notification import Channel
from ringonce.kafka import headers as names
from ringonce.kafka.codec import encode
from ringonce.kafka.port import Partition, PublishUncertain, Unpublishable
from ringonce.kafka.topics import TopicNames
from ringonce.observe import events
from ringonce.runtime import router as module
from ringonce.runtime.envelope import open_record
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.router import AGAIN, COMMIT_INTERVAL, Router

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.fakes.events import Heard
    from tests.fakes.publisher import Published

    from ringonce.kafka.consumer import GroupConsumer, Member
    from ringonce.kafka.port import Offsets, Record
    from ringonce.kafka.producer import KafkaProducer

ENTRY, DLQ = "notification-events", "notification-events-dlq"
P0 = Partition(ENTRY, 0)
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Group:
    """The group as the router sees it: one member, given batches to poll; after them it is stopped."""

    def __init__(self, office: Office, batches: Sequence[Sequence[Record]]) -> None:
        self._office = office
        self._batches = [list(batch) for batch in batches]
        self.assignment: Collection[Partition] = ()
        self.committed: list[Offsets] = []
        self.paused: list[set[Partition]] = []
        self.asked: list[int] = []
        self.is_stale = False
        self.fed = 0.0

    def join(self, member: Member) -> GroupConsumer:
        """The member comes."""
        self.member = member
        self.assignment = [P0]
        member.assigned([P0])
        return cast("GroupConsumer", self)

    def poll(self, most: int) -> list[Record]:
        """What the next poll brings."""
        self.asked.append(most)
        self._office.now += 0.1
        if self._batches:
            return self._batches.pop(0)
        self._office.idle -= 1
        if self._office.idle <= 0:
            self._office.stop.set()
        return []

    def pause_only(self, wanted: Collection[Partition]) -> None:
        """These rest."""
        self.paused.append(set(wanted))

    def commit(self, offsets: Offsets) -> None:
        """The group's offsets."""
        self.committed.append(offsets)

    def stale(self) -> bool:
        """See `GroupConsumer.stale`."""
        return self.is_stale

    def close(self) -> None:
        """The member goes: it is asked one last time."""
        self.committed.append(self.member.revoked([P0]))


class Office:
    """A router with everything around it; its monotonic clock moves with each poll."""

    def __init__(self, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.stop = threading.Event()
        self.idle = 5  # empty polls before it is stopped
        self.producer = MemoryPublisher()
        self.heard = heard
        monkeypatch.setattr(module, "monotonic", self._tick)
        topics = {Channel.FIREBASE: "notification-firebase", Channel.WEBHOOK: "notification-webhook"}
        self.router = Router(
            topics, TopicNames(), "node-1", cast("KafkaProducer", self.producer), FakeClock(), self.heard, Failpoints()
        )
        self.left = -1

    def _tick(self) -> float:
        self.now += 0.001
        return self.now

    def run(self, *batches: Sequence[Record]) -> Group:
        """Route these batches, then stop."""
        group = Group(self, batches)
        self.left = self.router.run(self.stop, group.join)
        return group

    def route(self, one: Record) -> Published:
        """Where a single record goes."""
        self.run([one])
        (copy,) = self.producer.records
        return copy


@pytest.fixture
def office(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(heard, monkeypatch)


def entry(value: Any = None, offset: int = 0, **more: Any) -> Record:
    """A record of the entry topic."""
    return record(notification() if value is None else value, offset=offset, topic=ENTRY, **more)


def test_a_record_is_forwarded_byte_for_byte(office: Office) -> None:
    """Key, value, timestamp and foreign headers as they are; ours are set, whatever came under our names."""
    value = encode(notification()) + b"\xa0\x06\x01"  # with a field that we do not know
    foreign: Any = [("traceparent", TRACE), ("x", None), ("x", b"\xff")]
    forged: Any = [(name, b"forged") for name in sorted(names.RESERVED)]
    one = entry(value, 7, headers=[*foreign, *forged], timestamp_ms=5)
    copy = office.route(one)
    assert (copy.topic, copy.key, copy.value, copy.timestamp_ms) == ("notification-firebase", one.key, value, 5)
    assert copy.headers == [
        *foreign,
        ("origin", b"notification-events/0/7/5"),
        ("channel", b"CHANNEL_FIREBASE"),
        ("router-node", b"node-1"),
    ]


@pytest.mark.parametrize(
    ("value", "error_class", "channel"),
    [
        (notification(channel=0), "UnknownChannel", "CHANNEL_UNSPECIFIED"),
        (notification(channel=99), "UnknownChannel", "99"),
        (notification(channel=-1), "UnknownChannel", "-1"),
        (notification(channel=Channel.APNS), "UnknownChannel", "CHANNEL_APNS"),  # not configured
        (b"", "UnknownChannel", "CHANNEL_UNSPECIFIED"),
        (b"\xff\xff", "Undecodable", "CHANNEL_UNSPECIFIED"),
    ],
)
def test_what_has_no_channel_goes_to_the_dlq_with_the_reason(
    office: Office, value: Any, error_class: str, channel: str
) -> None:
    """Unset, unknown, not configured, undecodable: value and key as they are."""
    one = entry(value)
    copy = office.route(one)
    assert (copy.topic, copy.value, copy.key) == (DLQ, one.value, one.key)
    assert copy.header("error.class") == error_class.encode()
    assert copy.header("channel") == channel.encode()
    assert copy.header("forward.reason") == b"permanent"
    assert copy.header("original.topic") == copy.header("previous.topic") == ENTRY.encode()
    assert copy.header("error.timestamp") == str(int(EPOCH * 1000)).encode()
    assert copy.header("origin") == b"notification-events/0/0/1700000000000"


def test_a_tombstone_goes_to_the_dlq(office: Office) -> None:
    """As it is: without a value."""
    copy = office.route(record(None, topic=ENTRY))
    assert (copy.topic, copy.value, copy.header("error.class")) == (DLQ, None, b"Undecodable")


def test_what_is_acknowledged_is_committed(office: Office) -> None:
    """Up to the last one, gaps included, and only once."""
    group = office.run([entry(offset=3), entry(offset=9)])
    assert {P0: 10} in group.committed
    assert [offsets for offsets in group.committed[:-1] if offsets] == [{P0: 10}]
    assert office.left == 0


def test_nothing_is_committed_past_what_is_not_acknowledged(office: Office) -> None:
    """A publish of unknown fate is repeated, and its offset waits for it."""
    office.producer.faults.declare(PublishUncertain("_MSG_TIMED_OUT"))
    office.idle = 40
    group = office.run([entry(offset=0), entry(offset=1)], [entry(offset=2)])
    assert office.producer.faults.spent
    marks = [offsets[P0] for offsets in group.committed if offsets]
    assert marks[0] == 0
    assert marks[-1] == 3
    assert marks == sorted(marks)
    assert [copy.header("origin") for copy in office.producer.records] == [
        b"notification-events/0/1/1700000000000",
        b"notification-events/0/2/1700000000000",
        b"notification-events/0/0/1700000000000",
    ]
    assert [type(event) for event in office.heard.events if isinstance(event, events.Held | events.Resumed)] == [
        events.Held,
        events.Resumed,
    ]


def test_what_waits_to_be_published_again_is_left_behind(office: Office) -> None:
    """A process that stops before that says so, and its offset is not committed."""
    office.producer.refuses = lambda _: PublishUncertain("x")
    group = office.run([entry(offset=4)])
    assert office.left == 1
    assert all(offsets in ({}, {P0: 4}) for offsets in group.committed)


def test_a_broker_that_refuses_everything_does_not_fill_the_process(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits to be published again counts as open: beyond the bound nothing more is consumed."""
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    office.producer.refuses = lambda _: PublishUncertain("x")
    office.idle = int(3 * AGAIN / 0.1)
    group = office.run([entry(offset=offset) for offset in range(3)])
    assert group.asked[0] > 0
    assert set(group.asked[2:]) == {0}
    assert {P0} in group.paused


def test_stale_commits_nothing(office: Office) -> None:
    """Another member may own the partition by now."""
    group = Group(office, [[entry()]])
    group.is_stale = True
    office.idle = int(2 * COMMIT_INTERVAL / 0.1)
    office.router.run(office.stop, group.join)
    assert len(group.committed) == 1  # what the closing consumer is told, which looks for itself


@pytest.mark.parametrize("channel", [Channel.FIREBASE, Channel.APNS])
def test_what_can_never_be_published_is_buried_without_its_value(office: Office, channel: Channel) -> None:
    """Origin, root, size and hash say what it was; the offset moves on. The DLQ's own copies are no exception."""
    office.producer.refuses = lambda copy: Unpublishable("MSG_SIZE_TOO_LARGE") if copy.value is not None else None
    forged: Any = [("traceparent", TRACE), ("x", b"y" * 100), ("root.id", b"victim"), ("origin", b"t/0/0/0")]
    one = entry(notification("n-1", channel=channel), 5, headers=forged, timestamp_ms=5)
    group = office.run([one])
    (copy,) = office.producer.records
    assert (copy.topic, copy.key, copy.value, copy.timestamp_ms) == (DLQ, one.key, None, 0)
    assert one.value is not None
    found = dict(copy.headers)
    assert len(found) == len(copy.headers)
    assert found["root.id"] == b"n-1"
    assert found["origin"] == b"notification-events/0/5/5"
    assert found["value.size"] == str(len(one.value)).encode()
    assert found["value.sha256"] == hashlib.sha256(one.value).hexdigest().encode()
    assert found["error.class"] == b"Unpublishable"
    assert found["error.message"] == b"unpublishable: MSG_SIZE_TOO_LARGE"
    assert found["traceparent"] == TRACE
    assert "x" not in found
    assert {P0: 6} in group.committed
    assert [event.notification_id for event in office.heard.of(events.Unpublishable)] == ["n-1"]


def test_a_buried_record_without_a_valid_id_is_found_by_the_recorder(office: Office) -> None:
    """Under the synthetic id of the whole record, neither of what was left of it nor of a forged origin."""
    office.producer.refuses = lambda copy: Unpublishable("x") if copy.value is not None else None
    forged: Any = [("origin", b"elsewhere/0/0/0"), ("notification.id", b"replay-1-x"), ("replay.of", b"x")]
    one = entry(notification("no valid id"), 5, headers=forged)
    copy = office.route(one)
    lost = record(None, topic=DLQ, headers=copy.headers)
    whole = record(one.value, topic=DLQ, headers=[("origin", copy.header("origin"))])
    assert open_record(lost, None, EPOCH).identity == open_record(whole, None, EPOCH).identity
    assert open_record(lost, None, EPOCH).identity.id.startswith("notification-events/0/5/")


def test_a_partition_that_is_lost_is_forgotten(office: Office) -> None:
    """Nothing is committed or published again for it, and its late acknowledgements move nothing."""
    office.router.assigned([P0])
    office.producer.faults.declare(PublishUncertain("x"))
    office.router._route([entry(offset=0), entry(offset=1)])
    office.producer.poll(0)
    office.router.lost([P0])
    assert office.router.revoked([P0]) == {}
    office.router._publish_again(office.now + 10)
    office.producer.poll(0)
    assert len(office.producer.records) == 1
    office.router.assigned([P0])
    assert office.router._committable() == {}


def test_a_commit_that_failed_is_offered_again(office: Office) -> None:
    """The mark does not get lost."""
    office.router.assigned([P0])
    office.router._route([entry(offset=0)])
    office.producer.poll(0)
    assert office.router._committable() == {P0: 1}
    office.router._tenures[P0].committed(1)
    assert office.router._committable() == {}
    office.router.commit_failed([P0, Partition("elsewhere", 1)])
    assert office.router._committable() == {P0: 1}
