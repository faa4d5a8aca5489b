"""Attempts on their way to the timeline: nothing waits for them, and nothing is lost but them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.fakes.events import Heard
from tests.fakes.samples import notification, work
from tests.fakes.store import MemoryStore

from ringonce.domain.attempt import Attempt
from ringonce.observe.events import AttemptsDropped
from ringonce.runtime.logbook import AGAIN, BATCH, GATHER, LINGER, Logbook
from ringonce.store.port import AttemptRow, RowsRefused, StoreAway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ringonce.runtime.work import Work


def tried(ident: str = "n-1", *times: float) -> Work:
    """Work with a refused attempt at each of these times, or one at 1.0."""
    one = work(notification(ident), offset=7, number=2)
    one.tried = [Attempt(at, "Refused", 503, 0.25) for at in times or (1.0,)]
    return one


class Desk:
    """A logbook and where its rows end."""

    def __init__(self, room: int = 100) -> None:
        self.store = MemoryStore()
        self.heard = Heard()
        self.book = Logbook(self.store, "node-1", "firebase", self.heard, room)

    @property
    def ids(self) -> list[str]:
        """Whose attempts are written, in their order."""
        return [ident for ident, _, _ in self.store.attempts]


@asynccontextmanager
async def desk(room: int = 100) -> AsyncIterator[Desk]:
    """A desk whose logbook writes."""
    one = Desk(room)
    task = asyncio.ensure_future(one.book.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


async def test_an_attempt_is_written_with_all_that_it_says() -> None:
    """Whose it was, where its record lies, and what came of it; and it is taken from the work but once."""
    async with desk() as one:
        its = tried("n-1", 1.0, 2.5)
        one.book.take(its)
        one.book.take(its)
        await one.book.written()
        assert its.tried == []
        assert one.store.attempts == {
            ("n-1", at, "node-1"): AttemptRow(
                "n-1", at, "firebase", "n-1", "notification-firebase", 2, 7, "Refused", 503, 0.25
            )
            for at in (1.0, 2.5)
        }
        assert one.heard.events == []


async def test_a_replays_attempts_name_its_root() -> None:
    """So that they are found by it."""
    async with desk() as one:
        its = work(
            headers=[("notification.id", b"replay-1-n-1"), ("replay.of", b"n-1"), ("replay.count", b"1")],
        )
        its.tried = [Attempt(1.0, "NotSent", None, 0.1)]
        one.book.take(its)
        await one.book.written()
        [found] = one.store.attempts.values()
        assert (found.notification_id, found.root_id) == ("replay-1-n-1", "n-1")


async def test_what_gathers_is_one_batch_and_a_full_one_does_not_wait() -> None:
    """So that a bad hour of a provider is not a statement a call."""
    async with desk(10 * BATCH) as one:
        loop = asyncio.get_running_loop()
        one.book.take(tried("a"))
        one.book.take(tried("b"))
        started = loop.time()
        await one.book.written()
        assert loop.time() - started == pytest.approx(GATHER)
        one.book.take(tried("c", *(float(number) for number in range(2 * BATCH))))
        started = loop.time()
        await one.book.written()
        assert loop.time() == started
        assert len(one.store.attempts) == 2 * BATCH + 2


async def test_a_database_that_is_away_costs_nothing_while_there_is_room() -> None:
    """Everything is written when it is back, in its order."""
    async with desk() as one:
        one.store.note_faults.declare(StoreAway("gone"), times=3)
        one.book.take(tried("a"))
        await asyncio.sleep(GATHER + AGAIN)
        one.book.take(tried("b"))
        await asyncio.sleep(4 * (AGAIN + GATHER))
        assert one.store.note_faults.spent
        assert one.ids == ["a", "b"]
        assert one.heard.of(AttemptsDropped) == []


async def test_the_oldest_are_dropped_when_there_is_no_room() -> None:
    """And how many is said once the others are written."""
    async with desk(room=3) as one:
        one.store.note_faults.declare(StoreAway("gone"), times=2)
        for ident in "ab":
            one.book.take(tried(ident))
        await asyncio.sleep(GATHER + AGAIN / 2)
        for ident in "cde":
            one.book.take(tried(ident))
        assert one.heard.events == []
        await asyncio.sleep(3 * AGAIN)
        assert one.ids == ["c", "d", "e"]
        assert one.heard.of(AttemptsDropped) == [AttemptsDropped(2)]


async def test_of_a_batch_that_comes_back_the_newest_stay() -> None:
    """As many as there is room for."""
    async with desk(room=3) as one:
        one.store.latency = 1.0
        one.store.note_faults.declare(StoreAway("gone"))
        for ident in "abc":
            one.book.take(tried(ident))
        await asyncio.sleep(GATHER + 0.5)
        one.book.take(tried("d"))
        await asyncio.sleep(5)
        assert one.ids == ["b", "c", "d"]
        assert one.heard.of(AttemptsDropped) == [AttemptsDropped(1)]


async def test_a_batch_that_is_refused_is_dropped() -> None:
    """It would be refused for ever; the next one is written."""
    async with desk() as one:
        one.store.note_faults.declare(RowsRefused("22P05"))
        one.book.take(tried("a"))
        await one.book.written()
        one.book.take(tried("b"))
        await one.book.written()
        assert one.ids == ["b"]
        assert one.heard.of(AttemptsDropped) == [AttemptsDropped(1)]


async def test_a_process_that_stops_does_not_wait_for_a_database_that_is_away() -> None:
    """Not longer than a moment."""
    async with desk() as one:
        one.store.note_faults.declare(StoreAway("gone"), times=100)
        one.book.take(tried("a"))
        loop = asyncio.get_running_loop()
        started = loop.time()
        await one.book.written()
        assert loop.time() - started == pytest.approx(LINGER)
        assert one.ids == []
