"""The limit of calls in flight against providers that are played: what each does to latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ringonce.domain.concurrency import FEW, REMEMBERED, START, STEEPEST, ConcurrencyLimit

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 256
WINDOW = 0.1


def play(
    limit: ConcurrencyLimit, latency: Callable[[int], float], windows: int = 200, *, short: bool = True
) -> list[int]:
    """The slots after each window, all of them in use, against a provider with such a latency at that many calls."""
    found = []
    for _ in range(windows):
        seconds = latency(limit.slots)
        for _ in range(max(FEW, int(limit.slots * WINDOW / seconds))):
            limit.delivered(seconds)
        found.append(limit.adjust(short=short))
    return found


def distant(_: int) -> float:
    """20 ms away, and never busy."""
    return 0.02


def busy(calls: int) -> float:
    """Does 4,000 a second, one of which takes a millisecond; the others wait."""
    return max(0.001, calls / 4000)


def test_rises_to_its_bound_while_calls_only_wait_for_a_distant_provider() -> None:
    """And is there within two seconds."""
    slots = play(ConcurrencyLimit(MOST), distant)
    assert slots[0] > START
    assert slots == sorted(slots)
    assert slots[int(2 / WINDOW)] == MOST


def test_stays_where_it_began_when_more_calls_only_wait_longer() -> None:
    """16 ms for what takes one: 64 are more than enough."""
    fastest = ConcurrencyLimit(MOST)
    for _ in range(FEW):
        fastest.delivered(0.001)
    fastest.adjust(short=False)
    assert set(play(fastest, busy, REMEMBERED - 1)) == {START}


def test_falls_when_a_provider_that_was_quick_becomes_slow() -> None:
    """By half a window at most, and never below where it began."""
    limit = ConcurrencyLimit(MOST)
    play(limit, distant)
    slots = play(limit, lambda _: 0.5, REMEMBERED // 2)
    assert MOST * STEEPEST <= slots[0] < MOST
    assert slots[-1] == START


def test_a_lasting_latency_is_the_new_normal() -> None:
    """What was the fastest long ago is forgotten: else a provider that moved away would be starved for good."""
    limit = ConcurrencyLimit(MOST)
    play(limit, distant)
    assert play(limit, lambda _: 0.2, 4 * REMEMBERED)[-1] == MOST


def test_does_not_rise_while_nobody_waits_for_a_slot() -> None:
    """A limit that nobody reaches says nothing about what would be beyond it."""
    assert set(play(ConcurrencyLimit(MOST), distant, short=False)) == {START}


def test_a_few_calls_change_nothing() -> None:
    """They count with those that follow."""
    limit = ConcurrencyLimit(MOST)
    for _ in range(FEW - 1):
        limit.delivered(0.02)
    assert limit.adjust(short=True) == START
    limit.delivered(0.02)
    assert limit.adjust(short=True) > START


@pytest.mark.parametrize("most", [1, 16, START])
def test_a_bound_below_the_beginning_is_kept(most: int) -> None:
    """`--max-in-flight 16` means 16."""
    assert set(play(ConcurrencyLimit(most), distant)) == {most}


def test_calls_that_take_no_time_are_no_error() -> None:
    """A clock may not have ticked between the beginning and the end of any of them."""
    limit = ConcurrencyLimit(MOST)
    for _ in range(FEW):
        limit.delivered(0.0)
    assert limit.adjust(short=True) > START
