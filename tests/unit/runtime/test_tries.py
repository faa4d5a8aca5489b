"""One delivery with its tries."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.fakes.clock import EPOCH, LoopClock
from tests.fakes.http import HANG, OK, Answer, ScriptedHttp, answer
from tests.fakes.samples import expiring, relay, work

from ringonce.channels.http import HttpCarrier
from ringonce.channels.port import NotConnected, Unanswered
from ringonce.domain.attempt import Attempt, Kept
from ringonce.domain.classify import RELAY
from ringonce.domain.outcome import Delivered, Indeterminate, NotSent, Refused, Rejected, Throttled
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.tries import ATTEMPT_DEADLINE, Courier, Ending, Finding

if TYPE_CHECKING:
    from ringonce.runtime.work import Work


class Always(Random):
    """Draws the same fraction every time."""

    def __init__(self, fraction: float) -> None:
        super().__init__()
        self._fraction = fraction

    def random(self) -> float:
        """That one."""
        return self._fraction


class Trip:
    """A courier and its provider."""

    def __init__(self, *script: Answer, attempts: int = 3, fraction: float = 0.5, kept: Kept = Kept.FAILURES) -> None:
        self.http = ScriptedHttp(*script)
        self.clock = LoopClock()
        self.going = True
        self.took: list[float] = []
        carrier = HttpCarrier(relay(), self.http, RELAY, self.clock.now)
        self.courier = Courier(carrier, self.clock, Always(fraction), attempts, Failpoints(), self.took.append, kept)

    async def deliver(self, one: Work) -> Finding:
        """With all its tries."""
        return await self.courier.deliver(one, lambda: self.going)

    @property
    def pauses(self) -> list[float]:
        """Seconds between the calls."""
        return [round(later.at - earlier.at, 6) for earlier, later in pairwise(self.http.calls)]


async def test_only_successful_calls_say_how_long_the_provider_takes() -> None:
    """One that fails may fail at once: that must not look like a quick provider."""
    trip = Trip(answer(503), Unanswered("no answer"), OK)
    trip.http.latency = 0.25
    await trip.deliver(work())
    assert trip.took == [pytest.approx(0.25)]


async def test_the_first_success_ends_it() -> None:
    """One call, one attempt."""
    trip, one = Trip(), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, Delivered(200))
    assert (len(trip.http.calls), one.attempts, one.spent, one.maybe_reached) == (1, 1, 1, False)


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
async def test_as_many_tries_as_are_allowed(attempts: int) -> None:
    """Then the last outcome is the stage's."""
    trip, one = Trip(attempts=attempts), work()
    trip.http.always = lambda _: answer(503)
    assert await trip.deliver(one) == Finding(Ending.FINAL, Refused(503))
    assert (len(trip.http.calls), one.attempts, one.spent) == (attempts, attempts, attempts)


async def test_pauses_double_with_full_jitter() -> None:
    """The random fraction of 0.2, 0.4, 0.8, 1.6 and then 2 seconds."""
    trip = Trip(attempts=7, fraction=0.5)
    trip.http.always = lambda _: answer(503)
    await trip.deliver(work())
    assert trip.pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@pytest.mark.parametrize(("failing", "outcome"), [(answer(503), Refused), (answer(429), Throttled)])
async def test_a_failure_that_passes_is_tried_again(failing: Answer, outcome: type[object]) -> None:
    """With the same request, byte for byte."""
    assert outcome in {Refused, Throttled}
    trip, one = Trip(failing, failing, OK), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, Delivered(200))
    assert one.attempts == 3
    assert len({(call.url, call.body, tuple(call.headers.items())) for call in trip.http.calls}) == 1


async def test_a_short_retry_after_is_waited_for() -> None:
    """Exactly, up to five seconds."""
    trip = Trip(answer(503, "5"), answer(429, "1"), OK)
    assert (await trip.deliver(work())).outcome == Delivered(200)
    assert trip.pauses == [5, 1]


async def test_a_longer_retry_after_stops_the_tries() -> None:
    """It is a later stage's."""
    trip, one = Trip(answer(503, "6")), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, Refused(503, 6))
    trip, one = Trip(answer(503), answer(429, "60")), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, Throttled(429, 60))
    assert one.attempts == 2


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410, 422])
async def test_a_rejection_is_final(status: int) -> None:
    """Nothing that the relay says no to is tried again."""
    trip, one = Trip(answer(status)), work()
    finding = await trip.deliver(one)
    assert isinstance(finding.outcome, Rejected)
    assert (len(trip.http.calls), one.attempts) == (1, 1)


async def test_kinds_of_failed_calls() -> None:
    """Not connected is NotSent; everything else is Indeterminate, and that is never forgotten."""
    trip, one = Trip(NotConnected("refused"), attempts=1), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, NotSent("refused"))
    assert not one.maybe_reached
    trip, one = Trip(Unanswered("reset"), attempts=1), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, Indeterminate("reset"))
    assert one.maybe_reached
    trip, one = Trip(Unanswered("reset"), NotConnected("refused"), OK), work()
    assert await trip.deliver(one) == Finding(Ending.FINAL, Delivered(200))
    assert one.maybe_reached


async def test_a_request_that_cannot_be_sent_is_rejected() -> None:
    """What is wrong with the message does not get better; it counts as a call all the same."""
    trip, one = Trip(ValueError("a secret header")), work()
    finding = await trip.deliver(one)
    assert finding == Finding(Ending.FINAL, Rejected("the request cannot be sent: its URL or a header is invalid"))
    assert (one.attempts, one.maybe_reached) == (1, False)


async def test_a_call_takes_three_seconds_at_most() -> None:
    """By its deadline."""
    trip, one = Trip(HANG, attempts=1), work()
    started = trip.clock.monotonic()
    finding = await trip.deliver(one)
    assert isinstance(finding.outcome, Indeterminate)
    assert trip.clock.monotonic() - started == pytest.approx(ATTEMPT_DEADLINE)


@pytest.mark.parametrize(("left", "deadline"), [(100, 3.0), (3.5, 3.0), (2.5, 2.5), (0.2, 0.2)])
async def test_the_deadline_is_three_seconds_or_the_time_left(left: float, deadline: float) -> None:
    """Whichever is less."""
    trip = Trip()
    await trip.deliver(work(expiring(left)))
    assert trip.http.calls[0].deadline == pytest.approx(deadline)


@pytest.mark.parametrize("probe", [False, True])
async def test_nothing_starts_after_the_end(probe: bool) -> None:  # noqa: FBT001 - a table's column
    """Not even at the end."""
    trip, one = Trip(), work(expiring(0))
    finding = await (trip.courier.probe(one) if probe else trip.deliver(one))
    assert finding == Finding(Ending.EXPIRED, None)
    assert (trip.http.calls, one.attempts) == ([], 0)


async def test_the_end_may_come_between_two_tries() -> None:
    """The last outcome is kept for the row."""
    trip, one = Trip(answer(503, "4")), work(expiring(3))
    assert await trip.deliver(one) == Finding(Ending.EXPIRED, Refused(503, 4))
    assert len(trip.http.calls) == 1


async def test_the_wall_clock_decides_what_is_expired() -> None:
    """As the design says: by the sender's clock, which may jump."""
    trip, one = Trip(answer(503, "1"), answer(503, "1")), work(expiring(60))
    delivery = asyncio.ensure_future(trip.deliver(one))
    await asyncio.sleep(0.5)
    trip.clock.jump(3600)
    assert await delivery == Finding(Ending.EXPIRED, Refused(503, 1))
    assert len(trip.http.calls) == 1


async def test_an_interrupt_cuts_the_pause_short() -> None:
    """The breaker has opened, or the partition goes: what it spent is kept."""
    trip, one = Trip(answer(503, "5")), work()
    delivery = asyncio.ensure_future(trip.deliver(one))
    await asyncio.sleep(1)
    trip.going = False
    assert one.interrupt is not None
    one.interrupt.set()
    started = trip.clock.monotonic()
    assert await delivery == Finding(Ending.INTERRUPTED, Refused(503, 5))
    assert trip.clock.monotonic() == started
    assert (one.spent, one.attempts) == (1, 1)
    assert one.interrupt is None


async def test_whoever_may_not_go_on_is_asked_before_each_further_try() -> None:
    """After the first, without a pause, and after a later one."""
    trip, one = Trip(answer(503)), work()
    trip.going = False
    assert (await trip.deliver(one)).ending is Ending.INTERRUPTED
    assert (len(trip.http.calls), one.interrupt) == (1, None)

    trip, one = Trip(answer(503), answer(503)), work()
    asked = iter([True, True, False])
    finding = await trip.courier.deliver(one, lambda: next(asked))
    assert finding == Finding(Ending.INTERRUPTED, Refused(503))
    assert len(trip.http.calls) == 2


async def test_a_probe_is_one_call() -> None:
    """Whatever it brings."""
    trip, one = Trip(answer(503)), work()
    assert await trip.courier.probe(one) == Finding(Ending.FINAL, Refused(503))
    assert len(trip.http.calls) == 1


async def test_a_last_chance_is_one_call() -> None:
    """Outside the slots it waits, not in one."""
    trip, one = Trip(answer(503)), work()
    one.single = True
    assert await trip.deliver(one) == Finding(Ending.FINAL, Refused(503))
    assert len(trip.http.calls) == 1


async def test_tries_that_were_spent_before_count() -> None:
    """A record that the breaker held comes back with what it has left; attempts count over all stages."""
    trip, one = Trip(), work(headers=[("attempts", b"7")])
    trip.http.always = lambda _: answer(503)
    one.spent = 2
    await trip.deliver(one)
    assert (len(trip.http.calls), one.spent, one.attempts) == (1, 3, 8)


async def test_a_cancelled_call_is_cancelled() -> None:
    """Not swallowed, and not counted as an outcome."""
    trip, one = Trip(HANG), work()
    delivery = asyncio.ensure_future(trip.deliver(one))
    await asyncio.sleep(1)
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    assert (trip.http.cancelled, one.outcome) == (1, None)


async def test_the_key_is_the_roots_and_the_trace_goes_along() -> None:
    """For a replay too."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers: Any = [
        ("notification.id", b"replay-2-n-1"),
        ("replay.of", b"n-1"),
        ("replay.count", b"2"),
        ("traceparent", trace.encode()),
    ]
    trip = Trip()
    await trip.deliver(work(headers=headers))
    assert trip.http.calls[0].key == "n-1"
    assert trip.http.calls[0].headers["traceparent"] == trace


def kept_outcomes(one: Work) -> list[str] | None:
    """The outcomes on its timeline, None where there is no timeline."""
    return None if one.tried is None else [attempt.outcome for attempt in one.tried]


@pytest.mark.parametrize(
    ("kept", "timeline"),
    [(Kept.OFF, None), (Kept.FAILURES, None), (Kept.ALL, ["Delivered"])],
)
async def test_a_first_success_is_kept_only_where_all_are(kept: Kept, timeline: list[str] | None) -> None:
    """By default it leaves nothing behind, not even an empty list."""
    trip, one = Trip(kept=kept), work()
    await trip.deliver(one)
    assert kept_outcomes(one) == timeline


@pytest.mark.parametrize(
    ("kept", "timeline"),
    [(Kept.OFF, None), *((kept, ["Refused", "Throttled", "Delivered"]) for kept in (Kept.FAILURES, Kept.ALL))],
)
async def test_failures_are_kept_with_the_success_that_follows(kept: Kept, timeline: list[str] | None) -> None:
    """The last one of a record that had failures tells how it ended."""
    trip, one = Trip(answer(503), answer(429), OK, kept=kept), work()
    await trip.deliver(one)
    assert kept_outcomes(one) == timeline


async def test_an_attempt_says_when_it_began_and_how_long_it_took() -> None:
    """By the wall clock and by the monotonic one; with the status code where there was an answer."""
    trip = Trip(answer(503, "1"), NotConnected("refused"), HANG)
    trip.http.latency = 0.25
    one = work()
    await trip.deliver(one)
    first, second, third = one.tried or []
    assert first == Attempt(pytest.approx(EPOCH), "Refused", 503, pytest.approx(0.25))  # type: ignore[arg-type]
    assert second == Attempt(pytest.approx(EPOCH + 1.25), "NotSent", None, pytest.approx(0.25))  # type: ignore[arg-type]
    assert (third.outcome, third.status) == ("Indeterminate", None)
    assert third.seconds == pytest.approx(ATTEMPT_DEADLINE)


@pytest.mark.parametrize("status", [400, 302])
async def test_a_rejection_is_a_failure_of_the_record(status: int) -> None:
    """Somebody will ask why it died."""
    trip, one = Trip(answer(status)), work()
    await trip.deliver(one)
    assert [(attempt.outcome, attempt.status) for attempt in one.tried or []] == [("Rejected", status)]


@pytest.mark.parametrize("probe", [False, True])
async def test_a_success_is_the_last_one_of_a_record_that_failed_elsewhere(probe: bool) -> None:  # noqa: FBT001
    """In an earlier stage, or here, with what was kept of it taken already."""
    trip, one = Trip(), work(headers=[("attempts", b"3")])
    await (trip.courier.probe(one) if probe else trip.deliver(one))
    assert kept_outcomes(one) == ["Delivered"]
    trip, one = Trip(), work()
    one.tried = []
    await (trip.courier.probe(one) if probe else trip.deliver(one))
    assert kept_outcomes(one) == ["Delivered"]


async def test_a_cancelled_call_is_on_the_timeline() -> None:
    """It may have arrived, and nobody knows."""
    trip, one = Trip(HANG), work()
    delivery = asyncio.ensure_future(trip.deliver(one))
    await asyncio.sleep(1)
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    [kept] = one.tried or []
    assert (kept.outcome, kept.status) == ("Indeterminate", None)
    assert kept.seconds == pytest.approx(1)
