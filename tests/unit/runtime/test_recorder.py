"""Terminal rows in batches, whatever the database does meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.clock import LoopClock
from tests.fakes.events import Heard
from tests.fakes.samples import row, work
from tests.fakes.store import MemoryStore

from ringonce.domain.disposition import Status
from ringonce.observe.events import Held, Recorded, Resumed, RowStripped
from ringonce.runtime.failpoints import Failpoints
from ringonce.runtime.hold import REMIND
from ringonce.runtime.recorder import BATCH, HOLD_PAUSE, Recorder, fold
from ringonce.store.port import Gate, RowsRefused, StoreAway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ringonce.runtime.work import Work
    from ringonce.store.port import HistoryRow

GATE = Gate("firebase-sender", "node-1")


class Desk:
    """A recorder at work."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.heard = Heard()
        self.settled: list[Work] = []
        self.recorder = Recorder(self.store, GATE, LoopClock(), self.heard, Failpoints(), self.settled.append)

    def submit(self, *rows: HistoryRow) -> list[Work]:
        """Have rows written."""
        works = [work() for _ in rows]
        for one, its in zip(rows, works, strict=True):
            self.recorder.submit(one, its)
        return works


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    """A desk whose recorder runs."""
    one = Desk()
    task = asyncio.ensure_future(one.recorder.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled(), task.exception()


async def test_work_is_settled_only_once_its_row_is_durable() -> None:
    """Not when it is submitted, and not while the statement runs."""
    async with desk() as one:
        works = one.submit(row("a"))
        assert (one.settled, one.recorder.pending) == ([], 1)
        await one.recorder.drained()
        assert one.settled == works
        assert one.recorder.pending == 0
        assert one.store.rows[("a", "firebase")].status is Status.DELIVERED


async def test_rows_are_written_in_batches_sorted_by_key() -> None:
    """One statement for what has gathered; a full one at most."""
    async with desk() as one:
        one.submit(*(row(f"n-{number:04}") for number in reversed(range(BATCH + 20))))
        await one.recorder.drained()
        assert [len(batch) for batch in one.store.batches] == [BATCH, 20]
        for batch in one.store.batches:
            assert [one_row.key for one_row in batch] == sorted(one_row.key for one_row in batch)
        assert [event.rows for event in one.heard.of(Recorded)] == [BATCH, 20]
        assert len(one.settled) == BATCH + 20


async def test_duplicates_within_a_batch_are_one_row_and_all_settled() -> None:
    """Else the statement would fail with 21000."""
    async with desk() as one:
        works = one.submit(row("a", Status.DLQ), row("b"), row("a", Status.DELIVERED), row("a", Status.EXPIRED))
        await one.recorder.drained()
        assert [len(batch) for batch in one.store.batches] == [2]
        assert one.store.rows[("a", "firebase")].status is Status.DELIVERED
        assert one.settled == works


statuses = st.sampled_from(list(Status))


@given(st.lists(st.tuples(st.sampled_from("ab"), statuses, st.booleans()), min_size=1, max_size=8))
def test_folding_ends_as_writing_one_by_one_would(events: list[tuple[str, Status, bool]]) -> None:
    """The database's rules: a batch is no different from its rows in a row."""
    rows = [row(ident, status, maybe_reached=reached, attempts=n) for n, (ident, status, reached) in enumerate(events)]

    def written(*batches: list[HistoryRow]) -> dict[tuple[str, str], HistoryRow]:
        store = MemoryStore()
        for batch in batches:
            store.write(GATE, batch)
        return store.rows

    folded = fold(rows)
    assert [one.key for one in folded] == sorted({one.key for one in rows})
    assert written(folded) == written(*([one] for one in rows))


async def test_database_away_means_hold_and_nothing_is_settled() -> None:
    """What is finished waits, is told once at first and again while it lasts, and is written when it is back."""
    async with desk() as one:
        one.store.record_faults.declare(StoreAway("gone"), times=40)
        works = one.submit(row("a"), row("b"))
        await asyncio.sleep(39 * HOLD_PAUSE - 0.5)
        assert one.settled == []
        assert one.recorder.pending == 2
        held = one.heard.of(Held)
        assert [(event.what, event.reason, event.waiting) for event in held] == [("database", "gone", 2)] * 2
        assert held[0].seconds == 0
        assert held[1].seconds >= REMIND
        await one.recorder.drained()
        assert one.store.record_faults.spent
        assert one.settled == works
        (resumed,) = one.heard.of(Resumed)
        assert resumed.seconds == pytest.approx(40 * HOLD_PAUSE, abs=1)
        assert one.recorder.resumed_at > 0


async def test_an_answer_that_was_lost_is_repeated_without_harm() -> None:
    """It had been written: the same rows again change nothing."""
    async with desk() as one:
        one.store.lost_answers = 1
        works = one.submit(row("a", attempts=2))
        await one.recorder.drained()
        assert len(one.store.batches) == 2
        assert one.store.rows == {("a", "firebase"): row("a", attempts=2)}
        assert one.settled == works


async def test_a_batch_with_a_bad_row_is_tried_row_by_row() -> None:
    """The others are written as they are; the bad one with its id, channel and status only."""
    async with desk() as one:
        good, bad = row("a", user_id="u"), row("b", Status.DLQ, user_id="\0", last_error="x", maybe_reached=True)
        works = one.submit(good, bad, row("c"))
        await one.recorder.drained()
        assert one.store.rows[good.key] == good
        stripped = one.store.rows[bad.key]
        assert (stripped.status, stripped.user_id, stripped.last_error) == (Status.DLQ, None, None)
        assert ("c", "firebase") in one.store.rows
        assert one.heard.of(RowStripped) == [RowStripped("b", "22P05")]
        assert one.settled == works


async def test_a_stripped_row_still_says_that_it_may_have_reached_the_provider() -> None:
    """Whatever its status: the history must not forget that."""
    async with desk() as one:
        one.submit(row("b", Status.DLQ, user_id="\0", maybe_reached=True))
        await one.recorder.drained()
        assert one.store.rows[("b", "firebase")].maybe_reached


async def test_a_bare_row_that_is_refused_is_the_databases_fault() -> None:
    """A Hold with an alarm, not an endless loop and not a row that is given up."""
    async with desk() as one:
        one.store.refuses = lambda _: "23514"
        works = one.submit(row("a"))
        await asyncio.sleep(60)
        assert one.settled == []
        assert len(one.heard.of(Held)) == 2
        assert 55 <= len(one.store.batches) <= 65
        one.store.refuses = lambda _: None
        await one.recorder.drained()
        assert one.settled == works
        assert len(one.heard.of(Resumed)) == 1


async def test_an_outage_while_writing_row_by_row_is_held_out() -> None:
    """Both troubles at once."""
    async with desk() as one:
        one.store.record_faults.declare(RowsRefused("22P05"))
        one.store.record_faults.declare(StoreAway("gone"), times=3)
        works = one.submit(row("a"), row("b"))
        await one.recorder.drained()
        assert one.store.record_faults.spent
        assert len(one.store.rows) == 2
        assert one.settled == works


async def test_what_comes_while_a_batch_is_written_forms_the_next_one() -> None:
    """Batches grow with the load by themselves, and `drained` waits for all of them."""
    async with desk() as one:
        one.store.record_faults.declare(StoreAway("slow"))
        one.submit(row("a"))
        await asyncio.sleep(HOLD_PAUSE / 2)
        one.submit(row("b"), row("c"))
        assert one.recorder.pending == 3
        await one.recorder.drained()
        assert [[its.notification_id for its in batch] for batch in one.store.batches] == [["a"], ["b", "c"]]
        assert one.recorder.pending == 0


async def test_a_second_hold_is_told_anew() -> None:
    """Each with its own length."""
    async with desk() as one:
        for ident in "ab":
            one.store.record_faults.declare(StoreAway("gone"))
            one.submit(row(ident))
            await one.recorder.drained()
        assert [type(event) for event in one.heard.events if not isinstance(event, Recorded)] == [
            Held,
            Resumed,
            Held,
            Resumed,
        ]


def test_bare_row_holds_nothing_of_the_payload() -> None:
    """But the id."""
    full = row(
        "a", Status.DLQ, user_id="u", last_error="e", trace_id="t", event_key="k", created_at="c", expires_at="x"
    )
    assert full.bare() == row("a", Status.DLQ)
    assert full._replace(root_id="r").bare().root_id == "r"
