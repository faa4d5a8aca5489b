"""The ladder of stages, as data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringonce.domain.stages import DLQ, MAIN, STANDARD, Ladder, Stage, longest_delay

MERGED = Ladder((Stage("retry-30s", 30, retired=True), Stage("retry-1m", 60), Stage("retry-5m", 300, retired=True)))
BARE = Ladder(())


@st.composite
def ladders(draw: st.DrawFn) -> Ladder:
    """Any ladder that the rules allow, retired stages among the others included."""
    delays = draw(st.lists(st.floats(0.1, 86_400), max_size=5, unique=True).map(sorted))
    return Ladder(tuple(Stage(f"retry-{i}", delay, draw(st.booleans())) for i, delay in enumerate(delays)))


def names(stages: tuple[Stage, ...]) -> list[str]:
    return [stage.name for stage in stages]


@given(ladders())
def test_later_stages_are_active_rise_and_never_lead_back(ladder: Ladder) -> None:
    """From every consumed stage only active retry stages with a longer delay come later, in order."""
    for stage in ladder.consumed():
        later = ladder.later(stage.name)
        assert [one.delay for one in later] == sorted({one.delay for one in later})
        assert all(not one.retired and one.delay > stage.delay and one.name not in {MAIN, DLQ} for one in later)


@given(ladders())
def test_every_stage_is_consumed_main_first(ladder: Ladder) -> None:
    """Retired stages too, so that nothing in them is lost."""
    assert names(ladder.consumed()) == [MAIN, *(stage.name for stage in ladder.retries)]


def test_standard_ladder() -> None:
    """main, 30 seconds, 5 minutes."""
    assert [(stage.name, stage.delay) for stage in STANDARD.consumed()] == [
        ("main", 0),
        ("retry-30s", 30),
        ("retry-5m", 300),
    ]
    assert names(STANDARD.later("retry-30s")) == ["retry-5m"]
    assert STANDARD.later("retry-5m") == ()
    assert STANDARD.last().name == "retry-5m"


def test_merged_ladder_leads_from_retired_stages_to_the_one_that_is_left() -> None:
    """Two stages merged into one of a minute: from the shorter one it is later, from the longer one it is not."""
    assert names(MERGED.later(MAIN)) == names(MERGED.later("retry-30s")) == ["retry-1m"]
    assert MERGED.later("retry-1m") == MERGED.later("retry-5m") == ()
    assert MERGED.last().name == "retry-1m"


def test_channel_without_retry_stages() -> None:
    """There is nothing but main."""
    assert (BARE.later(MAIN), BARE.last().name) == ((), MAIN)


@pytest.mark.parametrize(
    "stages",
    [
        (Stage("a", 2), Stage("b", 1)),
        (Stage("a", 1), Stage("b", 1)),
        (Stage("a", 0),),
        (Stage("a", -1),),
        (Stage("a", 1), Stage("a", 2)),
        (Stage("a", 1, retired=True), Stage("a", 2)),
        (Stage(MAIN, 1),),
        (Stage(DLQ, 1),),
    ],
)
def test_ladders_that_make_no_sense_are_refused(stages: tuple[Stage, ...]) -> None:
    """Delays rise and are positive; names differ from each other, main and dlq."""
    with pytest.raises(ValueError, match="stages must"):
        Ladder(stages)


def test_other_delays() -> None:
    """Delays are settings; a stage that is not there and delays that do not rise are refused."""
    assert [stage.delay for stage in STANDARD.with_delays({"retry-30s": 2}).retries] == [2, 300]
    with pytest.raises(KeyError, match="retry-1h"):
        STANDARD.with_delays({"retry-1h": 2})
    with pytest.raises(ValueError, match="rise"):
        STANDARD.with_delays({"retry-30s": 300})


@pytest.mark.parametrize("name", [DLQ, "retry-1h"])
def test_stage_by_name_is_one_that_a_sender_reads(name: str) -> None:
    """The dlq is not."""
    assert STANDARD.stage("retry-30s").delay == 30
    with pytest.raises(KeyError):
        STANDARD.stage(name)


def test_longest_delay() -> None:
    """Over all ladders; none is 0."""
    assert (longest_delay([STANDARD, MERGED]), longest_delay([])) == (300, 0)
