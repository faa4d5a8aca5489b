"""Who gets the next send slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fakes.samples import notification, work

from ringonce.domain.ledger import Tenure
from ringonce.runtime.breaker import OPEN_PERIOD, THRESHOLD, Gate
from ringonce.runtime.lanes import FORGOTTEN, NEIGHBOURLY, QUEUE, SHARE, SLOW, Lanes
from ringonce.runtime.work import Phase

if TYPE_CHECKING:
    from tests.fakes.clock import FakeClock
    from tests.fakes.events import Heard

    from ringonce.runtime.lanes import Ticket
    from ringonce.runtime.work import Work

SLOTS = 32


class Road:
    """Lanes with cars on them."""

    def __init__(self, clock: FakeClock, heard: Heard, slots: int = SLOTS) -> None:
        self.clock = clock
        self.lanes = Lanes(slots, clock, lambda name: Gate(name, clock, heard, lambda _: None))
        self.made = 0

    def offer(self, destination: str, count: int = 1, tenure: Tenure | None = None) -> list[Work]:
        """Records for a destination come."""
        works = []
        for _ in range(count):
            works.append(work(notification(f"{destination}-{self.made}"), offset=self.made, tenure=tenure))
            self.made += 1
            self.lanes.offer(works[-1], destination)
        return works

    def take(self, most: int = 10_000) -> list[Ticket]:
        """Take what may start, as the sender does."""
        tickets: list[Ticket] = []
        while len(tickets) < most and (ticket := self.lanes.take()) is not None:
            ticket.work.phase = Phase.FLYING
            tickets.append(ticket)
        return tickets

    def fly(self, destination: str, count: int) -> list[Ticket]:
        """So many are in flight to a destination."""
        self.offer(destination, count)
        tickets = self.take()
        assert [ticket.lane.name for ticket in tickets] == [destination] * count
        return tickets

    def open_gate(self, destination: str) -> None:
        """The destination has failed too often."""
        for _ in range(THRESHOLD):
            self.lanes.lane(destination).gate.delivered(ok=False)


@pytest.fixture
def road(clock: FakeClock, heard: Heard) -> Road:
    return Road(clock, heard)


def names(tickets: list[Ticket]) -> list[str]:
    return [ticket.lane.name for ticket in tickets]


def test_alone_a_lane_uses_every_slot(road: Road) -> None:
    """And not one more; in the order of arrival."""
    works = road.offer("a", SLOTS + 5)
    tickets = road.take()
    assert [ticket.work for ticket in tickets] == works[:SLOTS]
    assert road.lanes.waiting == 5
    road.lanes.release(tickets[0].lane)
    assert [ticket.work for ticket in road.take()] == [works[SLOTS]]


def test_lanes_take_turns(road: Road) -> None:
    """One each, whatever one of them has waiting."""
    road.offer("a", 5)
    road.offer("b", 2)
    assert names(road.take(5)) == ["a", "b", "a", "b", "a"]


def test_with_neighbours_a_lane_leaves_half_of_the_slots_free(road: Road) -> None:
    """What hangs cannot sit on all of them, and beside it the other has its own half, not only its share."""
    road.offer("b")
    road.lanes.release(road.take()[0].lane)
    road.offer("hangs", SLOTS * 2)
    assert len(road.take()) == SLOTS // 2
    road.offer("b", SLOTS)
    assert names(road.take()) == ["b"] * (SLOTS // 2)


def test_with_several_about_the_last_share_is_for_who_has_none_yet(road: Road) -> None:
    """Two that hang on all they can get leave a third one its share."""
    for name in ("a", "b", "c"):
        road.fly(name, 1)
        road.lanes.release(road.lanes.lane(name))
    road.offer("a", SLOTS)
    road.offer("b", SLOTS)
    road.take()
    assert road.lanes.in_flight == SLOTS - SHARE
    road.offer("c", SLOTS)
    assert names(road.take()) == ["c"] * SHARE


def test_its_share_a_lane_keeps_whatever_the_others_do(road: Road) -> None:
    """Eight slots, down to the last free one."""
    road.fly("a", SLOTS - SHARE)  # took them while it was alone
    road.offer("b", SHARE + 4)
    assert names(road.take()) == ["b"] * SHARE
    assert road.lanes.in_flight == SLOTS


def test_neighbours_are_forgotten_after_a_while(road: Road) -> None:
    """Then the lane is alone again."""
    road.fly("b", 1)
    road.lanes.release(road.lanes.lane("b"))
    road.offer("a", SLOTS)
    assert len(road.take()) == SLOTS // 2
    road.clock.advance(NEIGHBOURLY + 0.01)
    assert len(road.take()) == SLOTS // 2
    assert road.lanes.in_flight == SLOTS


def test_over_its_share_means_that_a_neighbour_waits_and_no_slot_is_free(road: Road) -> None:
    """Then tries that are left give way."""
    tickets = road.fly("a", SLOTS)
    lane = tickets[0].lane
    assert not road.lanes.over_share(lane)  # nobody waits
    road.offer("b")
    assert road.lanes.over_share(lane)
    road.lanes.release(lane)
    assert not road.lanes.over_share(lane)  # a slot is free
    road.take()
    assert road.lanes.in_flight == SLOTS
    assert not road.lanes.over_share(road.lanes.lane("b"))  # it is within its share


def test_overflow_is_what_a_slow_dominant_lane_has_over_its_queue(road: Road) -> None:
    """The youngest go; sixteen stay."""
    road.fly("b", 1)
    works = road.offer("slow", 100)
    road.clock.advance(SLOW + 0.1)
    assert set(road.lanes.overflow()) == set(works[QUEUE:])
    assert road.lanes.waiting == QUEUE
    assert list(road.lanes.overflow()) == []


@pytest.mark.parametrize("case", ["alone", "quick", "not dominant", "short"])
def test_nothing_overflows_without_need(road: Road, case: str) -> None:
    """Alone, quick, not most of what waits, or short: nobody is hidden behind it."""
    if case != "alone":
        road.fly("b", 1)
    road.offer("slow", QUEUE if case == "short" else 100)
    if case == "not dominant":
        road.offer("b", 34)
    if case != "quick":
        road.clock.advance(SLOW + 0.1)
    if case == "alone":
        road.clock.advance(NEIGHBOURLY)
    assert list(road.lanes.overflow()) == []


def test_nothing_starts_behind_an_open_gate(road: Road) -> None:
    """And what waits there is not counted as startable."""
    road.offer("a", 3)
    road.offer("b", 2)
    assert road.lanes.startable() == 5
    road.open_gate("a")
    assert road.lanes.startable() == 2
    assert names(road.take()) == ["b", "b"]
    assert [gate.destination for gate in road.lanes.open_gates()] == ["a"]


def test_one_probe_at_a_time_rotating_over_what_waits(road: Road) -> None:
    """After each failed probe the record goes to the end: the next one is another's turn."""
    works = road.offer("a", 4)
    road.open_gate("a")
    probed = []
    for _ in range(6):
        road.clock.advance(OPEN_PERIOD)
        (ticket,) = road.take()
        assert ticket.probe
        probed.append(ticket.work)
        ticket.lane.gate.probed(ok=False)
        road.lanes.release(ticket.lane)
        ticket.work.phase = Phase.QUEUED
        road.lanes.put_back(ticket.work, "a")
    assert probed == [*works, *works[:2]]


def test_what_was_looked_up_again_keeps_its_place(road: Road) -> None:
    """Several that come back in any order stand before what came after them, in their own order."""
    works = road.offer("a", 5)
    taken = road.take(3)
    for ticket in taken:
        road.lanes.release(ticket.lane)
        ticket.work.phase = Phase.QUEUED
    for ticket in (taken[1], taken[0], taken[2]):
        road.lanes.offer(ticket.work, "a")
    assert [ticket.work for ticket in road.take()] == works


def test_behind_an_open_gate_one_waits_for_a_probe_that_is_due(road: Road) -> None:
    """Everything else is taken out; nothing stays before the probe is due, and other lanes are left alone."""
    works = road.offer("a", 5)
    others = road.offer("b", 2)
    road.open_gate("a")
    road.clock.advance(OPEN_PERIOD)
    assert list(road.lanes.behind_open_gates()) == works[:0:-1]
    assert [(ticket.work, ticket.probe) for ticket in road.take()] == [
        (works[0], True),
        (others[0], False),
        (others[1], False),
    ]
    more = road.offer("a", 2)
    assert set(road.lanes.behind_open_gates()) == set(more)
    assert road.lanes.waiting == 0


def test_what_was_given_up_while_it_waited_gets_no_slot(road: Road) -> None:
    """Neither does it use up the probe."""
    first, second, third = road.offer("a", 3)
    first.phase = Phase.DONE
    second.tenure.close()
    road.open_gate("a")
    road.clock.advance(OPEN_PERIOD)
    (ticket,) = road.take()
    assert (ticket.work, ticket.probe) == (third, True)
    assert road.lanes.in_flight == ticket.lane.in_flight == 1


def test_a_partition_that_goes_takes_its_records_along(road: Road) -> None:
    """Out of every lane."""
    going, staying = Tenure("t", 0), Tenure("t", 1)
    road.offer("a", 2, going)
    road.offer("b", 2, going)
    stays = road.offer("b", 1, staying)
    road.lanes.discard(going)
    assert [ticket.work for ticket in road.take()] == stays
    assert road.lanes.waiting == 0


def test_idle_lanes_are_forgotten(road: Road) -> None:
    """Destinations come and go; one with an open gate, with something waiting or in flight is kept."""
    for name in ("idle", "open", "busy"):
        road.fly(name, 1)
    for name in ("idle", "open"):
        road.lanes.release(road.lanes.lane(name))
    road.open_gate("open")
    road.clock.advance(FORGOTTEN + 1)
    before = {name: road.lanes.lane(name) for name in ("idle", "open", "busy")}
    road.lanes.sweep()
    after = {name: road.lanes.lane(name) for name in ("idle", "open", "busy")}
    assert {name for name in before if before[name] is not after[name]} == {"idle"}
