"""Dead letters, sent again."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.fakes.clock import EPOCH, FakeClock
from tests.fakes.letters import dead as dead_record
from tests.fakes.publisher import MemoryPublisher
from tests.fakes.samples import notification, record

from ringonce.domain.identity import MAX_REPLAYS, valid_id
from ringonce.domain.notification import Channel
from ringonce.errors import ServerUnreachable
from ringonce.kafka.codec import encode
from ringonce.kafka.port import PublishUncertain, Unpublishable
from ringonce.runtime.envelope import open_record
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.letters import open_letter
from ringonce.runtime.preview import Preview
from ringonce.runtime.replay import Means, Progress, Replay, fresh_key, replay_headers
from ringonce.runtime.selection import ALL, USUAL, Rules, Selection, Verdict
from ringonce.runtime.sieve import Sieve
from ringonce.store.replays import Past

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ringonce.kafka.port import Headers, PublishFailed, Record
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


def replayed(one: Record, times: int = 1, rules: Rules = USUAL) -> Headers:
    """The headers after so many replays, each of which came back to the DLQ as it was."""
    for _ in range(times):
        one = one._replace(headers=replay_headers(open_letter(one, Channel.FIREBASE, EPOCH), rules))
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


def test_an_explicit_key_stays() -> None:
    """Through every further replay."""
    headers = [*replayed(dead()), ("idempotency.key", b"my-key")]
    again = replayed(dead(headers))
    assert open_record(dead(again), Channel.FIREBASE, EPOCH).identity.key == "my-key"


def test_a_fresh_key_is_another_one_for_each_replay_and_the_same_for_each_copy_of_it() -> None:
    """Believed by the sender, whatever the length of the id."""
    fresh = Rules(fresh_key=True)
    first, second = (replayed(dead(), times, fresh) for times in (1, 2))
    keys = [open_record(dead(headers), Channel.FIREBASE, EPOCH).identity.key for headers in (first, second)]
    assert keys == [fresh_key("n-1", 1), fresh_key("n-1", 2)]
    assert len({*keys, "n-1"}) == 3
    assert valid_id(fresh_key("x" * 200, MAX_REPLAYS))


def test_a_record_without_a_valid_id_keeps_its_synthetic_one() -> None:
    """Wherever it is published to: its origin goes along, also where it had none."""
    for headers in ([], [ORIGIN]):
        one = dead([*headers], b"\xff")
        root = open_record(one, Channel.FIREBASE, EPOCH).identity.root
        moved = record(b"\xff", topic="notification-firebase", offset=99, headers=replayed(one))
        identity = open_record(moved, Channel.FIREBASE, EPOCH).identity
        assert (identity.root, identity.replay) == (root, 1)


class Pile:
    """A DLQ of one partition to its present end, as a reader."""

    bootstrap = "kafka:1"

    def __init__(self, *records: Record) -> None:
        self._records = [each._replace(offset=offset) for offset, each in enumerate(records)]
        self._at = 0
        self.lows = {0: 0}
        self.ends = {0: len(records)}
        self.asked: list[int] = []

    def seek(self, starts: Mapping[int, int]) -> None:
        """See `BoundedReader.seek`."""
        self._at = starts[0]
        self.asked.clear()

    def next(self, most: int) -> list[Record] | None:
        """See `BoundedReader.next`."""
        assert most > 0
        self.asked.append(most)
        batch = self._records[self._at : self._at + min(most, 3)]
        self._at += len(batch)
        return batch or None


class Scene:
    """A replay of a pile; what was kept is noted as (position, published)."""

    def __init__(self, *records: Record, rules: Rules = USUAL, past: Mapping[str, Past] | None = None) -> None:
        self.pile = Pile(*records)
        self.publisher = MemoryPublisher()
        self.clock = FakeClock()
        self.stop = threading.Event()
        self.progress = Progress({0: 0})
        self.kept: list[tuple[int, int]] = []
        self.looked: list[set[str]] = []
        self.reader = cast("BoundedReader", self.pile)
        self.sieve = Sieve(Channel.FIREBASE, ALL, rules, self._look(past or {}), self.clock)
        self.sieve.survey(self.reader, self.progress.positions, self.stop)

    def _look(self, past: Mapping[str, Past]) -> Callable[[Collection[str]], Mapping[str, Past]]:
        def look(roots: Collection[str]) -> Mapping[str, Past]:
            self.looked.append(set(roots))
            return past

        return look

    def keep(self, progress: Progress) -> None:
        """Acknowledged, all of it."""
        self.kept.append((progress.positions[0], progress.published))

    def run(self, **limits: Any) -> None:
        """All of it."""
        producer = cast("KafkaProducer", self.publisher)
        means = Means(self.reader, producer, "main", self.clock, Failpoints())
        Replay(means, self.sieve, self.progress, keep=self.keep, **limits).run(self.stop)

    def sent(self) -> list[str]:
        """The ids of what was published."""
        return [(each.header("notification.id") or b"").decode() for each in self.publisher.records]


def letters(count: int, **more: Any) -> list[Record]:
    """So many different ones."""
    return [dead_record(notification(f"n-{number}"), **more) for number in range(count)]


def test_values_are_unchanged_and_progress_is_what_is_acknowledged() -> None:
    """A publish of unknown fate is repeated before anything is kept."""
    scene = Scene(*letters(5))
    scene.publisher.faults.declare(PublishUncertain("x"), times=2)
    scene.run()
    assert scene.publisher.faults.spent
    assert {(copy.topic, copy.value) for copy in scene.publisher.records} == {
        ("main", each.value) for each in letters(5)
    }
    assert scene.kept == [(3, 3), (5, 5), (5, 5)]
    assert (scene.progress.published, scene.progress.skipped, scene.progress.finished) == (5, 0, True)


def test_what_the_topic_cannot_take_is_skipped() -> None:
    """Counted, and no obstacle."""
    scene = Scene(*letters(2))
    scene.publisher.faults.declare(Unpublishable("x"))
    scene.run()
    assert scene.publisher.faults.spent
    assert (scene.progress.published, scene.progress.verdicts[Verdict.UNPUBLISHABLE]) == (1, 1)
    assert (scene.progress.seen, scene.progress.skipped, scene.kept[-1]) == (2, 1, (2, 1))


def test_of_one_root_only_the_highest_replay_goes() -> None:
    """Wherever it lies, and of two copies the later one."""
    scene = Scene(*(dead_record(replay=replay) for replay in (0, 2, 1, 2, 0)))
    scene.run()
    assert scene.sent() == ["replay-3-n-1"]
    assert scene.progress.verdicts[Verdict.SUPERSEDED] == 4


def test_what_was_delivered_meanwhile_is_not_sent() -> None:
    """The database is asked once a batch."""
    scene = Scene(*letters(5), past={"n-1": Past(delivered=True), "n-4": Past(delivered=True)})
    scene.run()
    assert scene.sent() == ["replay-1-n-0", "replay-1-n-2", "replay-1-n-3"]
    assert scene.looked == [{"n-0", "n-1", "n-2"}, {"n-3", "n-4"}]


def test_a_limit_is_what_is_published() -> None:
    """What is skipped does not count; the position stands behind the last one that went."""
    scene = Scene(*letters(6), past={"n-0": Past(delivered=True)})
    scene.run(limit=3)
    assert scene.sent() == ["replay-1-n-1", "replay-1-n-2", "replay-1-n-3"]
    assert scene.kept[-1] == (4, 3)
    assert scene.progress.finished
    assert max(scene.pile.asked) == 3


def test_a_rate_is_kept() -> None:
    """The first one goes at once, the others a tenth of a second apart; progress is kept each second."""
    scene = Scene(*letters(6))
    times: list[float] = []
    publish, poll = scene.publisher.publish, scene.publisher.poll

    def published(*arguments: Any) -> None:
        times.append(round(scene.clock.monotonic(), 3))
        publish(*arguments)

    def polled(timeout: float) -> int:
        scene.clock.advance(timeout)
        return poll(timeout)

    scene.publisher.publish = published  # type: ignore[method-assign, assignment]
    scene.publisher.poll = polled  # type: ignore[method-assign]
    scene.run(rate=2.0)
    assert [after - before for before, after in pairwise(times)] == pytest.approx([0.5] * 5)
    assert max(scene.pile.asked) == 2


def test_stopped_in_the_middle_it_keeps_what_is_done() -> None:
    """What was handed over is waited for; what was not is left for the next one."""
    scene = Scene(*letters(5))

    def stopping(_: object) -> PublishFailed | None:
        if len(scene.publisher.records) == 1:
            scene.stop.set()
        return None

    scene.publisher.refuses = stopping
    scene.run()
    assert scene.stop.is_set()
    assert not scene.progress.finished
    assert scene.kept == [(len(scene.publisher.records), len(scene.publisher.records))]
    assert 0 < len(scene.publisher.records) < 5


def test_a_broker_that_answers_nothing_ends_it() -> None:
    """Nothing of the batch is kept: it is published again, under the same ids."""
    scene = Scene(*letters(2))

    def polled(timeout: float) -> int:
        scene.clock.advance(timeout)
        return 0

    scene.publisher.poll = polled  # type: ignore[method-assign]
    with pytest.raises(ServerUnreachable, match="no acknowledgement for 60 s"):
        scene.run()
    assert scene.kept == []


def test_a_channel_is_put_behind_what_is_there() -> None:
    """Nothing else of the value is touched, fields unknown to us included."""
    unknown = b"\xf2\x3f\x03abc"
    value = encode(notification(channel=Channel.UNSPECIFIED)) + unknown
    scene = Scene(dead_record(value))
    scene.sieve = Sieve(None, ALL, Rules(fix=Channel.WEBHOOK), lambda _: {}, scene.clock)
    scene.run()
    [sent] = scene.publisher.records
    assert sent.value is not None
    assert sent.value.startswith(value)
    assert len(sent.value) == len(value) + 2
    opened = open_record(dead(sent.headers, sent.value), Channel.WEBHOOK, EPOCH)
    assert (opened.fault, opened.identity.id, sent.header("channel")) == (None, "replay-1-n-1", b"CHANNEL_WEBHOOK")


def test_a_preview_sends_nothing() -> None:
    """It counts what would go, up to the limit, and what would not."""
    scene = Scene(*letters(5), past={"n-0": Past(delivered=True)})
    preview = Preview(EPOCH)
    preview.look(scene.reader, scene.sieve, scene.progress, 3, scene.stop)
    assert (preview.tally.total, preview.verdicts) == (3, {Verdict.DELIVERED: 1})
    assert preview.whole
    assert scene.publisher.calls == 0
    scene.stop.set()
    interrupted = Preview(EPOCH)
    interrupted.look(scene.reader, scene.sieve, scene.progress, None, scene.stop)
    assert not interrupted.whole


def test_a_survey_counts_what_is_wanted_from_the_start_on() -> None:
    """What lies before it only matters for what supersedes it; once stopped it reads no further."""
    scene = Scene(*letters(6))
    scene.pile.seek({0: 0})
    chosen = Selection(ids=frozenset({"n-1", "n-3", "n-4"}))
    sieve = Sieve(Channel.FIREBASE, chosen, USUAL, lambda _: {}, scene.clock)
    sieve.survey(scene.reader, {0: 2}, scene.stop)
    assert sieve.wanted == 2
    scene.stop.set()
    scene.pile.seek({0: 0})
    sieve.survey(scene.reader, {0: 0}, scene.stop)
    assert scene.pile.asked == []
