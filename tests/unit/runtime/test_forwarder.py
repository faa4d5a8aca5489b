"""A record's copy on its way to the next topic."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.fakes.clock import EPOCH, LoopClock
from tests.fakes.events import Heard
from tests.fakes.publisher import MemoryPublisher
from tests.fakes.samples import work

from ringonce.domain.disposition import Forward, Reason
from ringonce.domain.outcome import Indeterminate, Outcome, Refused, Rejected
from ringonce.kafka import headers as names
from ringonce.kafka.port import PublishUncertain, Unpublishable
from ringonce.observe import events
from ringonce.runtime.forwarder import AGAIN, Forwarder

if TYPE_CHECKING:
    from ringonce.runtime.work import Work

ON = Forward("retry-30s", Reason.NEXT_RETRY)
OFF = Forward("retry-30s", Reason.BREAKER_OPEN)
NOW_MS = str(int(EPOCH * 1000)).encode()


class Post:
    """A forwarder and where its records end."""

    def __init__(self) -> None:
        self.publisher = MemoryPublisher(in_loop=True)
        self.heard = Heard()
        self.clock = LoopClock()
        self.ours = True
        self.settled: list[Work] = []
        self.unpublishable: list[tuple[Work, str]] = []
        self.abandoned: list[Work] = []
        self.forwarder = Forwarder(
            self.publisher,
            lambda stage: f"topic-{stage}",
            self.clock,
            self.heard,
            allowed=lambda _: self.ours,
            settled=self.settled.append,
            unpublishable=lambda one, detail: self.unpublishable.append((one, detail)),
            abandoned=self.abandoned.append,
        )

    async def headers(self, one: Work, to: Forward, cause: Outcome | str | None = None) -> dict[str, bytes | None]:
        """The headers with which it is forwarded; none is there twice."""
        self.forwarder.forward(one, to, cause)
        await asyncio.sleep(0.1)
        headers = self.publisher.records[-1].headers
        found = dict(headers)
        ours = [name for name, _ in headers if name in names.RESERVED]
        assert len(ours) == len(set(ours))
        return found


async def test_key_and_value_are_forwarded_byte_for_byte() -> None:
    """Settled only once that is acknowledged."""
    post, one = Post(), work(b"\x0a\x03n-1\xa0\x06\x01", headers=[("x", None), ("x", b"\xff")])
    post.forwarder.forward(one, ON, None)
    assert (post.settled, post.forwarder.pending) == ([], 1)
    await asyncio.sleep(0.1)
    (copy,) = post.publisher.to("topic-retry-30s")
    assert (copy.key, copy.value) == (one.record.key, one.record.value)
    # A broker refuses what lies far ahead of its clock; this time it has taken before, ours may be wrong.
    assert copy.timestamp_ms == one.record.timestamp_ms > 0
    assert copy.headers[:2] == [("x", None), ("x", b"\xff")]
    assert (post.settled, post.forwarder.pending) == ([one], 0)
    expected = events.Forwarded(one.envelope.identity.id, one.trace_id, "retry-30s", "next-retry")
    assert post.heard.of(events.Forwarded) == [expected]


async def test_headers_of_a_first_forward() -> None:
    """The origin is set where the producer went around the router."""
    one = work(offset=7)
    one.attempts = one.spent = 3
    assert await Post().headers(one, ON, Refused(503, 7)) == {
        names.ORIGIN: b"notification-firebase/0/7/1700000000000",
        names.RETRY_COUNT: b"1",
        names.ATTEMPTS: b"3",
        names.ERROR_CLASS: b"Refused",
        names.ERROR_MESSAGE: b"refused with status 503, retry after 7 s",
        names.ERROR_STATUS: b"503",
        names.ERROR_TIMESTAMP: NOW_MS,
        names.ORIGINAL_TOPIC: b"notification-firebase",
        names.PREVIOUS_TOPIC: b"notification-firebase",
        names.FORWARD_REASON: b"next-retry",
    }


def forwarded_before() -> list[tuple[str, bytes | None]]:
    return [
        (names.ORIGIN, b"notification-events/4/2/1"),
        (names.RETRY_COUNT, b"1"),
        (names.ATTEMPTS, b"3"),
        (names.DEFERRED_SINCE, b"1600000000000"),
        (names.ERROR_MESSAGE, b"old"),
        (names.ERROR_STATUS, b"503"),
        (names.ORIGINAL_TOPIC, b"first"),
        (names.PREVIOUS_TOPIC, b"second"),
        (names.MAYBE_REACHED, b"true"),
        ("x", b"1"),
    ]


async def test_headers_are_replaced_and_what_is_kept_is_kept() -> None:
    """Origin, first topic, first deferral and maybe.reached stay; the counts go on."""
    one = work(offset=7, topic="third", headers=[*forwarded_before(), (names.RETRY_COUNT, b"1")])
    one.attempts, one.spent = 6, 3
    headers = await Post().headers(one, ON, Indeterminate("reset"))
    assert headers == {
        names.ORIGIN: b"notification-events/4/2/1",
        names.RETRY_COUNT: b"2",
        names.ATTEMPTS: b"6",
        names.DEFERRED_SINCE: b"1600000000000",
        names.ERROR_CLASS: b"Indeterminate",
        names.ERROR_MESSAGE: b"no answer: reset",
        names.ERROR_TIMESTAMP: NOW_MS,
        names.ORIGINAL_TOPIC: b"first",
        names.PREVIOUS_TOPIC: b"third",
        names.FORWARD_REASON: b"next-retry",
        names.MAYBE_REACHED: b"true",
        "x": b"1",
    }


async def test_a_deferral_spends_nothing_and_notes_when_it_began() -> None:
    """Once: the second one keeps the first one's time."""
    headers = await Post().headers(work(), OFF)
    assert (headers[names.RETRY_COUNT], headers[names.DEFERRED_SINCE]) == (b"0", NOW_MS)
    assert names.ERROR_CLASS not in headers
    headers = await Post().headers(work(headers=forwarded_before()), OFF)
    assert (headers[names.RETRY_COUNT], headers[names.DEFERRED_SINCE]) == (b"1", b"1600000000000")
    assert headers[names.ERROR_MESSAGE] == b"old"


async def test_retry_count_counts_hops_that_spent_attempts() -> None:
    """A record that was rejected unasked, or is too old, spent none here."""
    for reason in (Reason.PERMANENT, Reason.TOO_OLD):
        headers = await Post().headers(work(headers=forwarded_before()), Forward("dlq", reason), Rejected("no URL"))
        assert headers[names.RETRY_COUNT] == b"1"


async def test_maybe_reached_is_set_once_it_is_so() -> None:
    """Whatever the last outcome was."""
    one = work()
    assert names.MAYBE_REACHED not in await Post().headers(one, ON, Refused(503))
    one = work()
    one.maybe_reached = True
    assert (await Post().headers(one, ON, Refused(503)))[names.MAYBE_REACHED] == b"true"


async def test_error_text_is_bounded_and_on_one_line() -> None:
    """Whoever wrote it."""
    headers = await Post().headers(work(), ON, Rejected("a\r\nb \ud800" + "x" * 5000))
    text = headers[names.ERROR_MESSAGE]
    assert text is not None
    assert text.startswith(b"a b ?xxx")
    assert len(text) <= names.LONGEST_MESSAGE


@pytest.mark.parametrize("times", [1, 3])
async def test_a_publish_of_unknown_fate_is_repeated(times: int) -> None:
    """Until it is acknowledged; the offset waits, and the hold is told."""
    post, one = Post(), work()
    post.publisher.faults.declare(PublishUncertain("_MSG_TIMED_OUT"), times)
    post.forwarder.forward(one, ON, None)
    await asyncio.sleep(AGAIN * (times - 0.5))
    assert (post.settled, post.forwarder.pending) == ([], 1)
    assert post.heard.of(events.Held) == [events.Held("broker", "_MSG_TIMED_OUT", 1, 0.0)]
    await asyncio.sleep(AGAIN)
    assert post.publisher.faults.spent
    assert (post.settled, post.forwarder.pending) == ([one], 0)
    assert len(post.heard.of(events.Resumed)) == 1
    assert len(post.publisher.records) == 1


async def test_what_can_never_be_published_is_not_repeated() -> None:
    """Its row is written instead."""
    post, one = Post(), work()
    post.publisher.faults.declare(Unpublishable("MSG_SIZE_TOO_LARGE"))
    post.forwarder.forward(one, ON, None)
    await asyncio.sleep(10)
    assert post.publisher.faults.spent
    assert post.unpublishable == [(one, "MSG_SIZE_TOO_LARGE")]
    assert (post.settled, post.forwarder.pending, post.publisher.calls) == ([], 0, 1)
    assert len(post.heard.of(events.Unpublishable)) == 1


async def test_what_is_not_ours_any_more_is_not_forwarded() -> None:
    """It is asked right before each publish, a repeated one included."""
    post, one = Post(), work()
    post.ours = False
    post.forwarder.forward(one, ON, None)
    assert (post.abandoned, post.publisher.calls, post.forwarder.pending) == ([one], 0, 0)

    post, one = Post(), work()
    post.publisher.faults.declare(PublishUncertain("x"))
    post.forwarder.forward(one, ON, None)
    await asyncio.sleep(AGAIN / 2)
    post.ours = False
    await asyncio.sleep(AGAIN)
    assert (post.abandoned, post.publisher.calls, post.settled, post.forwarder.pending) == ([one], 1, [], 0)


async def test_no_canary_leaves_by_an_event() -> None:
    """Neither target nor payload."""
    post: Any = Post()
    one = work(b"\x0a\x03n-1\x4a\x06CANARY\x22\x06CANARY")
    post.publisher.faults.declare(Unpublishable("MSG_SIZE_TOO_LARGE"))
    post.forwarder.forward(one, ON, Refused(503))
    post.forwarder.forward(one, ON, Refused(503))
    await asyncio.sleep(1)
    assert len(post.heard.events) == 2
    assert "CANARY" not in repr(post.heard.events)
