"""Dead letters, sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tests.fakes.clock import EPOCH, FakeClock
from tests.fakes.publisher import MemoryPublisher
from tests.fakes.samples import notification, record

from ringonce.domain.identity import MAX_REPLAYS
from ringonce.domain.notification import Channel
from ringonce.kafka.port import PublishUncertain, Unpublishable
from ringonce.runtime.envelope import open_record
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.replay import Replay, replay_headers

if TYPE_CHECKING:
    from ringonce.kafka.port import Headers, Record
    from ringonce.kafka.producer import KafkaProducer
    from ringonce.kafka.reader import BoundedReader

ORIGIN = ("origin", b"notification-events/1/2/3")
DEAD: Any = [
    ORIGIN,
    ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("x", None),
    ("retry.count", b"3"),
    ("attempts", b"9"),
    ("deferred.since", b"1"),
    ("error.class", b"Refused"),
    ("error.message", b"m"),
    ("error.timestamp", b"1"),
    ("error.status", b"503"),
    ("original.topic", b"o"),
    ("previous.topic", b"p"),
    ("forward.reason", b"exhausted"),
    ("maybe.reached", b"true"),
]


def dead(headers: Headers = DEAD, value: Any = None) -> Record:
    """A dead letter."""
    return record(notification() if value is None else value, topic="notification-firebase-dlq", headers=headers)


def replayed(one: Record, times: int = 1) -> Headers:
    """The headers after so many replays, each of which came back to the DLQ as it was."""
    for _ in range(times):
        headers = replay_headers(one, Channel.FIREBASE, EPOCH)
        assert headers is not None
        one = one._replace(headers=headers)
    return one.headers


def test_headers_of_a_replay() -> None:
    """A new identity; origin, trace, foreign headers and maybe.reached stay; what the last run counted goes."""
    assert dict(replayed(dead())) == {
        "origin": b"notification-events/1/2/3",
        "traceparent": DEAD[1][1],
        "x": None,
        "maybe.reached": b"true",
        "notification.id": b"replay-1-n-1",
        "replay.of": b"n-1",
        "replay.count": b"1",
    }


def test_a_replay_is_believed_by_the_sender() -> None:
    """Its id is its own, its key its root's."""
    identity = open_record(dead(replayed(dead())), Channel.FIREBASE, EPOCH).identity
    assert (identity.id, identity.root, identity.key) == ("replay-1-n-1", "n-1", "n-1")


def test_the_second_replay_is_one_of_the_root() -> None:
    """Not of the first replay."""
    headers = dict(replayed(dead(), times=2))
    assert (headers["notification.id"], headers["replay.of"]) == (b"replay-2-n-1", b"n-1")


def test_there_is_a_last_replay() -> None:
    """Beyond it the record stays where it is."""
    headers: Any = [
        ("notification.id", f"replay-{MAX_REPLAYS}-n-1".encode()),
        ("replay.of", b"n-1"),
        ("replay.count", str(MAX_REPLAYS).encode()),
    ]
    assert replay_headers(dead(headers), Channel.FIREBASE, EPOCH) is None


def test_an_explicit_key_stays() -> None:
    """Through every further replay."""
    headers = [*replayed(dead()), ("idempotency.key", b"my-key")]
    again = replayed(dead(headers))
    assert open_record(dead(again), Channel.FIREBASE, EPOCH).identity.key == "my-key"


def test_a_record_without_a_valid_id_keeps_its_synthetic_one() -> None:
    """Wherever it is published to: its origin goes along, also where it had none."""
    for headers in ([], [ORIGIN]):
        one = dead([*headers], b"\xff")
        root = open_record(one, Channel.FIREBASE, EPOCH).identity.root
        moved = record(b"\xff", topic="notification-firebase", offset=99, headers=replayed(one))
        identity = open_record(moved, Channel.FIREBASE, EPOCH).identity
        assert (identity.root, identity.replay) == (root, 1)


class Pile:
    """A DLQ to its present end, in batches; commits are noted with what was published before them."""

    def __init__(self, publisher: MemoryPublisher, *batches: list[Record]) -> None:
        self._publisher = publisher
        self._batches = list(batches)
        self.commits: list[int] = []

    def next(self, most: int) -> list[Record] | None:
        """See `BoundedReader.next`."""
        assert most > 0
        return self._batches.pop(0) if self._batches else None

    def commit(self) -> None:
        """See `BoundedReader.commit`."""
        self.commits.append(len(self._publisher.records))


def run(publisher: MemoryPublisher, *batches: list[Record]) -> tuple[Replay, Pile]:
    """A whole replay."""
    pile = Pile(publisher, *batches)
    replay = Replay(
        cast("BoundedReader", pile),
        cast("KafkaProducer", publisher),
        "main",
        Channel.FIREBASE,
        FakeClock(),
        Failpoints(),
    )
    replay.run()
    return replay, pile


def test_values_are_unchanged_and_progress_is_what_is_acknowledged() -> None:
    """A publish of unknown fate is repeated before anything is committed."""
    publisher = MemoryPublisher()
    publisher.faults.declare(PublishUncertain("x"), times=2)
    value = dead().value
    replay, pile = run(publisher, [dead(), dead()], [dead()])
    assert publisher.faults.spent
    assert [(copy.topic, copy.value) for copy in publisher.records] == [("main", value)] * 3
    assert pile.commits == [2, 3]
    assert (replay.published, replay.skipped) == (3, 0)


def test_what_cannot_be_replayed_is_skipped() -> None:
    """Counted, and no obstacle."""
    publisher = MemoryPublisher()
    publisher.faults.declare(Unpublishable("x"))
    worn: Any = [("notification.id", b"replay-1000-n-1"), ("replay.of", b"n-1"), ("replay.count", b"1000")]
    replay, pile = run(publisher, [dead(), dead(worn), dead()])
    assert publisher.faults.spent
    assert (replay.published, replay.skipped, pile.commits) == (1, 2, [1])
