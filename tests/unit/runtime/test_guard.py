"""A whole sender on fakes, under each semantics: what is durable before a call, and what is undone after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.fakes.http import HANG, OK, answer
from tests.fakes.samples import expiring, notification, row
from tests.unit.runtime.test_sender import Station, station

from ringonce.channels.port import NotConnected, Unanswered
from ringonce.domain.disposition import Status
from ringonce.domain.semantics import AtMostOnce, Bounded, OnExhausted, OnRefused
from ringonce.domain.stages import DLQ
from ringonce.kafka.port import Partition
from ringonce.runtime.breaker import OPEN_PERIOD, THRESHOLD
from ringonce.store.claims import Bound, Claim
from ringonce.store.port import Gate, StoreAway

if TYPE_CHECKING:
    from tests.fakes.http import Answer

CLAIM = AtMostOnce()
THREE = Bounded(3)
RETRY = Partition("notification-firebase-retry-30s", 0)
OWNER = "node-1/"


def counts(one: Station) -> dict[str, int]:
    """The attempts that are counted, by root."""
    return {root: count for (_, root), count in one.claims.attempts.items()}


# Effectively-once


async def test_effectively_once_makes_nothing_durable_before_a_call() -> None:
    """Neither claim nor count, whatever the outcome."""
    async with station() as one:
        one.http.script.extend([answer(503), OK])
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(2)
        assert (one.claims.batches, one.claims.attempts) == ([], {})


# At-most-once


async def test_a_claim_stands_before_the_call_and_the_outcome_takes_its_place() -> None:
    """Both rows are there while the provider is asked."""
    async with station(semantics=CLAIM) as one:
        one.http.latency = 1.0
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(0.5)
        assert one.statuses() == {"a": Status.UNKNOWN, "b": Status.UNKNOWN}
        assert all(owner.startswith(OWNER) for owner in one.store.gates.values())
        assert len(set(one.store.gates.values())) == 2
        assert one.store.rows[("a", "firebase")].user_id == "user-1"
        await asyncio.sleep(1)
        assert one.statuses() == {"a": Status.DELIVERED, "b": Status.DELIVERED}
        assert one.claims.batches == [("claim", ["a", "b"])]
        assert one.group.committed == {one.main: 2}


@pytest.mark.parametrize("failing", [NotConnected("refused"), answer(429), answer(503)], ids=repr)
async def test_what_was_surely_not_taken_is_released_and_tried_again(failing: Answer) -> None:
    """Each try has a claim of its own; after the last one the copy goes on, and nothing says `unknown`."""
    async with station(semantics=CLAIM) as one:
        one.http.always = lambda _: failing
        one.bring(notification("a"))
        await asyncio.sleep(4)
        assert len(one.http.calls) == 3
        assert [what for what, _ in one.claims.batches] == ["claim", "release"] * 3
        assert (one.store.rows, one.store.gates) == ({}, {})
        assert one.forwards("retry-30s") == ["next-retry"]
        one.http.always = lambda _: OK
        one.group.assign(RETRY)
        one.bring(notification("a"), stage="retry-30s")
        await asyncio.sleep(1)
        assert one.statuses() == {"a": Status.DELIVERED}


@pytest.mark.parametrize("failing", [Unanswered("reset"), HANG], ids=["reset", "silence"])
async def test_without_an_answer_it_is_the_end(failing: Answer) -> None:
    """One call; the row stays unknown and says that it may have been reached."""
    async with station(semantics=CLAIM) as one:
        one.http.always = lambda _: failing
        one.bring(notification("a"))
        await asyncio.sleep(5)
        assert (len(one.http.calls), one.publisher.calls) == (1, 0)
        assert one.statuses() == {"a": Status.UNKNOWN}
        found = one.store.rows[("a", "firebase")]
        assert (found.maybe_reached, found.attempts, (found.last_error or "")[:9]) == (True, 1, "no answer")
        assert one.group.committed == {one.main: 1}


async def test_a_refusal_is_the_end_where_the_channel_says_so() -> None:
    """Nobody can tell what was done: one call, and silence."""
    async with station(semantics=AtMostOnce(OnRefused.UNKNOWN)) as one:
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"))
        await asyncio.sleep(4)
        assert (len(one.http.calls), one.publisher.calls) == (1, 0)
        assert one.statuses() == {"a": Status.UNKNOWN}
        assert one.group.committed == {one.main: 1}


async def test_a_rejection_leaves_no_claim_in_the_way_of_its_replay() -> None:
    """It goes to the DLQ, and what is replayed from there is sent."""
    async with station(semantics=CLAIM) as one:
        one.http.script.append(answer(422))
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert (one.forwards(DLQ), one.store.gates) == (["permanent"], {})
        headers = [("notification.id", b"replay-1-a"), ("replay.of", b"a"), ("replay.count", b"1")]
        one.bring(notification("a"), headers=headers)
        await asyncio.sleep(1)
        assert one.statuses() == {"replay-1-a": Status.DELIVERED}


async def test_what_another_has_claimed_is_taken_over_and_skipped() -> None:
    """No call, the offset passes, and the other's late release deletes nothing."""
    async with station(semantics=CLAIM) as one:
        theirs = Claim(row("a", Status.UNKNOWN), "node-2/1")
        await one.claims.claim([theirs])
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert (one.http.calls, one.statuses()) == ([], {"a": Status.UNKNOWN})
        assert one.store.gates[("firebase-sender", "a")].startswith(OWNER)
        assert await one.claims.release([theirs]) == set()
        assert one.group.committed == {one.main: 1}


async def test_what_is_released_at_that_moment_is_sent() -> None:
    """Seen at the gate, gone when it should be taken over: skipping it now would lose it."""
    async with station(semantics=CLAIM) as one:
        theirs = Claim(row("a", Status.UNKNOWN), "node-2/1")
        await one.claims.claim([theirs])
        one.claims.latency = 0.5
        one.bring(notification("a"))
        await asyncio.sleep(0.2)
        one.store.gates.clear()
        one.store.rows.clear()
        await asyncio.sleep(3)
        assert [what for what, _ in one.claims.batches] == ["claim", "take over", "claim"]
        assert one.statuses() == {"a": Status.DELIVERED}
        assert len(one.http.calls) == 1


async def test_whoever_loses_the_claim_does_not_send() -> None:
    """The gate was empty when it was asked; another was quicker."""
    async with station(semantics=CLAIM) as one:
        one.claims.latency = 0.5
        one.bring(notification("a"))
        await asyncio.sleep(0.2)
        one.store.write(Gate("firebase-sender", "other"), [row("a")])
        await asyncio.sleep(3)
        assert (one.http.calls, one.statuses()) == ([], {"a": Status.DELIVERED})
        assert one.store.gates == {("firebase-sender", "a"): "other"}
        assert one.group.committed == {one.main: 1}


async def test_a_lost_answer_does_not_cost_the_claim() -> None:
    """It is found to be one's own when it is asked for again."""
    async with station(semantics=CLAIM) as one:
        one.claims.lost_answers = 1
        one.bring(notification("a"))
        await asyncio.sleep(3)
        assert [what for what, _ in one.claims.batches] == ["claim", "claim"]
        assert (len(one.http.calls), one.statuses()) == (1, {"a": Status.DELIVERED})


async def test_text_that_the_database_refuses_is_claimed_without_it() -> None:
    """And sent; the others of its batch none the worse."""
    async with station(semantics=CLAIM) as one:
        one.bring(notification("a", user_id="nul\0"), notification("b"))
        await asyncio.sleep(2)
        assert one.statuses() == {"a": Status.DELIVERED, "b": Status.DELIVERED}


async def test_after_a_partition_was_lost_nothing_is_released() -> None:
    """The call is refused too late: the row stays, no copy appears, no offset passes."""
    async with station(semantics=CLAIM) as one:
        one.http.latency = 1.0
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
        one.group.lose(one.main)
        await asyncio.sleep(3)
        assert [what for what, _ in one.claims.batches] == ["claim"]
        assert (one.statuses(), one.publisher.calls, len(one.http.calls)) == ({"a": Status.UNKNOWN}, 0, 1)


async def test_a_stale_process_releases_nothing() -> None:
    """Its partition may be somebody else's by now."""
    async with station(semantics=CLAIM) as one:
        one.http.latency = 1.0
        one.http.always = lambda _: answer(422)
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
        one.group.is_stale = True
        await asyncio.sleep(2)
        assert [what for what, _ in one.claims.batches] == ["claim"]
        assert (one.statuses(), one.publisher.calls) == ({"a": Status.UNKNOWN}, 0)
        assert one.group.committed == {one.main: 0}


async def test_a_stop_releases_what_had_not_begun() -> None:
    """The claim comes through while the process stops: no call, and no row left behind."""
    async with station(semantics=CLAIM) as one:
        one.claims.latency = 1.0
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
        one.stop.set()
        await asyncio.sleep(4)
        assert [what for what, _ in one.claims.batches] == ["claim", "release"]
        assert (one.http.calls, one.store.rows, one.store.gates) == ([], {}, {})
        assert one.group.committed == {one.main: 0}


async def test_a_call_that_a_stop_cancels_is_without_an_answer() -> None:
    """It stays unknown, for good."""
    async with station(semantics=CLAIM) as one:
        one.http.always = lambda _: HANG
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
        one.pipeline.handler.cancel()
        await asyncio.sleep(1)
        assert (one.http.cancelled, one.publisher.calls) == (1, 0)
        assert one.statuses() == {"a": Status.UNKNOWN}
        assert one.store.rows[("a", "firebase")].maybe_reached
        assert one.group.committed == {one.main: 1}


async def test_claims_wait_for_the_database() -> None:
    """However long it is away: nothing is sent meanwhile, and everything afterwards."""
    async with station(semantics=CLAIM) as one:
        one.claims.faults.declare(StoreAway("gone"), times=3)
        one.bring(notification("a"))
        await asyncio.sleep(2.5)
        assert one.http.calls == []
        assert one.pipeline.handler.waits()
        await asyncio.sleep(2)
        assert one.claims.faults.spent
        assert one.statuses() == {"a": Status.DELIVERED}


async def test_what_expires_behind_the_claim_is_not_sent() -> None:
    """No attempt starts after the end, whatever kept it waiting."""
    async with station(semantics=CLAIM) as one:
        one.claims.faults.declare(StoreAway("gone"), times=3)
        one.bring(expiring(2, "a"))
        await asyncio.sleep(6)
        assert (one.http.calls, one.statuses()) == ([], {"a": Status.EXPIRED})


async def test_probes_claim_too() -> None:
    """A failed one gives its claim back and waits for its next turn."""
    async with station(semantics=CLAIM, slots=THRESHOLD) as one:
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number:02}") for number in range(20)))
        await asyncio.sleep(4 + 3 * OPEN_PERIOD)
        assert one.breaker[-1] == ("half-open", "open")
        assert one.store.rows == {}
        one.http.always = lambda _: OK
        await asyncio.sleep(OPEN_PERIOD + 1)
        assert set(one.statuses().values()) == {Status.DELIVERED}
        assert len(one.statuses()) + len(one.forwards("retry-30s")) == 20


async def test_a_probe_without_an_answer_is_the_end_too() -> None:
    """And keeps the breaker open."""
    async with station(semantics=CLAIM, slots=THRESHOLD) as one:
        one.http.always = lambda _: answer(503)
        one.bring(*(notification(f"n-{number:02}") for number in range(10)))
        await asyncio.sleep(4)
        one.http.always = lambda _: Unanswered("reset")
        await asyncio.sleep(OPEN_PERIOD + 1)
        assert list(one.statuses().values()) == [Status.UNKNOWN]
        assert one.breaker[-1] == ("half-open", "open")


# Under a bound


async def test_every_call_is_counted_before_it_is_made() -> None:
    """One statement for all that hold a slot; one call per stage."""
    async with station(semantics=THREE) as one:
        one.http.latency = 1.0
        one.http.always = lambda call: answer(503) if call.key == "a" else OK
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(0.5)
        assert counts(one) == {"a": 1, "b": 1}
        assert one.claims.batches == [("count", ["a", "b"])]
        await asyncio.sleep(2)
        assert (one.forwards("retry-30s"), one.statuses()) == (["next-retry"], {"b": Status.DELIVERED})
        assert (len(one.http.calls), counts(one)) == (2, {"a": 1, "b": 1})


async def test_three_stages_are_three_calls_and_then_the_dlq() -> None:
    """Stages and count are used up together; nothing is dropped."""
    async with station(semantics=THREE) as one:
        one.http.always = lambda _: answer(503)
        one.group.assign(RETRY, Partition("notification-firebase-retry-5m", 0))
        for stage in ("main", "retry-30s", "retry-5m"):
            one.bring(notification("a"), stage=stage)
            await asyncio.sleep(1)
        assert (len(one.http.calls), counts(one)) == (3, {"a": 3})
        assert one.forwards(DLQ) == ["exhausted"]
        assert one.store.rows == {}


async def test_a_bound_that_crashes_have_used_up_ends_as_dropped() -> None:
    """Nothing is sent; the row says why."""
    async with station(semantics=THREE) as one:
        for _ in range(3):
            await one.claims.count([Bound("a", 3)])
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert (one.http.calls, one.publisher.calls) == ([], 0)
        assert one.statuses() == {"a": Status.DROPPED}
        assert one.store.rows[("a", "firebase")].last_error == "all 3 attempts are used up"
        assert one.group.committed == {one.main: 1}


async def test_or_in_the_dlq_where_that_is_declared() -> None:
    """With the reason in its headers."""
    async with station(semantics=Bounded(1, OnExhausted.DLQ)) as one:
        await one.claims.count([Bound("a", 1)])
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert (one.http.calls, one.forwards(DLQ)) == ([], ["exhausted"])
        assert one.publisher.records[0].header("error.message") == b"all 1 attempts are used up"


async def test_a_replay_may_be_sent_as_often_again() -> None:
    """The bound is n times one more than its number."""
    async with station(semantics=THREE) as one:
        for _ in range(5):
            await one.claims.count([Bound("a", 5)])
        headers = [("notification.id", b"replay-1-a"), ("replay.of", b"a"), ("replay.count", b"1")]
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"), headers=headers)
        await asyncio.sleep(1)
        assert (len(one.http.calls), counts(one)) == (1, {"a": 6})
        one.bring(notification("a"), headers=headers)
        await asyncio.sleep(1)
        assert (len(one.http.calls), one.statuses()) == (1, {"replay-1-a": Status.DROPPED})


@pytest.mark.parametrize("failing", [NotConnected("refused"), answer(429)], ids=repr)
async def test_what_surely_had_no_effect_is_given_back(failing: Answer) -> None:
    """And the record moves on all the same."""
    async with station(semantics=THREE) as one:
        one.http.always = lambda _: failing
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert (len(one.http.calls), counts(one)) == (1, {"a": 0})
        assert one.forwards("retry-30s") == ["next-retry"]


@pytest.mark.parametrize("failing", [answer(503), answer(422), Unanswered("reset")], ids=repr)
async def test_what_may_have_had_an_effect_stays_counted(failing: Answer) -> None:
    """Whatever the answer was."""
    async with station(semantics=THREE) as one:
        one.http.always = lambda _: failing
        one.bring(notification("a"))
        await asyncio.sleep(1)
        assert counts(one) == {"a": 1}
        assert one.publisher.calls == 1


async def test_a_lost_answer_errs_to_fewer_sends() -> None:
    """It counts twice, and what is given back is given back once at most."""
    async with station(semantics=THREE) as one:
        one.claims.lost_answers = 1
        one.bring(notification("a"))
        await asyncio.sleep(4)
        assert (len(one.http.calls), counts(one)) == (1, {"a": 2})
        one.http.always = lambda _: answer(429)
        one.http.latency = 0.5
        one.bring(notification("b"))
        await asyncio.sleep(0.2)
        one.claims.lost_answers = 1
        await asyncio.sleep(3)
        assert counts(one)["b"] == 0
        assert [what for what, keys in one.claims.batches if keys == ["b"]] == ["count", "give back"]


async def test_after_a_long_wait_for_the_database_the_gate_is_asked_again() -> None:
    """What somebody else has delivered meanwhile is not sent, and not counted."""
    async with station(semantics=THREE) as one:
        one.claims.faults.declare(StoreAway("gone"), times=3)
        one.bring(notification("a"), notification("b"))
        await asyncio.sleep(1.5)
        one.store.write(Gate("firebase-sender", "other"), [row("a")])
        await asyncio.sleep(5)
        assert [call.key for call in one.http.calls] == ["b"]
        assert counts(one) == {"a": 0, "b": 1}


async def test_a_partition_that_goes_while_the_database_is_away_is_not_counted_for() -> None:
    """Its next owner counts for itself."""
    async with station(semantics=THREE) as one:
        one.claims.faults.declare(StoreAway("gone"), times=3)
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
        await one.group.revoke([one.main])
        await asyncio.sleep(5)
        assert (one.http.calls, counts(one), one.store.rows) == ([], {}, {})


async def test_a_stop_gives_back_what_had_not_begun_and_keeps_what_had() -> None:
    """A cancelled request may have arrived."""
    async with station(semantics=THREE) as one:
        one.http.always = lambda _: HANG
        one.bring(notification("begun"))
        await asyncio.sleep(0.2)
        one.claims.latency = 1.0
        one.bring(notification("unbegun"))
        await asyncio.sleep(0.5)
        one.pipeline.handler.cancel()
        await asyncio.sleep(3)
        assert counts(one) == {"begun": 1, "unbegun": 0}
        assert [call.key for call in one.http.calls] == ["begun"]


async def test_after_a_partition_was_lost_nothing_is_given_back() -> None:
    """Its next owner may have counted on it."""
    async with station(semantics=THREE) as one:
        one.http.latency = 1.0
        one.http.always = lambda _: answer(429)
        one.bring(notification("a"))
        await asyncio.sleep(0.5)
        one.group.lose(one.main)
        await asyncio.sleep(3)
        assert (counts(one), one.publisher.calls) == ({"a": 1}, 0)


async def test_more_calls_within_a_stage_are_counted_one_by_one() -> None:
    """Where somebody asks for them: the bound holds within a stage too."""
    async with station(semantics=Bounded(2), attempts=5) as one:
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"))
        await asyncio.sleep(10)
        assert (len(one.http.calls), counts(one)) == (2, {"a": 2})
        assert one.statuses() == {"a": Status.DROPPED}


async def test_two_copies_of_a_root_are_counted_one_after_the_other() -> None:
    """The second waits for the first, and its attempt is a second one."""
    async with station(semantics=THREE) as one:
        one.http.always = lambda _: answer(503)
        one.bring(notification("a"), notification("a"))
        await asyncio.sleep(2)
        assert counts(one) == {"a": 2}
        assert one.forwards("retry-30s") == ["next-retry"] * 2
