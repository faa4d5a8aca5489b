"""Who gets the next send slot: one lane per destination.

A lane may use every slot while it is alone. When others are about it keeps a share, so that a destination that hangs
cannot sit on all of them: above its share a lane has at most half of the slots. What piles up in a lane that is slower
than the rest goes away as "busy" before it fills the process and hides the others behind it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import count, islice
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
    """All lanes of one process, and its `slots`, which may change: with fewer, what is in flight stays there."""

    def __init__(self, slots: int, clock: Clock, make_gate: Callable[[str], Gate]) -> None:
        self.slots = slots
        self.in_flight = 0
        self.short = False
        """Whether somebody waited because every slot was taken; whoever looks sets it back."""
        self._clock = clock
        self._make_gate = make_gate
        self._lanes: dict[str, Lane] = {}
        self._ready: OrderedDict[str, Lane] = OrderedDict()  # lanes with something waiting, in turn
        self._places = count()

    def lane(self, destination: str) -> Lane:
        """The destination's lane."""
        lane = self._lanes.get(destination)
        if lane is None:
            self.sweep()
            lane = self._lanes[destination] = Lane(destination, self._make_gate(destination))
        return lane

    def offer(self, work: Work, destination: str) -> None:
        """Put work into its lane: new work at the end, what was there before and was looked up again in its place."""
        lane = self.lane(destination)
        lane.last_used = self._clock.monotonic()
        if not lane.waiting:
            lane.since = lane.last_used
            self._ready[destination] = lane
        if work.place is None:
            work.place = next(self._places)
            lane.waiting.append(work)
        else:
            later = (at for at, other in enumerate(lane.waiting) if _place(other) > work.place)
            lane.waiting.insert(next(later, len(lane.waiting)), work)

    def put_back(self, work: Work, destination: str) -> None:
        """Put work that has had its turn at the end of its lane."""
        work.place = None
        self.offer(work, destination)

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
        self.short = self.short or bool(self._ready)
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
        neighbours = self._neighbours(lane)
        if not neighbours:
            return True
        # Its own half is what counts, not what is free: beside a lane that hangs on its half the others would be held
        # down to their shares for as long as that lasts. With several about, the last share is for who has none yet.
        reserve = SHARE if neighbours > 1 else 0
        return lane.in_flight < self.slots // 2 and self.slots - self.in_flight > reserve

    def over_share(self, lane: Lane) -> bool:
        """Whether the lane holds more than its share while a neighbour waits and no slot is free."""
        return (
            lane.in_flight > SHARE
            and self.in_flight >= self.slots
            and any(other is not lane and other.in_flight < SHARE for other in self._ready.values())
        )

    def _neighbours(self, lane: Lane) -> int:
        """How many others are about: none, one, or two for several."""
        if len(self._lanes) == 1:
            return 0
        horizon = self._clock.monotonic() - NEIGHBOURLY
        about = (other for other in self._lanes.values() if other is not lane and other.last_used >= horizon)
        return sum(1 for _ in islice(about, 2))

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
            if dominant and lane.since < slow_before and len(lane.waiting) > QUEUE and self._neighbours(lane):
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

    def behind(self) -> int:
        """How many records wait behind gates that are not closed."""
        return sum(len(lane.waiting) for lane in self._ready.values() if not lane.gate.closed)

    def __len__(self) -> int:
        """How many lanes there are, and so gates."""
        return len(self._lanes)

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


def _place(work: Work) -> int:
    assert work.place is not None  # noqa: S101 - whatever waits in a lane has one
    return work.place
