"""What a process has taken in, and how much more may come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fakes.clock import EPOCH, FakeClock
from tests.fakes.samples import notification, record

from ringonce.domain.notification import Channel
from ringonce.domain.stages import MAIN, Stage
from ringonce.kafka.port import Partition
from ringonce.runtime.intake import CAPACITY, CAPACITY_BYTES, WIDEST_SPAN, Intake
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from ringonce.runtime.work import Work

RETRY = "notification-firebase-retry-30s"
STAGES = {"notification-firebase": Stage(MAIN), RETRY: Stage("retry-30s", 30.0)}
M0, M1, R0 = Partition("notification-firebase", 0), Partition("notification-firebase", 1), Partition(RETRY, 0)


class Hall:
    """An intake that owns three partitions."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ready: list[Work] = []
        self.intake = Intake(STAGES, Channel.FIREBASE, self.clock, self.ready.append)
        self.intake.assigned([M0, M1, R0])

    def main(self, *offsets: int, size: int = 0, number: int = 0) -> None:
        """Records of the main topic come."""
        value = notification(body="x" * size)
        self.intake.arrived([record(value, offset=offset, number=number) for offset in offsets])

    def retry(self, offset: int, appended: float) -> None:
        """A record of the retry stage comes that the broker says was appended so many seconds after the beginning."""
        stamp = int((EPOCH + appended) * 1000)
        self.intake.arrived([record(notification(), offset=offset, topic=RETRY, timestamp_ms=stamp)])


@pytest.fixture
def hall() -> Hall:
    return Hall()


def offsets(works: list[Work]) -> list[int]:
    return [work.record.offset for work in works]


def test_main_is_eligible_at_once(hall: Hall) -> None:
    """Whatever its timestamp."""
    hall.main(3, 5)
    assert offsets(hall.ready) == [3, 5]
    assert {work.phase for work in hall.ready} == {Phase.QUEUED}
    assert {work.stage for work in hall.ready} == {MAIN}


def test_a_retry_stage_waits_from_append_for_its_delay(hall: Hall) -> None:
    """The time that it spent in the topic counts."""
    hall.retry(0, appended=-20)
    assert (hall.ready, hall.intake.resting()) == ([], {R0})
    hall.clock.advance(9.99)
    hall.intake.promote()
    assert hall.ready == []
    hall.clock.advance(0.02)
    hall.intake.promote()
    assert offsets(hall.ready) == [0]
    assert hall.intake.resting() == set()


@pytest.mark.parametrize("appended", [-30, -31, -86_400])
def test_what_is_due_when_it_comes_does_not_wait(hall: Hall, appended: float) -> None:
    """It has waited in the topic."""
    hall.retry(0, appended)
    assert offsets(hall.ready) == [0]


@pytest.mark.parametrize("ahead", [60, 86_400, 10**9])
def test_never_longer_than_the_delay_after_first_sight(hall: Hall, ahead: float) -> None:
    """Though the broker's clock, or ours, be wrong by far."""
    hall.retry(0, appended=ahead)
    hall.clock.advance(29.9)
    hall.intake.promote()
    assert hall.ready == []
    hall.clock.advance(0.2)
    hall.intake.promote()
    assert offsets(hall.ready) == [0]


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_a_wall_clock_that_is_set_while_it_waits_has_no_effect(hall: Hall, jump: float) -> None:
    """Waiting is on the monotonic clock."""
    hall.retry(0, appended=0)
    hall.clock.jump(jump)
    hall.clock.advance(29)
    hall.intake.promote()
    assert hall.ready == []
    hall.clock.advance(1.1)
    hall.intake.promote()
    assert offsets(hall.ready) == [0]


def test_a_retry_stage_keeps_its_order(hall: Hall) -> None:
    """What comes behind waits at least as long, even if its timestamp says otherwise."""
    hall.retry(0, appended=0)
    hall.retry(1, appended=-100)
    assert hall.ready == []
    hall.clock.advance(30)
    hall.intake.promote()
    assert offsets(hall.ready) == [0, 1]


def test_capacity_counts_what_is_eligible_and_not_settled(hall: Hall) -> None:
    """What waits for its time takes no room."""
    hall.retry(0, appended=0)
    assert hall.intake.room() == CAPACITY
    hall.main(0, 1)
    assert hall.intake.room() == CAPACITY - 2
    hall.intake.settle(hall.ready[0])
    hall.intake.abandon(hall.ready[1])
    assert hall.intake.room() == CAPACITY
    assert hall.intake.active_bytes == 0
    hall.clock.advance(30)
    hall.intake.promote()
    assert hall.intake.room() == CAPACITY - 1


def test_no_room_is_no_room(hall: Hall) -> None:
    """What was polled before that was known is taken all the same."""
    hall.main(*range(CAPACITY + 3))
    assert hall.intake.room() == 0


def test_bytes_are_bounded_too(hall: Hall) -> None:
    """A few large records fill it."""
    hall.main(0, 1, size=CAPACITY_BYTES // 2)
    assert hall.intake.room() == 0
    hall.intake.settle(hall.ready[0])
    assert hall.intake.room() == CAPACITY - 1


def test_nothing_is_counted_twice(hall: Hall) -> None:
    """Settling or abandoning what is over has no effect."""
    hall.main(0, 1)
    for work in hall.ready:
        hall.intake.settle(work)
        hall.intake.settle(work)
        hall.intake.abandon(work)
    assert (hall.intake.active, hall.intake.active_bytes, hall.intake.finished) == (0, 0, 2)


def test_offsets_to_commit(hall: Hall) -> None:
    """By partition, what is new; a failed commit is offered again."""
    hall.main(4, 6)
    hall.main(9, number=1)
    hall.intake.settle(hall.ready[1])
    hall.intake.settle(hall.ready[2])
    offsets = hall.intake.committable()
    assert offsets == {M0: 4, M1: 10}
    hall.intake.committed(offsets)
    assert hall.intake.committable() == {}
    hall.intake.uncommitted([M1, Partition("elsewhere", 0)])
    assert hall.intake.committable() == {M1: 10}
    hall.intake.settle(hall.ready[0])
    assert hall.intake.committable() == {M0: 7, M1: 10}


def test_an_offset_that_was_delivered_before_is_not_worked_on(hall: Hall) -> None:
    """Twice in one assignment: a client that starts over."""
    hall.main(0, 1)
    hall.main(1, 2)
    assert offsets(hall.ready) == [0, 1, 2]


def test_records_of_a_partition_that_is_not_ours_are_dropped(hall: Hall) -> None:
    """They were polled before it went."""
    hall.intake.close(hall.intake.leaving([M0]))
    hall.main(0)
    assert hall.ready == []


def test_a_partition_that_goes_takes_in_nothing_more(hall: Hall) -> None:
    """What was not due is given up at once; what is eligible is the handler's business."""
    hall.retry(0, appended=0)
    hall.main(0, 1)
    main, retry = hall.intake.leaving([M0, R0, Partition("elsewhere", 0)])
    assert (list(main.works), list(retry.works)) == ([0, 1], [])
    hall.main(2)
    hall.retry(1, appended=-100)
    hall.clock.advance(100)
    hall.intake.promote()
    assert offsets(hall.ready) == [0, 1]
    hall.intake.settle(hall.ready[0])
    assert hall.intake.committable() == {M0: 1, R0: 0}


def test_marks_of_partitions_that_go_are_told_committed_or_not(hall: Hall) -> None:
    """What was handed over may not have been sent."""
    hall.main(0)
    hall.intake.settle(hall.ready[0])
    hall.intake.committed(hall.intake.committable())
    assert hall.intake.marks(hall.intake.leaving([M0, M1])) == {M0: 1}


def test_late_news_of_a_partition_that_is_gone_moves_nothing(hall: Hall) -> None:
    """It came back meanwhile, and begins anew: no offset is finished by what belongs to the time before."""
    hall.main(0)
    (old,) = hall.ready
    hall.intake.close(hall.intake.leaving([M0]))
    hall.intake.assigned([M0])
    hall.main(0)
    hall.intake.settle(old)
    assert hall.intake.committable() == {M0: 0}
    assert hall.intake.active == 1
    hall.intake.settle(hall.ready[1])
    assert hall.intake.committable() == {M0: 1}


def test_a_wide_ledger_pauses_its_partition(hall: Hall) -> None:
    """One record that does not end must not let the list behind it grow for ever."""
    hall.main(0, WIDEST_SPAN - 1)
    assert hall.intake.too_wide() == set()
    hall.main(WIDEST_SPAN)
    assert hall.intake.too_wide() == {M0}
    hall.intake.settle(hall.ready[0])
    assert hall.intake.too_wide() == set()


def test_a_record_without_a_timestamp_is_due(hall: Hall) -> None:
    """Rather now than never."""
    hall.intake.arrived([record(notification(), topic=RETRY, timestamp_ms=-1)])
    assert offsets(hall.ready) == [0]
