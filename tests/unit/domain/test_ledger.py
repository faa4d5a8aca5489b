"""The ledger under random schedules, compared with a model that is obviously right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from ringonce.domain.ledger import Tenure


class Ledgers(RuleBasedStateMachine):
    """One partition over several tenures. Records come in order with gaps, finish in any order, and ownership goes."""

    delivered = Bundle("delivered")

    @initialize(start=st.integers(0, 10**12))
    def begin(self, start: int) -> None:
        """A first assignment, anywhere."""
        self.tenure = Tenure("t", 0)
        self.open: set[int] = set()
        self.last: int | None = None
        self.position = start  # what the consumer would poll next
        self.offered: list[int] = []  # what this tenure offered to commit
        self.broker: int | None = None  # what the group has committed

    @rule(target=delivered, gap=st.integers(0, 3))
    def deliver(self, gap: int) -> tuple[Tenure, int]:
        """The next record, after a gap or none."""
        offset = self.position + gap
        assert self.tenure.deliver(offset)
        self.open.add(offset)
        self.last, self.position = offset, offset + 1
        return self.tenure, offset

    @precondition(lambda self: self.last is not None)
    @rule(back=st.integers(0, 5))
    def deliver_again(self, back: int) -> None:
        """An offset that was delivered before, or lies in a gap before the last one, is not to be worked on."""
        assert self.last is not None
        before = self.tenure.unfinished, self.tenure.span, self.tenure.committable()
        assert not self.tenure.deliver(max(0, self.last - back))
        assert (self.tenure.unfinished, self.tenure.span, self.tenure.committable()) == before

    @rule(work=consumes(delivered))
    def finish(self, work: tuple[Tenure, int]) -> None:
        """Work of an earlier tenure may finish late; that must change nothing."""
        tenure, offset = work
        tenure.finish(offset)
        if tenure is self.tenure:
            self.open.discard(offset)

    @rule(taken=st.booleans())
    def commit(self, taken: bool) -> None:  # noqa: FBT001 - hypothesis passes by name
        """What may be committed is, or the broker does not take it."""
        mark = self.tenure.committable()
        if mark is None:
            return
        self.offered.append(mark)
        self.tenure.committed(mark)
        if taken:
            assert self.broker is None or mark >= self.broker
            self.broker = mark
        else:
            self.tenure.uncommitted()
            assert self.tenure.committable() == mark

    @rule()
    def reassign(self) -> None:
        """Lost or revoked, and back again: polling goes on from what is committed."""
        self.tenure.close()
        assert self.tenure.committable() is None
        assert self.tenure.mark is None
        self.tenure = Tenure("t", 0)
        self.position = self.position if self.broker is None else self.broker
        self.open.clear()
        self.last = None
        self.offered.clear()

    @invariant()
    def mark_is_the_lowest_unfinished_else_the_next(self) -> None:
        """Whatever happened."""
        expected = None if self.last is None else min(self.open, default=self.last + 1)
        assert self.tenure.mark == expected

    @invariant()
    def never_offers_what_is_not_finished_and_never_goes_back(self) -> None:
        """Within one assignment."""
        mark = self.tenure.committable()
        if mark is not None:
            assert all(mark <= offset for offset in self.open)
            assert not self.offered or mark >= self.offered[-1]

    @invariant()
    def counts_what_is_open(self) -> None:
        """And how far it spans."""
        assert self.tenure.unfinished == len(self.open)
        assert self.tenure.span == (self.last + 1 - min(self.open) if self.open and self.last is not None else 0)


TestLedgers = Ledgers.TestCase


@given(st.sets(st.integers(0, 300), min_size=1, max_size=40).map(sorted), st.randoms())
def test_all_done_means_last_plus_one(offsets: list[int], random: object) -> None:
    """Whatever the gaps and the order of finishing, in the end the last delivered offset + 1 is committed, and once."""
    tenure = Tenure("t", 0)
    for offset in offsets:
        tenure.deliver(offset)
    order = list(offsets)
    random.shuffle(order)  # type: ignore[attr-defined]
    marks = []
    for offset in order:
        tenure.finish(offset)
        mark = tenure.committable()
        if mark is not None:
            marks.append(mark)
            tenure.committed(mark)
    assert marks == sorted(set(marks))
    assert marks[-1] == offsets[-1] + 1
    assert tenure.committable() is None


def test_nothing_to_commit_before_the_first_record() -> None:
    """An assignment alone commits nothing: it would overwrite what another member committed."""
    assert Tenure("t", 0).committable() is None


def test_first_record_unfinished_offers_its_own_offset() -> None:
    """Committing the offset one stands at is harmless, and holds the group's place against retention."""
    tenure = Tenure("t", 0)
    tenure.deliver(7)
    assert tenure.committable() == 7


def test_late_news_for_a_closed_tenure_is_ignored() -> None:
    """Another owner decides now: neither finish nor commit has any effect."""
    tenure = Tenure("t", 0)
    tenure.deliver(1)
    tenure.close()
    tenure.finish(1)
    tenure.uncommitted()
    assert (tenure.committable(), tenure.unfinished) == (None, 1)


@pytest.mark.parametrize("offset", [4, 9, 12])
def test_finishing_what_is_not_open_is_an_error(offset: int) -> None:
    """Finished before (4, 9) or never delivered (12): a mistake of ours, which must not pass in silence."""
    tenure = Tenure("t", 0)
    for delivered in (4, 6, 9):
        tenure.deliver(delivered)
    tenure.finish(4)
    tenure.finish(9)
    with pytest.raises(ValueError, match="finished before or never came"):
        tenure.finish(offset)


def test_stale_report_of_a_commit_does_not_move_it_back() -> None:
    """Reports of two commits may come in any order."""
    tenure = Tenure("t", 0)
    for offset in range(4):
        tenure.deliver(offset)
        tenure.finish(offset)
    tenure.committed(4)
    tenure.committed(2)
    assert tenure.committable() is None
