"""The gate around one destination."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ringonce.observe.events import BreakerChanged
from ringonce.runtime.breaker import OPEN_PERIOD, THRESHOLD, Gate, Permit

if TYPE_CHECKING:
    from tests.fakes.clock import FakeClock
    from tests.fakes.events import Heard


class Door:
    """A gate, and what it did."""

    def __init__(self, clock: FakeClock, heard: Heard) -> None:
        self.clock = clock
        self.heard = heard
        self.opened = 0
        self.gate = Gate("firebase", clock, heard, self._opened)

    def _opened(self, gate: Gate) -> None:
        assert gate is self.gate
        self.opened += 1

    def fail(self, times: int = THRESHOLD) -> None:
        """Deliveries fail."""
        for _ in range(times):
            self.gate.delivered(ok=False, cause="refused with status 503")

    @property
    def changes(self) -> list[tuple[str, str]]:
        """What was reported."""
        return [(event.before, event.after) for event in self.heard.of(BreakerChanged)]


@pytest.fixture
def door(clock: FakeClock, heard: Heard) -> Door:
    return Door(clock, heard)


def test_five_consecutive_failures_open_it(door: Door) -> None:
    """The fifth, not the sixth and not the fourth."""
    door.fail(THRESHOLD - 1)
    assert door.gate.ask() is Permit.PASS
    door.fail(1)
    assert not door.gate.closed
    assert door.gate.ask() is Permit.NONE
    assert door.opened == 1
    (event,) = door.heard.of(BreakerChanged)
    assert event == BreakerChanged("firebase", "closed", "open", "refused with status 503")


def test_a_success_begins_the_count_anew(door: Door) -> None:
    """Consecutive means consecutive."""
    for _ in range(3):
        door.fail(THRESHOLD - 1)
        door.gate.delivered(ok=True)
    assert door.gate.closed
    assert door.changes == []


def test_one_probe_after_the_open_period(door: Door) -> None:
    """Not before, and one at a time."""
    door.fail()
    assert door.gate.retry_at == door.clock.monotonic() + OPEN_PERIOD
    door.clock.advance(OPEN_PERIOD - 0.01)
    assert (door.gate.wants_probe(), door.gate.ask()) == (False, Permit.NONE)
    door.clock.advance(0.02)
    assert door.gate.wants_probe()
    assert [door.gate.ask() for _ in range(5)] == [Permit.PROBE, *[Permit.NONE] * 4]
    assert not door.gate.wants_probe()


def test_a_probe_that_succeeds_closes_it(door: Door) -> None:
    """For everybody."""
    door.fail()
    door.clock.advance(OPEN_PERIOD)
    assert door.gate.ask() is Permit.PROBE
    door.gate.probed(ok=True)
    assert door.gate.ask() is Permit.PASS
    assert door.changes == [("closed", "open"), ("open", "half-open"), ("half-open", "closed")]
    door.fail(THRESHOLD - 1)
    assert door.gate.closed  # the count has begun anew


def test_a_probe_that_fails_opens_it_for_another_period(door: Door) -> None:
    """One failure is enough."""
    door.fail()
    door.clock.advance(OPEN_PERIOD)
    door.gate.ask()
    door.clock.advance(3)  # the probe took its time; the period begins with its failure
    door.gate.probed(ok=False, cause="x")
    assert door.opened == 2
    assert door.gate.ask() is Permit.NONE
    door.clock.advance(OPEN_PERIOD - 0.01)
    assert door.gate.ask() is Permit.NONE
    door.clock.advance(0.01)
    assert door.gate.ask() is Permit.PROBE


def test_a_probe_that_is_given_back_changes_nothing(door: Door) -> None:
    """Made no call, or was cancelled: neither closed nor open for longer, and the next one may probe at once."""
    door.fail()
    door.clock.advance(OPEN_PERIOD)
    assert door.gate.ask() is Permit.PROBE
    changes = list(door.changes)
    door.gate.give_back()
    assert not door.gate.closed
    assert door.changes == changes
    assert door.gate.ask() is Permit.PROBE
    door.gate.probed(ok=True)
    assert door.gate.closed


@pytest.mark.parametrize("seconds", [-86_400, 86_400])
def test_a_wall_clock_that_is_set_has_no_effect(door: Door, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Neither ours nor the one that pybreaker looks at."""
    door.fail()
    door.clock.jump(seconds)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + seconds)
    assert door.gate.ask() is Permit.NONE
    door.clock.advance(OPEN_PERIOD)
    assert door.gate.ask() is Permit.PROBE
    door.gate.probed(ok=True)
    assert door.gate.closed


def test_late_results_do_not_count_while_it_is_not_closed(door: Door) -> None:
    """Those that were in flight when it opened say nothing of now: only the probe's result counts."""
    door.fail()
    door.gate.delivered(ok=True)
    door.fail()
    assert not door.gate.closed
    assert door.opened == 1
    door.clock.advance(OPEN_PERIOD)
    assert door.gate.ask() is Permit.PROBE
    door.gate.delivered(ok=True)
    door.gate.delivered(ok=False)
    assert not door.gate.closed
    assert door.opened == 1
    door.gate.probed(ok=True)
    assert door.gate.closed


def test_the_period_is_a_setting(clock: FakeClock, heard: Heard) -> None:
    """In seconds."""
    gate = Gate("d", clock, heard, lambda _: None, 0.5)
    for _ in range(THRESHOLD):
        gate.delivered(ok=False)
    clock.advance(0.5)
    assert gate.ask() is Permit.PROBE
