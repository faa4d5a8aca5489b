"""The pauses between the tries of one stage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ringonce.domain.backoff import BASE, CAP, LONGEST_HONOURED, full_jitter, pause

fractions = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10_000), fractions)
def test_jitter_is_between_nothing_and_the_cap(tries: int, fraction: float) -> None:
    """However often was tried."""
    assert 0 <= full_jitter(tries, fraction) < CAP


@given(st.integers(1, 10))
def test_the_bound_doubles_until_the_cap(tries: int) -> None:
    """200 ms after the first try, then twice as much each time, at most 2 s."""
    assert full_jitter(tries, 1.0) == min(CAP, BASE * 2 ** (tries - 1))


@given(st.integers(1, 10), fractions, fractions)
def test_jitter_is_full(tries: int, a: float, b: float) -> None:
    """The whole range is used, in proportion to the random fraction."""
    assert full_jitter(tries, 0) == 0
    assert (full_jitter(tries, a) < full_jitter(tries, b)) <= (a < b)


@given(st.integers(1, 10), st.floats(0, LONGEST_HONOURED), fractions)
def test_a_short_retry_after_is_kept_exactly(tries: int, asked: float, fraction: float) -> None:
    """Without jitter: the provider knows best."""
    assert pause(tries, asked, fraction) == asked


@given(st.integers(1, 10), st.none() | st.floats(LONGEST_HONOURED, exclude_min=True), fractions)
def test_without_a_short_retry_after_it_is_the_backoff(tries: int, asked: float | None, fraction: float) -> None:
    """A longer one is a later stage's business."""
    assert pause(tries, asked, fraction) == full_jitter(tries, fraction)
