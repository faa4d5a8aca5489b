"""Who gets the next send slot: one lane per destination.

A lane may use every slot while it is alone. When others are about it keeps a share, so that a destination that hangs
cannot sit on all of them: above its share a lane leaves half of the slots free. What piles up in a lane that is slower
than the rest goes away as "busy" before it fills the process and hides the others behind it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from ringonce.runtime.breaker import Gate, Permit
from ringonce.runtime.work import Phase, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ringonce.domain.ledger import Tenure
    from ringonce.runtime.clock import Clock

SHARE: Final = 8
"""Slots that a lane keeps whatever the others do."""

QUEUE: Final = 16
"""Records that a lane keeps waiting when it is told to make room."""

NEIGHBOURLY: Final = 10.0
"""Seconds for which a lane that was in use still counts as somebody to leave slots for."""

FORGOTTEN: Final = 600.0
"""Seconds after which an idle lane with a closed gate is forgotten."""

SLOW: Final = 1.0
"""Seconds that the head of a lane has waited when the lane counts as slow."""


class Lane:
    """The records for one destination."""

    __slots__ = ("gate", "in_flight", "last_used", "name", "since", "waiting")

    def __init__(self, name: str, gate: Gate) -> None:
        self.name = name
        self.gate = gate
        self.waiting: deque[Work] = deque()
        self.in_flight = 0
        self.last_used = 0.0
        self.since = 0.0  # when the lane last got a slot, or its first record


class Ticket(NamedTuple):
    """A send slot, for one piece of work."""

    work: Work
    lane: Lane
    probe: bool


class Lanes:
    """All lanes of one process, and its `slots`."""

    def __init__(self, slots: int, clock: Clock, make_gate: Callable[[str], Gate]) -> None:
        self.slots = slots
        self.in_flight = 0
        self._clock = clock
        self._make_gate = make_gate
        self._lanes: dict[str, Lane] = {}
        self._ready: OrderedDict[str, Lane] = OrderedDict()  # lanes with something waiting, in turn

    def lane(self, destination: str) -> Lane:
        """The destination's lane."""
        lane = self._lanes.get(destination)
        if lane is None:
            lane = self._lanes[destination] = Lane(destination, self._make_gate(destination))
        return lane

    def offer(self, work: Work, destination: str, *, first: bool = False) -> None:
        """Put work into its lane, at the end or (what was there before) at the front."""
        lane = self.lane(destination)
        lane.last_used = self._clock.monotonic()
        if not lane.waiting:
            lane.since = lane.last_used
            self._ready[destination] = lane
        if first:
            lane.waiting.appendleft(work)
        else:
            lane.waiting.append(work)

    @property
    def waiting(self) -> int:
        """How many records wait in all lanes."""
        return sum(len(lane.waiting) for lane in self._ready.values())

    def startable(self) -> int:
        """How many wait in lanes that would get a slot if one were free."""
        return sum(len(lane.waiting) for lane in self._ready.values() if lane.gate.closed and self._may_start(lane))

    def take(self) -> Ticket | None:
        """The next work that may start, with its slot; None when there is none or no slot is free."""
        while self.in_flight < self.slots:
            ticket = self._take_one()
            if ticket is None:
                return None
            # What was given up while it waited is dropped here.
            if ticket.work.phase is Phase.QUEUED and not ticket.work.tenure.closed:
                return ticket
            if ticket.probe:
                ticket.lane.gate.give_back()
            self.release(ticket.lane)
        return None

    def _take_one(self) -> Ticket | None:
        for name, lane in list(self._ready.items()) if len(self._ready) > 1 else self._ready.items():
            if lane.gate.closed and not self._may_start(lane):
                continue
            permit = lane.gate.ask()
            if permit is Permit.NONE:
                continue
            work = lane.waiting.popleft()
            if lane.waiting:
                self._ready.move_to_end(name)
            else:
                del self._ready[name]
            lane.in_flight += 1
            self.in_flight += 1
            lane.since = lane.last_used = self._clock.monotonic()
            return Ticket(work, lane, permit is Permit.PROBE)
        return None

    def _may_start(self, lane: Lane) -> bool:
        if lane.in_flight < SHARE:
            return True
        free = self.slots - self.in_flight
        return free > (self.slots // 2 if self._has_neighbours(lane) else 0)

    def over_share(self, lane: Lane) -> bool:
        """Whether the lane holds more than its share while a neighbour waits and no slot is free."""
        return (
            lane.in_flight > SHARE
            and self.in_flight >= self.slots
            and any(other is not lane and other.in_flight < SHARE for other in self._ready.values())
        )

    def _has_neighbours(self, lane: Lane) -> bool:
        if len(self._lanes) == 1:
            return False
        horizon = self._clock.monotonic() - NEIGHBOURLY
        return any(other is not lane and other.last_used >= horizon for other in self._lanes.values())

    def release(self, lane: Lane) -> None:
        """A slot is free again."""
        lane.in_flight -= 1
        self.in_flight -= 1
        lane.last_used = self._clock.monotonic()

    def overflow(self) -> Iterator[Work]:
        """What has to make room: called when no more records can be taken in.

        A lane gives up what is over its queue when it is slow and holds most of what waits, while others are about.
        """
        slow_before = self._clock.monotonic() - SLOW
        total = self.waiting
        for lane in list(self._ready.values()):
            dominant = len(lane.waiting) * 4 > total * 3
            if dominant and lane.since < slow_before and len(lane.waiting) > QUEUE and self._has_neighbours(lane):
                while len(lane.waiting) > QUEUE:
                    yield lane.waiting.pop()

    def behind_open_gates(self) -> Iterator[Work]:
        """Take out everything that waits behind an open gate, but for one probe where one is due."""
        for name, lane in list(self._ready.items()):
            if lane.gate.closed:
                continue
            keep = 1 if lane.gate.wants_probe() else 0
            while len(lane.waiting) > keep:
                yield lane.waiting.pop()
            if not lane.waiting:
                del self._ready[name]

    def open_gates(self) -> list[Gate]:
        """The gates that are not closed and have somebody waiting."""
        return [lane.gate for lane in self._ready.values() if not lane.gate.closed]

    def discard(self, tenure: Tenure) -> None:
        """Forget what waits for a partition that goes."""
        for name, lane in list(self._ready.items()):
            lane.waiting = deque(work for work in lane.waiting if work.tenure is not tenure)
            if not lane.waiting:
                del self._ready[name]

    def sweep(self) -> None:
        """Forget lanes that nobody has used for long: destinations come and go."""
        horizon = self._clock.monotonic() - FORGOTTEN
        for name, lane in list(self._lanes.items()):
            if not lane.waiting and not lane.in_flight and lane.gate.closed and lane.last_used < horizon:
                del self._lanes[name]
