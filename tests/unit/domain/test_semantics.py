"""What a channel declares about repetition, and what follows from it: the table of DESIGN.md."""

from __future__ import annotations

from typing import Final

import pytest

from ringonce.domain.disposition import Forward, Reason, Record, Status
from ringonce.domain.outcome import Delivered, Gone, Indeterminate, NotSent, Outcome, Refused, Rejected, Throttled
from ringonce.domain.semantics import (
    ABILITIES,
    After,
    AtMostOnce,
    BadSemantics,
    Before,
    Bounded,
    EffectivelyOnce,
    OnExhausted,
    OnRefused,
    Semantics,
    after_outcome,
    before_send,
    calls_per_stage,
    declared,
    give_up,
    parse,
)
from ringonce.domain.stages import DLQ

ONCE: Final = EffectivelyOnce()
CLAIM: Final = AtMostOnce()
STRICT: Final = AtMostOnce(OnRefused.UNKNOWN)
THREE: Final = Bounded(3)
GO_ON, GIVE_BACK, END = After.GO_ON, After.GIVE_BACK, After.END

TABLE: Final = [
    # outcome,                    effectively-once, at-most-once, refused is unknown, bounded
    (Delivered(200), GO_ON, GO_ON, GO_ON, GO_ON),
    (Gone(410), GO_ON, GO_ON, GO_ON, GO_ON),
    (Rejected("no", 422), GO_ON, GIVE_BACK, GIVE_BACK, GO_ON),
    (Rejected("never asked"), GO_ON, GIVE_BACK, GIVE_BACK, GIVE_BACK),
    (NotSent("refused"), GO_ON, GIVE_BACK, GIVE_BACK, GIVE_BACK),
    (Throttled(429, 5.0), GO_ON, GIVE_BACK, GIVE_BACK, GIVE_BACK),
    (Refused(503), GO_ON, GIVE_BACK, END, GO_ON),
    (Indeterminate("no answer"), GO_ON, END, END, GO_ON),
]


@pytest.mark.parametrize(("outcome", "once", "claim", "strict", "bounded"), TABLE, ids=str)
def test_what_an_outcome_does_to_what_was_made_durable(
    outcome: Outcome, once: After, claim: After, strict: After, bounded: After
) -> None:
    """The table, a line for each outcome."""
    found = [after_outcome(semantics, outcome) for semantics in (ONCE, CLAIM, STRICT, THREE)]
    assert found == [once, claim, strict, bounded]


@pytest.mark.parametrize(
    ("semantics", "before", "not_begun", "begun"),
    [
        (ONCE, Before.NOTHING, GO_ON, GO_ON),
        (CLAIM, Before.CLAIM, GIVE_BACK, END),
        (STRICT, Before.CLAIM, GIVE_BACK, END),
        (THREE, Before.COUNT, GIVE_BACK, GO_ON),
    ],
)
def test_before_a_call_and_when_it_is_broken_off(
    semantics: Semantics, before: Before, not_begun: After, begun: After
) -> None:
    """Only a request that had not begun is given back; a cancelled one is without an answer."""
    assert before_send(semantics) is before
    assert give_up(semantics, begun=False) is not_begun
    assert give_up(semantics, begun=True) is begun


@pytest.mark.parametrize(
    ("text", "semantics"),
    [
        ("effectively-once", ONCE),
        (" at-most-once ", CLAIM),
        ("bounded(1)", Bounded(1)),
        ("bounded( 12 )", Bounded(12)),
    ],
)
def test_a_declaration_is_read(text: str, semantics: Semantics) -> None:
    """And printed as it is written."""
    assert parse(text) == semantics
    assert parse(str(semantics)) == semantics


@pytest.mark.parametrize(
    "text", ["", "exactly-once", "bounded", "bounded()", "bounded(x)", "bounded(3", "bounded(3)x", "bounded(٣)"]
)
def test_what_is_no_declaration_is_refused(text: str) -> None:
    """With what it may be."""
    with pytest.raises(BadSemantics, match=r"effectively-once, at-most-once or bounded\(n\)"):
        parse(text)


@pytest.mark.parametrize("text", ["bounded(0)", "bounded(-1)", "bounded(1000001)"])
def test_a_bound_out_of_range_is_refused(text: str) -> None:
    """With the range."""
    with pytest.raises(BadSemantics, match="from 1 to 1000000"):
        parse(text)


def test_every_protocol_has_a_default_that_it_can_keep() -> None:
    """Those that deduplicate are effectively-once; web push is rather silent; the others are bounded by three."""
    assert {name: str(declared(name)) for name in ABILITIES} == {
        "relay": "effectively-once",
        "inapp": "effectively-once",
        "standard-webhooks": "effectively-once",
        "web-push": "at-most-once",
        "fcm": "bounded(3)",
        "apns": "bounded(3)",
        "smtp": "bounded(3)",
        "ntfy": "bounded(3)",
    }


def test_effectively_once_needs_a_receiver_that_deduplicates() -> None:
    """Everything else may be declared over every protocol."""
    for name, ability in ABILITIES.items():
        assert declared(name, "at-most-once") == CLAIM
        assert declared(name, "bounded(3)") == THREE
        if ability.deduplicates:
            assert declared(name, "effectively-once") == ONCE
        else:
            with pytest.raises(BadSemantics, match=f"cannot be kept over {name}"):
                declared(name, "effectively-once")


def test_the_rest_of_a_declaration_goes_with_defaults_too() -> None:
    """What a refusal means, and what becomes of a used-up bound."""
    assert declared("smtp", on_exhausted=OnExhausted.DLQ) == Bounded(3, OnExhausted.DLQ)
    assert declared("web-push", on_refused=OnRefused.UNKNOWN) == STRICT


def test_the_bound_grows_with_each_replay() -> None:
    """By as much as an original has."""
    assert [THREE.bound(replays) for replays in (0, 1, 4)] == [3, 6, 15]


def test_a_used_up_bound_is_the_end() -> None:
    """As dropped, or in the DLQ where that is declared."""
    assert THREE.exhausted() == Record(Status.DROPPED)
    assert Bounded(3, OnExhausted.DLQ).exhausted() == Forward(DLQ, Reason.EXHAUSTED)


def test_one_call_per_stage_under_bounded_unless_more_are_asked_for() -> None:
    """Three elsewhere."""
    assert [calls_per_stage(semantics, None) for semantics in (ONCE, CLAIM, THREE)] == [3, 3, 1]
    assert [calls_per_stage(semantics, 2) for semantics in (ONCE, CLAIM, THREE)] == [2, 2, 2]
