"""A whole sender on fakes: from polled records to rows, forwards and commits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.fakes.claims import MemoryClaims
from tests.fakes.clock import LoopClock
from tests.fakes.consumer import MemoryConsumer
from tests.fakes.events import Heard
from tests.fakes.http import HANG, OK, ScriptedHttp, answer
from tests.fakes.publisher import MemoryPublisher
from tests.fakes.samples import FIREBASE, WEBHOOK, expiring, notification, record, relay, row
from tests.fakes.store import MemoryStore

from ringonce.channels.http import HttpCarrier
from ringonce.channels.port import Unanswered
from ringonce.domain.attempt import Kept
from ringonce.domain.disposition import Status
from ringonce.domain.notification import Channel
from ringonce.domain.semantics import EFFECTIVELY_ONCE, Semantics, calls_per_stage
from ringonce.domain.stages import DLQ, MAIN, Ladder, Stage
from ringonce.kafka.port import Partition, PublishUncertain, Unpublishable
from ringonce.kafka.topics import TopicNames
from ringonce.observe import events
from ringonce.runtime.breaker import OPEN_PERIOD, THRESHOLD
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.intake import CAPACITY
from ringonce.runtime.pipeline import Pipeline, Profile, Surroundings
from ringonce.runtime.sender import Means, Sender
from ringonce.store.port import Gate, StoreAway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ringonce.channels.registry import ChannelRow
    from ringonce.kafka.thread import ConsumerThread, Owner, ProducerThread

SLOW_HOST, QUICK_HOST = "slow.example:80", "quick.example:80"


class Station:
    """A sender, and everything around it."""

    def __init__(
        self,
        channel: ChannelRow,
        slots: int = 64,
        kept: Kept = Kept.FAILURES,
        semantics: Semantics = EFFECTIVELY_ONCE,
        attempts: int | None = None,
    ) -> None:
        self.row = channel
        self.clock = LoopClock()
        self.store = MemoryStore()
        self.http = ScriptedHttp()
        self.publisher = MemoryPublisher(in_loop=True)
        self.heard = Heard()
        names = TopicNames()
        stages = {names.stage(channel.name, stage.name): stage for stage in channel.ladder.consumed()}
        consumer = f"{channel.name}-sender"
        profile = Profile(consumer, consumer, channel.name, channel.channel, stages)
        self.claims = MemoryClaims(self.store, consumer, channel.name)
        around = Surroundings("node-1", self.store, self.clock, self.heard, Failpoints())

        def make(owner: Owner) -> ConsumerThread:
            self.group = MemoryConsumer(owner)
            return cast("ConsumerThread", self.group)

        self.pipeline = Pipeline(profile, around, make)
        producer = cast("ProducerThread", self.publisher)
        to = relay(channel, allowed=(SLOW_HOST, QUICK_HOST))
        random = Random(1)  # noqa: S311 - jitter, no secret
        carrier = HttpCarrier(to, self.http, channel.protocol, self.clock.now)
        means = Means(carrier, producer, names, random, slots, 3, OPEN_PERIOD, kept)
        means = replace(
            means, semantics=semantics, claims=self.claims, max_attempts=calls_per_stage(semantics, attempts)
        )
        self.pipeline.attach(Sender(self.pipeline, channel, means))
        self.stop = asyncio.Event()
        self.main = Partition(names.stage(channel.name, MAIN), 0)
        self.group.assign(self.main)
        self.made = 0

    def bring(self, *values: Any, stage: str = MAIN, headers: Any = ()) -> None:
        """Records come, of the main topic unless another is named."""
        topic = TopicNames().stage(self.row.name, stage)
        for value in values:
            stamp = int(self.clock.now() * 1000) - 1_000_000
            self.group.bring(
                record(value, topic=topic, offset=self.made, headers=[*headers], timestamp_ms=stamp),
            )
            self.made += 1

    def forwards(self, stage: str) -> list[str | None]:
        """The reasons for which records went to a stage."""
        copies = self.publisher.to(TopicNames().stage(self.row.name, stage))
        reasons = [copy.header("forward.reason") for copy in copies]
        return [None if reason is None else reason.decode() for reason in reasons]

    def timeline(self, ident: str) -> list[tuple[str, str, int | None]]:
        """Topic, outcome and status code of each attempt that was written for an id, in the order of time."""
        found = sorted((at, row) for (key, at, _), row in self.store.attempts.items() if key == ident)
        return [(row.topic, row.outcome, row.http_status) for _, row in found]

    def statuses(self) -> dict[str, Status]:
        """The history."""
        return {ident: found.status for (ident, _), found in self.store.rows.items()}

    @property
    def breaker(self) -> list[tuple[str, str]]:
        """What the breakers did."""
        return [(event.before, event.after) for event in self.heard.of(events.BreakerChanged)]


@asynccontextmanager
async def station(
    channel: ChannelRow = FIREBASE,
    slots: int = 64,
    left: int = 0,
    kept: Kept = Kept.FAILURES,
    semantics: Semantics = EFFECTIVELY_ONCE,
    attempts: int | None = None,
) -> AsyncIterator[Station]:
    """A sender at work; it is stopped in order and leaves as much behind as expected."""
    one = Station(channel, slots, kept, semantics, attempts)
    running = asyncio.ensure_future(one.pipeline.run(one.stop))
    await asyncio.sleep(0)
    try:
        yield one
        one.stop.set()
        assert await running == left
        assert (one.http.closed, one.publisher.stopped, one.group.stopped) == (True, True, True)
    finally:
        running.cancel()
        await asyncio.wait({running})


def hook(ident: str, host: str, **more: Any) -> Any:
    """A notification to a webhook's host."""
    return notification(ident, channel=Channel.WEBHOOK, target=f"http://{host}/hook", **more)


async def test_from_record_to_row_to_commit() -> None:
    """Delivered, recorded, and only then committed."""
    async with station() as one:
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(1)
        assert one.statuses() == {"a": Status.DELIVERED, "b": Status.DELIVERED}
        found = one.store.rows[("a", "firebase")]
        assert (found.attempts, found.http_status, found.stage, found.user_id) == (1, 200, MAIN, "user-1")
        assert found.sent_at == pytest.approx(one.clock.now(), abs=1.1)
        assert one.group.committed == {one.main: 2}
        assert {call.key for call in one.http.calls} == {"a", "b"}
        assert set(one.store.gates.values()) == {"node-1"}


async def test_nothing_is_committed_before_its_row_is_durable() -> None:
    """The database is away: delivered all the same, held, neither forwarded nor committed."""
    async with station() as one:
        one.store.record_faults.declare(StoreAway("gone"), times=5)
        one.bring(notification("a"))
        await asyncio.sleep(4)
        assert (len(one.http.calls), one.publisher.calls) == (1, 0)
        assert one.group.committed == {one.main: 0}
        await asyncio.sleep(4)
        assert one.store.record_faults.spent
        assert one.group.committed == {one.main: 1}
        assert len(one.http.calls) == 1


async def test_failures_go_from_stage_to_stage_with_what_they_spent() -> None:
    """Three calls each; from the last stage to the dlq."""
    async with station() as one:
        one.group.assign(
            Partition("notification-firebase-retry-30s", 0), Partition("notification-firebase-retry-5m", 0)
        )
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"))
        await asyncio.sleep(5)
        one.bring(notification("b"), stage="retry-5m", headers=[("attempts", b"6"), ("retry.count", b"2")])
        await asyncio.sleep(5)
        assert one.forwards("retry-30s") == ["next-retry"]
        assert one.forwards(DLQ) == ["exhausted"]
        assert [copy.header("attempts") for copy in one.publisher.records] == [b"3", b"9"]
        assert [copy.header("retry.count") for copy in one.publisher.records] == [b"1", b"3"]
        assert one.store.rows == {}


@pytest.mark.parametrize(
    "value", [b"\xff", None, notification(""), notification(channel=Channel.APNS), notification("x" * 3000)]
)
async def test_what_can_never_be_delivered_goes_to_the_dlq_without_a_call(value: Any) -> None:
    """At once, value unchanged, and the partition goes on."""
    async with station() as one:
        one.bring(value, notification("good"))
        await asyncio.sleep(1)
        assert one.forwards(DLQ) == ["permanent"]
        assert one.publisher.records[0].header("attempts") == b"0"
        assert [call.key for call in one.http.calls] == ["good"]
        assert one.group.committed == {one.main: 2}


async def test_a_bad_target_is_rejected_without_a_call() -> None:
    """Not on the allow-list, or no URL."""
    async with station(WEBHOOK) as one:
        one.bring(hook("a", "evil.example:80"), notification("b", channel=Channel.WEBHOOK, target="nowhere"))
        await asyncio.sleep(1)
        assert (one.forwards(DLQ), one.http.calls) == (["permanent"] * 2, [])


async def test_expired_on_arrival_is_a_row_without_a_call() -> None:
    """Nothing starts after the end."""
    async with station() as one:
        one.bring(expiring(0, "a"))
        await asyncio.sleep(1)
        assert (one.statuses(), one.http.calls) == ({"a": Status.EXPIRED}, [])
        assert one.group.committed == {one.main: 1}


async def test_a_last_chance_is_tried_every_two_seconds_until_the_end() -> None:
    """No later stage is due in time: the record waits outside the slots, and then it is expired."""
    async with station(slots=1) as one:
        one.http.always = lambda call: answer(503) if call.key == "dying" else OK
        one.bring(expiring(10, "dying"))
        await asyncio.sleep(2)
        one.bring(notification("other"))
        await asyncio.sleep(1)
        assert one.statuses() == {"other": Status.DELIVERED}
        await asyncio.sleep(10)
        assert one.statuses()["dying"] is Status.EXPIRED
        last = [call.at for call in one.http.calls if call.key == "dying"][3:]
        pauses = [after - before for before, after in pairwise(last)]
        assert pauses == pytest.approx([2.0] * len(pauses), abs=0.2)
        assert len(last) >= 2
        assert one.publisher.records == []


async def test_a_record_that_passed_the_gate_is_skipped_and_committed() -> None:
    """A redelivery after a crash: no call, no row, no forward."""
    async with station() as one:
        one.store.write(Gate("firebase-sender", "other"), [row("a")])
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert (one.http.calls, one.publisher.calls, one.store.batches) == ([], 0, [])
        assert one.group.committed == {one.main: 1}


async def test_two_copies_at_once_are_one_act() -> None:
    """The second waits for the first, and is absorbed."""
    async with station() as one:
        one.http.latency = 1.0
        one.bring(notification("a"), notification("a", body="another"), notification("a"))
        await asyncio.sleep(4)
        assert len(one.http.calls) == 1
        assert one.group.committed == {one.main: 3}


async def test_copies_that_wait_survive_the_loss_of_those_before_them() -> None:
    """Three of four belong to a partition that goes while the first is in flight; the fourth must not be stuck."""
    async with station() as one:
        other = Partition("notification-firebase-retry-30s", 0)
        one.group.assign(other)
        one.http.latency = 2.0
        one.bring(notification("a"), notification("a"), notification("a"))
        await asyncio.sleep(0.5)
        one.bring(notification("a"), stage="retry-30s")
        one.group.lose(one.main)
        await asyncio.sleep(5)
        assert one.group.committed[other] == 4
        assert one.statuses() == {"a": Status.DELIVERED}


async def test_slots_bound_what_is_in_flight() -> None:
    """All of them are used, and no more."""
    async with station(slots=4) as one:
        one.http.latency = 0.5
        one.bring(*(notification(f"n-{number}") for number in range(20)))
        await asyncio.sleep(4)
        assert one.http.most_open == 4
        assert len(one.statuses()) == 20


# The breaker on a single destination


async def test_an_open_breaker_holds_everything_and_probes() -> None:
    """Nothing is spent, everything rests, one probe at a time; in the end nothing was dead-lettered."""
    async with station(slots=THRESHOLD) as one:
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number:02}") for number in range(20)))
        await asyncio.sleep(4)
        assert one.breaker == [("closed", "open")]
        opened = len(one.http.calls)
        assert one.group.paused is None
        await asyncio.sleep(3 * OPEN_PERIOD)
        probes = one.http.calls[opened:]
        assert 2 <= len(probes) <= 4
        assert len({call.key for call in probes}) == len(probes)
        one.http.always = lambda _: OK
        await asyncio.sleep(OPEN_PERIOD + 1)
        assert one.breaker[-1] == ("half-open", "closed")
        delivered = {ident for ident, status in one.statuses().items() if status is Status.DELIVERED}
        retried = len(one.forwards("retry-30s"))
        assert len(delivered) + retried == 20
        assert retried <= THRESHOLD
        assert one.forwards(DLQ) == []
        assert {one.store.rows[(key, "firebase")].attempts for key in {call.key for call in probes}} == {1}
        assert one.group.paused == set()


async def test_probes_rotate_over_all_that_is_held() -> None:
    """However stale their look-ups are by then: a record that the provider cannot bear must not keep the others out."""
    async with station(slots=THRESHOLD) as one:
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number:02}") for number in range(10)))
        await asyncio.sleep(4)
        opened = len(one.http.calls)
        held = one.pipeline._intake.active
        assert held >= 4
        await asyncio.sleep(held * (OPEN_PERIOD + 0.2))
        probes = [call.key for call in one.http.calls[opened:]]
        assert len(probes) >= held - 1
        assert len(set(probes)) == len(probes)


async def test_with_nothing_held_one_partition_at_a_time_is_resumed() -> None:
    """In turn, a second each, until one eligible record comes."""
    async with station() as one:
        others = [Partition(one.main.topic, number) for number in (1, 2)]
        one.group.assign(*others)
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number}") for number in range(THRESHOLD)))
        await asyncio.sleep(5)
        assert one.pipeline._intake.active == 0
        scouts = set()
        for _ in range(40):
            await asyncio.sleep(0.1)
            assert one.group.paused is not None
            (scout,) = {one.main, *others} - set(one.group.paused)
            scouts.add(scout)
        assert scouts == {one.main, *others}


async def test_a_probe_that_hangs_is_remembered_as_maybe_reached() -> None:
    """It spends no attempt, but what it may have reached is not forgotten."""
    async with station(slots=THRESHOLD) as one:
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number:02}") for number in range(THRESHOLD + 1)))
        await asyncio.sleep(4)
        one.http.always = lambda _: HANG
        before = len(one.http.calls)
        await asyncio.sleep(OPEN_PERIOD + 1)
        one.http.always = lambda _: OK
        hung = one.http.calls[before:]
        await asyncio.sleep(2 * OPEN_PERIOD)
        (reached,) = [found for found in one.store.rows.values() if found.maybe_reached]
        calls = [call for call in one.http.calls if call.key == reached.notification_id]
        assert (reached.status, reached.attempts) == (Status.DELIVERED, len(calls) - len(hung))
        assert {call.key for call in hung} == {reached.notification_id}


# Webhook: one breaker and one lane per host


async def test_a_host_whose_breaker_is_open_sends_its_records_on() -> None:
    """With reason breaker-open and no attempt spent; another host is not concerned."""
    async with station(WEBHOOK) as one:
        one.http.always = lambda call: answer(503) if "slow" in call.url else OK
        one.bring(*(hook(f"s-{number}", SLOW_HOST) for number in range(THRESHOLD)))
        await asyncio.sleep(5)
        assert one.breaker == [("closed", "open")]
        one.bring(hook("late", SLOW_HOST), hook("q", QUICK_HOST))
        await asyncio.sleep(1)
        assert one.forwards("retry-30s") == ["next-retry"] * THRESHOLD + ["breaker-open"]
        late = one.publisher.records[-1]
        assert (late.header("attempts"), late.header("retry.count")) == (b"0", b"0")
        assert late.header("deferred.since") is not None
        assert one.statuses() == {"q": Status.DELIVERED}


async def test_from_the_last_stage_a_deferred_record_returns_to_it() -> None:
    """Until it is too old."""
    async with station(WEBHOOK) as one:
        one.group.assign(Partition("notification-webhook-retry-5m", 0))
        one.http.always = lambda _: answer(503)
        one.bring(*(hook(f"s-{number}", SLOW_HOST) for number in range(THRESHOLD)))
        await asyncio.sleep(5)
        one.bring(hook("young", SLOW_HOST), stage="retry-5m")
        long_ago = str(int((one.clock.now() - 86_400) * 1000)).encode()
        one.bring(hook("old", SLOW_HOST), stage="retry-5m", headers=[("deferred.since", long_ago)])
        await asyncio.sleep(0.5)
        assert one.forwards("retry-5m") == ["breaker-open"]
        assert one.forwards(DLQ) == ["too-old"]


async def test_a_hanging_host_does_not_slow_its_neighbour() -> None:
    """It keeps half of the slots at most, and the other goes on at its pace."""
    async with station(WEBHOOK, slots=32) as one:
        one.http.always = lambda call: HANG if "slow" in call.url else OK
        one.bring(hook("q", QUICK_HOST))
        await asyncio.sleep(0.2)
        one.bring(*(hook(f"s-{number}", SLOW_HOST) for number in range(300)))
        one.bring(*(hook(f"q-{number}", QUICK_HOST) for number in range(300)))
        await asyncio.sleep(1)
        assert sum(status is Status.DELIVERED for status in one.statuses().values()) == 301


async def test_a_slow_host_that_fills_the_process_makes_room() -> None:
    """What is over its queue goes on as busy, and the others behind it get in."""
    async with station(WEBHOOK, slots=32, left=0) as one:
        one.http.always = lambda call: HANG if "slow" in call.url else OK
        one.bring(hook("q", QUICK_HOST))
        await asyncio.sleep(0.2)
        one.bring(*(hook(f"s-{number}", SLOW_HOST) for number in range(CAPACITY)))
        await asyncio.sleep(2)
        assert "busy" in one.forwards("retry-30s")
        assert one.group.allowed > one.made
        one.bring(hook("late", QUICK_HOST))
        await asyncio.sleep(0.5)
        assert one.statuses()["late"] is Status.DELIVERED
        await asyncio.sleep(10)


async def test_lanes_of_hosts_that_are_gone_are_forgotten() -> None:
    """Destinations come and go; the process stays."""
    async with station(WEBHOOK) as one:
        one.bring(hook("q", QUICK_HOST))
        await asyncio.sleep(1)
        sender = cast("Sender", one.pipeline.handler)
        assert list(sender._lanes._lanes) == [QUICK_HOST]
        await asyncio.sleep(1000)
        one.bring(hook("s", SLOW_HOST))
        await asyncio.sleep(1)
        assert list(sender._lanes._lanes) == [SLOW_HOST]


# Publishing


async def test_a_forward_of_unknown_fate_is_repeated_and_its_offset_waits() -> None:
    """Nothing is finished before the copy is acknowledged."""
    async with station() as one:
        one.publisher.faults.declare(PublishUncertain("_MSG_TIMED_OUT"), times=3)
        one.bring(b"\xff")
        await asyncio.sleep(2.5)
        assert one.group.committed == {one.main: 0}
        await asyncio.sleep(2)
        assert one.publisher.faults.spent
        assert (one.group.committed, one.forwards(DLQ)) == ({one.main: 1}, ["permanent"])


async def test_what_can_never_be_forwarded_ends_as_a_row() -> None:
    """Status dlq, written here."""
    async with station() as one:
        one.publisher.faults.declare(Unpublishable("MSG_SIZE_TOO_LARGE"))
        one.http.always = lambda _: answer(400)
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert one.publisher.faults.spent
        found = one.store.rows[("a", "firebase")]
        assert (found.status, found.last_error) == (Status.DLQ, "unpublishable: MSG_SIZE_TOO_LARGE")
        assert (found.http_status, found.attempts) == (400, 1)
        assert one.group.committed == {one.main: 1}


# Partitions that go, and stopping


async def test_a_revoked_partition_is_drained_before_it_goes() -> None:
    """What is in flight ends and is committed; what had not begun is given up for its next owner."""
    async with station(slots=2) as one:
        one.http.latency = 1.0
        one.bring(*(notification(f"n-{number}") for number in range(6)))
        await asyncio.sleep(0.5)
        assert await one.group.revoke([one.main]) == {one.main: 2}
        assert set(one.statuses()) == {"n-0", "n-1"}
        assert len(one.http.calls) == 2
        assert one.pipeline._intake.active == 0


async def test_a_partition_that_goes_gets_no_further_tries() -> None:
    """What failed is its next owner's, with all its tries; a pause is cut short."""
    async with station() as one:
        one.http.always = lambda _: answer(503, "5")
        one.bring(notification("a"))
        await asyncio.sleep(1)
        started = one.clock.monotonic()
        assert await one.group.revoke([one.main]) == {one.main: 0}
        assert one.clock.monotonic() - started < 1
        assert (len(one.http.calls), one.publisher.calls, one.statuses()) == (1, 0, {})


async def test_what_may_have_reached_the_provider_is_not_given_up_silently() -> None:
    """It goes on with its header while the partition is still ours."""
    async with station() as one:
        one.http.always = lambda _: Unanswered("reset")
        one.bring(notification("a"))
        await asyncio.sleep(0.05)
        await one.group.revoke([one.main])
        (copy,) = one.publisher.records
        assert copy.header("maybe.reached") == b"true"
        assert one.group.committed == {one.main: 1}


async def test_what_is_held_and_may_have_reached_the_provider_is_not_given_up_either() -> None:
    """Behind the breaker when its partition goes: it is put off with its header; who never got a call is given up."""
    async with station(slots=THRESHOLD) as one:
        one.http.always = lambda _: Unanswered("reset")
        one.bring(*(notification(f"n-{number:02}") for number in range(20)))
        await asyncio.sleep(4)
        called = {call.key for call in one.http.calls}
        gone_on = len(one.publisher.records)
        assert gone_on < len(called) < 20
        await one.group.revoke([one.main])
        put_off = one.publisher.records[gone_on:]
        assert len(put_off) == len(called) - gone_on
        assert {copy.header("maybe.reached") for copy in put_off} == {b"true"}
        assert {copy.header("forward.reason") for copy in put_off} == {b"breaker-open"}


async def test_a_lost_partition_is_neither_forwarded_nor_committed_for() -> None:
    """But what turns out to be delivered is recorded: nobody else knows it."""
    async with station() as one:
        one.http.latency = 1.0
        one.http.always = lambda call: OK if call.key == "good" else answer(400)
        one.bring(notification("good"), notification("bad"), expiring(0.5, "late"))
        await asyncio.sleep(0.5)
        one.group.lose(one.main)
        await asyncio.sleep(3)
        assert one.statuses() == {"good": Status.DELIVERED}
        assert one.publisher.calls == 0
        assert one.group.committed.get(one.main, 0) == 0


async def test_a_stale_process_neither_forwards_nor_commits() -> None:
    """It has not polled for so long that others may own everything by now."""
    async with station() as one:
        one.http.always = lambda call: OK if call.key == "good" else answer(400)
        one.group.is_stale = True
        one.bring(notification("good"), notification("bad"))
        await asyncio.sleep(3)
        assert (one.publisher.calls, one.group.commits) == (0, [])
        assert one.statuses() == {"good": Status.DELIVERED}
        one.group.is_stale = False


async def test_stopping_waits_for_what_is_under_way() -> None:
    """And leaves nothing behind."""
    async with station() as one:
        one.http.latency = 2.0
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
    assert one.statuses() == {"a": Status.DELIVERED}
    assert one.group.committed == {one.main: 1}


async def test_stopping_gives_up_what_has_not_begun() -> None:
    """It comes again elsewhere."""
    async with station(slots=1) as one:
        one.http.latency = 2.0
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(0.5)
    assert (one.statuses(), len(one.http.calls)) == ({"a": Status.DELIVERED}, 1)
    assert one.group.committed == {one.main: 1}


async def test_stopping_while_the_database_is_away_leaves_work_behind() -> None:
    """As many as it says; nothing of them is committed."""
    async with station(left=1) as one:
        one.store.record_faults.declare(StoreAway("gone"), times=10_000)
        one.bring(notification("a"))
        await asyncio.sleep(2)
    assert one.group.committed == {one.main: 0}


async def test_stopping_while_the_gate_cannot_be_asked_is_in_order() -> None:
    """Nothing had begun: nothing is left behind."""
    async with station() as one:
        one.store.seen_faults.declare(StoreAway("gone"), times=10_000)
        one.bring(notification("a"))
        await asyncio.sleep(2)
    assert one.http.calls == []


async def test_a_channel_without_retry_stages_can_lose_what_it_holds() -> None:
    """There is nowhere to put a held record off to: it is given up, not asked about for ever."""
    bare = replace(FIREBASE, ladder=Ladder(()))
    async with station(bare, slots=THRESHOLD) as one:
        one.http.always = lambda _: Unanswered("reset")
        one.bring(*(notification(f"n-{number}") for number in range(THRESHOLD + 3)))
        await asyncio.sleep(OPEN_PERIOD + 10)
        assert one.pipeline._intake.active > 0
        await one.group.revoke([one.main])
        assert one.pipeline._intake.active == 0


async def test_a_merged_ladder_is_one_row_of_data() -> None:
    """Two stages became one of a minute; the retired one is still consumed."""
    merged = replace(FIREBASE, ladder=Ladder((Stage("retry-30s", 30, retired=True), Stage("retry-1m", 60))))
    async with station(merged) as one:
        one.group.assign(
            Partition("notification-firebase-retry-30s", 0), Partition("notification-firebase-retry-1m", 0)
        )
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"))
        one.bring(notification("b"), stage="retry-30s")
        one.bring(notification("c"), stage="retry-1m")
        await asyncio.sleep(4)
        assert one.forwards("retry-1m") == ["next-retry"] * 2
        assert one.forwards(DLQ) == ["exhausted"]


# The timeline


MAIN_TOPIC = TopicNames().stage("firebase", MAIN)


async def test_a_record_that_failed_has_its_attempts_written_forwarded_or_not() -> None:
    """Each try before a forward, and those that led to a row; who succeeded at once has none."""
    async with station() as one:
        one.group.assign(Partition("notification-firebase-retry-5m", 0))
        script: dict[str, list[int]] = {"moves-on": [503, 503, 503], "recovers": [429], "dies": [400], "fine": []}
        one.http.always = lambda call: answer(codes.pop(0)) if (codes := script.get(call.key)) else OK
        one.bring(*map(notification, script))
        await asyncio.sleep(5)
        assert one.forwards("retry-30s") == ["next-retry"]
        assert one.timeline("moves-on") == [(MAIN_TOPIC, "Refused", 503)] * 3
        assert one.timeline("recovers") == [(MAIN_TOPIC, "Throttled", 429), (MAIN_TOPIC, "Delivered", 200)]
        assert one.timeline("dies") == [(MAIN_TOPIC, "Rejected", 400)]
        assert one.timeline("fine") == []
        assert {node for _, _, node in one.store.attempts} == {"node-1"}
        one.bring(notification("later"), stage="retry-5m", headers=[("attempts", b"3")])
        await asyncio.sleep(5)
        assert one.timeline("later") == [("notification-firebase-retry-5m", "Delivered", 200)]


@pytest.mark.parametrize(("kept", "written"), [(Kept.OFF, 0), (Kept.FAILURES, 3), (Kept.ALL, 4)])
async def test_how_much_is_kept_is_a_setting(kept: Kept, written: int) -> None:
    """Nothing, what concerns failures, everything."""
    async with station(kept=kept) as one:
        fails = iter([503, 503])
        one.http.always = lambda call: answer(next(fails, 200)) if call.key == "a" else OK
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(5)
        assert set(one.statuses()) == {"a", "b"}
        assert len(one.store.attempts) == written


async def test_probes_are_on_the_timeline_though_they_spend_nothing() -> None:
    """The one that failed and the one that got through, of the same record."""
    async with station(slots=THRESHOLD) as one:
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number:02}") for number in range(THRESHOLD + 1)))
        await asyncio.sleep(4)
        probed = len(one.http.calls)
        await asyncio.sleep(OPEN_PERIOD + 1)
        one.http.always = lambda _: OK
        [probe] = one.http.calls[probed:]
        assert one.timeline(probe.key)[-1] == (MAIN_TOPIC, "Refused", 503)
        await asyncio.sleep(2 * OPEN_PERIOD)
        assert one.statuses()[probe.key] is Status.DELIVERED
        assert one.timeline(probe.key)[-1] == (MAIN_TOPIC, "Delivered", 200)


async def test_a_timeline_that_cannot_be_written_holds_nobody_up() -> None:
    """Rows are written, forwards go, offsets are committed, and the process stops in order."""
    async with station() as one:
        one.store.note_faults.declare(StoreAway("gone"), times=1000)
        script = {"a": [503], "b": [503, 503, 503]}
        one.http.always = lambda call: answer(codes.pop(0)) if (codes := script[call.key]) else OK
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(10)
        assert one.statuses() == {"a": Status.DELIVERED}
        assert one.forwards("retry-30s") == ["next-retry"]
        assert one.group.committed == {one.main: 2}
        assert one.store.note_faults.hits > 5
        assert one.heard.of(events.Held) == []
    assert one.store.attempts == {}


async def test_an_orderly_stop_writes_the_timeline() -> None:
    """Also of what it cancels and of what it gives up."""
    async with station() as one:
        one.http.always = lambda call: HANG if call.key == "hangs" else answer(503, "5")
        one.bring(notification("hangs"), notification("pauses"))
        await asyncio.sleep(1)
    assert one.timeline("hangs") == [(MAIN_TOPIC, "Indeterminate", None)]
    assert one.timeline("pauses") == [(MAIN_TOPIC, "Refused", 503)]


async def test_no_canary_gets_into_the_timeline() -> None:
    """Neither target nor payload nor recipient: it has no column for any of them."""
    async with station(WEBHOOK, kept=Kept.ALL) as one:
        canary = "CANARY"
        one.http.always = lambda call: Unanswered(f"{call.url} hung up") if "slow" in call.url else OK
        secrets: Any = {"title": canary, "body": canary, "payload_json": canary, "user_id": canary}
        one.bring(hook("slow", f"{SLOW_HOST}/{canary}", **secrets), hook("ok", f"{QUICK_HOST}/{canary}", **secrets))
        await asyncio.sleep(10)
        assert {key for key, _, _ in one.store.attempts} == {"slow", "ok"}
        assert canary not in repr(one.store.attempts)


async def test_no_canary_leaves_by_an_event() -> None:
    """Whatever happens to it: neither target, nor payload, nor recipient."""
    async with station(WEBHOOK) as one:
        canary = "CANARY"
        one.store.refuses = lambda found: "22P05" if found.user_id else None
        one.http.always = lambda call: answer(503) if "slow" in call.url else OK
        secrets: Any = {"title": canary, "body": canary, "payload_json": canary, "user_id": canary}
        one.bring(*(hook(f"n-{number}", f"{SLOW_HOST}/{canary}", **secrets) for number in range(8)))
        one.bring(hook("bad", f"{canary}.example", **secrets), hook("ok", QUICK_HOST, **secrets))
        one.bring(canary.encode())
        await asyncio.sleep(60)
        kinds = {type(event) for event in one.heard.events}
        assert {events.BreakerChanged, events.RowStripped, events.Forwarded, events.Recorded} <= kinds
        assert canary not in repr(one.heard.events)


async def test_a_task_that_dies_takes_the_role_down() -> None:
    """Loudly, and nothing is committed."""
    one = Station(FIREBASE)

    one.http.always = cast("Any", lambda _: 1 / 0)
    one.bring(notification("a"))
    with pytest.raises(Exception, match="a background task died") as caught:
        await one.pipeline.run(one.stop)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert one.group.committed == {}


async def test_work_that_stands_still_makes_no_progress() -> None:
    """The loops turn, nothing is declared away, and nothing ends: the watchdog can see it."""
    async with station() as one:
        one.store.latency = 10_000  # a statement without an end, and no word that the database is away
        one.bring(notification("b"))
        await asyncio.sleep(100)
        assert one.clock.monotonic() - one.pipeline.progress > 90
        assert one.clock.monotonic() - one.pipeline.beat < 1


@pytest.mark.parametrize("away", ["provider", "database", "nothing"])
async def test_declared_waits_are_progress(away: str) -> None:
    """An hour of an open breaker, or of a database that is known to be away, is no reason for a restart."""
    async with station(left=1 if away == "database" else 0) as one:
        if away == "provider":
            one.http.always = lambda _: answer(503)
        elif away == "database":
            one.store.record_faults.declare(StoreAway("gone"), times=100_000)
        if away != "nothing":
            one.bring(notification("a"))
        if away == "provider":
            one.bring(*(notification(f"a-{number}") for number in range(2 * THRESHOLD)))
        for _ in range(60):
            await asyncio.sleep(60)
            assert one.clock.monotonic() - one.pipeline.progress < 20
