"""What follows from an outcome: the delivery rules."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.unit.domain.test_stages import BARE, MERGED, ladders

from ringonce.domain.disposition import (
    LAST_CHANCE_PAUSE,
    LONGEST_DEFERRAL,
    Disposition,
    Forward,
    Hold,
    Reason,
    Record,
    Situation,
    Status,
    decide,
    defer,
)
from ringonce.domain.outcome import (
    Delivered,
    Failure,
    Gone,
    Indeterminate,
    NotSent,
    Outcome,
    Refused,
    Rejected,
    Throttled,
    describe,
    http_status,
    is_failure,
)
from ringonce.domain.outcome import retry_after as asked_by
from ringonce.domain.stages import DLQ, MAIN, STANDARD, Ladder, Stage

NOW = 1_700_000_000.0
waits = st.none() | st.floats(0, 7 * 86_400)
failures = st.one_of(
    st.builds(Refused, st.integers(500, 599), waits),
    st.builds(Throttled, st.just(429), waits),
    st.just(NotSent("refused")),
    st.just(Indeterminate("reset")),
)
lifetimes = st.none() | st.floats(-10, 100_000)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Situation, Ladder]:
    """A ladder, and a record at one of its stages."""
    ladder = draw(ladders())
    stage = draw(st.sampled_from(ladder.consumed())).name
    left = draw(lifetimes)
    deferred = draw(st.none() | st.floats(0, 2 * LONGEST_DEFERRAL))
    return (
        Situation(stage, None if left is None else NOW + left, None if deferred is None else NOW - deferred),
        ladder,
    )


@given(failures, situations())
def test_failures_never_lead_to_the_same_or_an_earlier_stage(outcome: Failure, where: tuple[Situation, Ladder]) -> None:
    """They lead on, wait, expire, or end in the dlq; from the last retry stage always there."""
    situation, ladder = where
    later = ladder.later(situation.stage)
    match decide(outcome, situation, ladder, NOW):
        case Forward(stage, Reason.EXHAUSTED):
            assert (stage, later) == (DLQ, ())
        case Forward(stage, reason):
            assert stage in {one.name for one in later}
            assert reason is Reason.NEXT_RETRY
            assert situation.expires_at is None or NOW + ladder.stage(stage).delay < situation.expires_at
        case Hold(after):
            assert later
            assert situation.expires_at is not None
            assert situation.expires_at > NOW
            assert all(NOW + one.delay >= situation.expires_at for one in later)
            assert after == max(LAST_CHANCE_PAUSE, asked_by(outcome) or 0)
        case Record(status):
            assert status is Status.EXPIRED
            assert situation.expires_at is not None
            assert situation.expires_at <= NOW
            assert later
        case other:
            pytest.fail(f"{other}")


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # many situations lead elsewhere, and are not looked at
@given(st.sampled_from([Refused, Throttled]), st.floats(0, 100_000), situations())
def test_retry_after_picks_the_first_later_stage_that_covers_it(
    kind: type[Refused | Throttled], wait: float, where: tuple[Situation, Ladder]
) -> None:
    """Else the last one that is due in time."""
    situation, ladder = where
    match decide(kind(503, wait), situation, ladder, NOW):
        case Forward(name, Reason.NEXT_RETRY):
            in_time = [
                stage
                for stage in ladder.later(situation.stage)
                if situation.expires_at is None or NOW + stage.delay < situation.expires_at
            ]
            covering = [stage for stage in in_time if stage.delay >= wait]
            assert name == (covering[0] if covering else in_time[-1]).name
        case _:
            assume(False)  # noqa: FBT003 - hypothesis has no other word for it


@pytest.mark.parametrize(
    ("stage", "wait", "expected"),
    [
        (MAIN, None, Forward("retry-30s", Reason.NEXT_RETRY)),
        (MAIN, 30, Forward("retry-30s", Reason.NEXT_RETRY)),
        (MAIN, 31, Forward("retry-5m", Reason.NEXT_RETRY)),
        (MAIN, 3600, Forward("retry-5m", Reason.NEXT_RETRY)),
        ("retry-30s", 1, Forward("retry-5m", Reason.NEXT_RETRY)),
        ("retry-30s", 3600, Forward("retry-5m", Reason.NEXT_RETRY)),
        ("retry-5m", None, Forward(DLQ, Reason.EXHAUSTED)),
        ("retry-5m", 30, Forward(DLQ, Reason.EXHAUSTED)),
    ],
)
def test_standard_ladder(stage: str, wait: float | None, expected: Disposition) -> None:
    """The ladder as it is delivered."""
    assert decide(Refused(503, wait), Situation(stage), STANDARD, NOW) == expected


@pytest.mark.parametrize("stage", ["main", "retry-30s", "retry-5m"])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Delivered(201), Record(Status.DELIVERED)),
        (Gone(410), Record(Status.GONE)),
        (Rejected("no"), Forward(DLQ, Reason.PERMANENT)),
    ],
)
def test_what_is_final_is_final_at_every_stage_even_after_its_end(
    outcome: Outcome, stage: str, expected: Disposition
) -> None:
    """Delivered after `expires_at` is delivered: the attempt had started before."""
    assert decide(outcome, Situation(stage, NOW - 1), STANDARD, NOW) == expected


def test_merged_ladder_and_retired_stages() -> None:
    """What is still in a retired stage goes on to what is left of the ladder."""
    assert decide(Refused(500), Situation("retry-30s"), MERGED, NOW) == Forward("retry-1m", Reason.NEXT_RETRY)
    assert decide(Refused(500), Situation("retry-5m"), MERGED, NOW) == Forward(DLQ, Reason.EXHAUSTED)
    assert defer(Reason.BUSY, Situation("retry-5m"), MERGED, NOW) == Forward("retry-1m", Reason.BUSY)


def test_channel_without_retry_stages() -> None:
    """Its failures end at once; what could not be tried waits here, because there is nowhere else."""
    assert decide(Refused(500), Situation(MAIN), BARE, NOW) == Forward(DLQ, Reason.EXHAUSTED)
    assert defer(Reason.BREAKER_OPEN, Situation(MAIN), BARE, NOW) == Hold(LAST_CHANCE_PAUSE)


def test_stage_that_is_due_at_the_end_is_too_late() -> None:
    """At `expires_at` no attempt may start any more."""
    ladder = Ladder((Stage("retry", 30),))
    at_the_end = Situation(MAIN, NOW + 30)
    assert decide(NotSent("x"), at_the_end, ladder, NOW) == Hold(LAST_CHANCE_PAUSE)
    assert decide(NotSent("x"), Situation(MAIN, NOW + 30.1), ladder, NOW) == Forward("retry", Reason.NEXT_RETRY)


@given(situations(), st.sampled_from([Reason.BREAKER_OPEN, Reason.BUSY]))
def test_deferring_leads_one_stage_on_or_back_to_the_last(where: tuple[Situation, Ladder], reason: Reason) -> None:
    """Until the record expires, or has been put off for a day."""
    situation, ladder = where
    later = ladder.later(situation.stage)
    match defer(reason, situation, ladder, NOW):
        case Record(status):
            assert status is Status.EXPIRED
            assert situation.expired(NOW)
        case Forward(stage, Reason.TOO_OLD):
            assert stage == DLQ
            assert situation.deferred_since is not None
            assert NOW - situation.deferred_since >= LONGEST_DEFERRAL
        case Forward(stage, given_reason):
            assert given_reason is reason
            assert stage == (later[0] if later else ladder.last()).name
            assert stage != MAIN
            assert situation.deferred_since is None or NOW - situation.deferred_since < LONGEST_DEFERRAL
        case other:
            assert other == Hold(LAST_CHANCE_PAUSE)
            assert ladder.last().name == MAIN


def test_a_record_is_put_off_for_a_day() -> None:
    """Then it is too old, unless it expires first."""
    almost = Situation("retry-5m", deferred_since=NOW - LONGEST_DEFERRAL + 0.001)
    assert defer(Reason.BUSY, almost, STANDARD, NOW) == Forward("retry-5m", Reason.BUSY)
    assert defer(Reason.BUSY, almost, STANDARD, NOW + 0.001) == Forward(DLQ, Reason.TOO_OLD)
    expired = Situation("retry-5m", expires_at=NOW, deferred_since=NOW - LONGEST_DEFERRAL)
    assert defer(Reason.BUSY, expired, STANDARD, NOW) == Record(Status.EXPIRED)


def test_only_deferrals_spend_nothing() -> None:
    """The two reasons for which a record's tries stay as they were."""
    assert {reason for reason in Reason if reason.spends_nothing} == {Reason.BREAKER_OPEN, Reason.BUSY}


@given(failures)
def test_a_failure_counts_against_the_provider_and_is_told_in_one_line(outcome: Failure) -> None:
    """Its description is one bounded line."""
    assert is_failure(outcome)
    assert "\n" not in describe(outcome)
    assert http_status(outcome) == (outcome.status if isinstance(outcome, Refused | Throttled) else None)


@pytest.mark.parametrize("outcome", [Delivered(200), Gone(410), Rejected("x", 400), Rejected("x")])
def test_an_answer_that_is_final_means_a_healthy_provider(outcome: Outcome) -> None:
    """The breaker does not count it."""
    assert not is_failure(outcome)
    assert http_status(outcome) == getattr(outcome, "status", None)
