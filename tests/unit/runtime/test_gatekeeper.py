"""Asking the gate before anything is called."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.fakes.clock import LoopClock
from tests.fakes.events import Heard
from tests.fakes.samples import notification, row, work
from tests.fakes.store import MemoryStore

from ringonce.kafka import headers as names
from ringonce.observe.events import Held, Resumed
from ringonce.runtime.gatekeeper import BATCH, GOOD_FOR, HOLD_PAUSE, Gatekeeper
from ringonce.runtime.roots import Roots
from ringonce.runtime.work import Phase
from ringonce.store.port import Gate, StoreAway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ringonce.runtime.work import Work

GATE = Gate("firebase-sender", "node")


class Porch:
    """What is in front of the gate and behind it."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.store = MemoryStore()
        self.heard = Heard()
        self.admitted: list[Work] = []
        self.skipped: list[Work] = []
        self.room = 10_000
        self.roots = Roots()
        self.keeper = Gatekeeper(
            self.store,
            GATE.consumer,
            self.clock,
            self.heard,
            self.roots,
            wanted=lambda: self.room - len(self.admitted),
            admit=self.admitted.append,
            skip=self.skipped.append,
        )

    def submit(self, *idents: str) -> list[Work]:
        """Records come."""
        works = [work(notification(ident), offset=offset) for offset, ident in enumerate(idents)]
        for one in works:
            self.keeper.submit(one)
        return works


@asynccontextmanager
async def porch() -> AsyncIterator[Porch]:
    """With its keeper at work."""
    one = Porch()
    task = asyncio.ensure_future(one.keeper.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


async def test_new_records_are_admitted_in_their_order() -> None:
    """With one look-up for all of them, by id and by root."""
    async with porch() as one:
        works = one.submit("a", "b", "c")
        await asyncio.sleep(0.1)
        assert one.admitted == works
        assert one.store.looks == [{"a", "b", "c"}]
        assert len(one.keeper) == 0


async def test_what_has_passed_is_skipped() -> None:
    """It ended before; nothing is called for it again."""
    async with porch() as one:
        one.store.write(GATE, [row("b")])
        first, second, third = one.submit("a", "b", "c")
        await asyncio.sleep(0.1)
        assert (one.admitted, one.skipped) == ([first, third], [second])


async def test_a_replay_of_a_root_that_was_delivered_is_skipped() -> None:
    """By its root, although its own id is new."""
    async with porch() as one:
        one.store.write(GATE, [row("n")])
        headers = [(names.NOTIFICATION_ID, b"replay-1-n"), (names.REPLAY_OF, b"n"), (names.REPLAY_COUNT, b"1")]
        replay = work(notification("n"), headers=[*headers])
        one.keeper.submit(replay)
        await asyncio.sleep(0.1)
        assert one.store.looks == [{"replay-1-n", "n"}]
        assert one.skipped == [replay]


async def test_another_consumers_gate_is_none_of_ours() -> None:
    """What a recorder wrote down is not what a sender has done: a replay must get through."""
    async with porch() as one:
        one.store.write(Gate("firebase-dlq", "node"), [row("a")])
        works = one.submit("a")
        await asyncio.sleep(0.1)
        assert one.admitted == works


async def test_batches_are_bounded() -> None:
    """Whatever is queued."""
    async with porch() as one:
        one.submit(*(f"n-{number}" for number in range(BATCH + 1)))
        await asyncio.sleep(0.1)
        assert [len(look) for look in one.store.looks] == [BATCH, 1]


async def test_no_more_is_looked_up_than_can_be_used() -> None:
    """Answers age: the rest waits in front, until a nudge says that there is room."""
    async with porch() as one:
        one.room = 2
        works = one.submit("a", "b", "c")
        await asyncio.sleep(5)
        assert one.admitted == works[:2]
        assert len(one.keeper) == 1
        one.room = 3
        one.keeper.nudge()
        await asyncio.sleep(0.1)
        assert one.admitted == works


async def test_an_answer_is_good_for_a_second() -> None:
    """From when was asked, not from when the answer came."""
    async with porch() as one:
        (only,) = one.submit("a")
        assert not one.keeper.fresh(only)
        await asyncio.sleep(GOOD_FOR / 2)
        assert one.keeper.fresh(only)
        await asyncio.sleep(GOOD_FOR)
        assert not one.keeper.fresh(only)


async def test_a_slow_answer_is_as_old_as_its_question() -> None:
    """What another process finished while it was on its way is not in it."""
    async with porch() as one:
        one.store.latency = GOOD_FOR * 0.8
        (only,) = one.submit("a")
        await asyncio.sleep(GOOD_FOR * 0.9)
        assert one.admitted == [only]
        assert one.keeper.fresh(only)
        await asyncio.sleep(GOOD_FOR * 0.2)
        assert not one.keeper.fresh(only)


async def test_an_answer_from_before_an_outage_is_worth_nothing() -> None:
    """Another owner may have finished it meanwhile; distrust never goes back."""
    async with porch() as one:
        (only,) = one.submit("a")
        await asyncio.sleep(0.1)
        assert one.keeper.fresh(only)
        one.keeper.distrust(one.clock.monotonic() + 0.01)
        one.keeper.distrust(0)
        assert not one.keeper.fresh(only)


async def test_resubmitted_records_go_first_and_keep_their_order() -> None:
    """They were here before the others."""
    async with porch() as one:
        one.room = 0
        new = one.submit("c", "d")
        old = [work(notification("a")), work(notification("b"))]
        one.keeper.resubmit(old)
        one.room = 10
        await asyncio.sleep(0.1)
        assert one.admitted == [*old, *new]


async def test_database_away_means_hold() -> None:
    """Nothing is admitted unasked; afterwards older answers are distrusted."""
    async with porch() as one:
        (before,) = one.submit("before")
        await asyncio.sleep(0.1)
        one.store.seen_faults.declare(StoreAway("gone"), times=5)
        works = one.submit("a", "b")
        await asyncio.sleep(4.5 * HOLD_PAUSE)
        assert one.admitted == [before]
        assert [(event.what, event.waiting) for event in one.heard.of(Held)] == [("gate", 2)]
        await asyncio.sleep(HOLD_PAUSE)
        assert one.store.seen_faults.spent
        assert one.admitted == [before, *works]
        assert len(one.heard.of(Resumed)) == 1
        assert one.keeper.fresh(works[0])
        assert not one.keeper.fresh(before)


async def test_a_second_copy_of_a_root_waits_until_the_first_is_over() -> None:
    """It is looked up anew then, and skipped if the first has passed."""
    async with porch() as one:
        first, second = one.submit("a", "a")
        await asyncio.sleep(0.1)
        assert one.admitted == [first]
        assert len(one.keeper) == 0
        one.store.write(GATE, [row("a")])
        following = one.roots.free(first)
        assert following is second
        one.keeper.resubmit([second])
        await asyncio.sleep(0.1)
        assert (one.admitted, one.skipped) == ([first], [second])


async def test_what_was_given_up_meanwhile_is_neither_admitted_nor_skipped() -> None:
    """Before the look-up, and while it runs."""
    async with porch() as one:
        leaving, given_up, stays = one.submit("a", "b", "c")
        leaving.tenure.leaving = True
        given_up.phase = Phase.DONE
        await asyncio.sleep(0.1)
        assert one.admitted == [stays]
        one.store.seen_faults.declare(StoreAway("gone"))
        (late,) = one.submit("d")
        await asyncio.sleep(HOLD_PAUSE / 2)
        late.phase = Phase.DONE
        await asyncio.sleep(HOLD_PAUSE)
        assert one.admitted == [stays]
        assert one.skipped == []
