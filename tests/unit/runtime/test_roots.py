"""Within a process one copy of a root at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.fakes.samples import notification, work

from ringonce.domain.notification import Channel
from ringonce.kafka import headers as names
from ringonce.runtime.roots import Roots

if TYPE_CHECKING:
    from ringonce.runtime.work import Work


def copy(ident: str = "n", offset: int = 0) -> Work:
    """A piece of work with a root."""
    return work(notification(ident), offset=offset)


def test_a_second_copy_waits_for_the_first() -> None:
    """And is handed on when that is finished, to ask for the root again."""
    roots, first, second = Roots(), copy(), copy(offset=1)
    assert roots.take(first)
    assert roots.take(first)  # it holds it already: looked up again
    assert not roots.take(second)
    assert roots.free(first) is second
    assert roots.take(second)
    assert roots.free(second) is None


def test_a_replay_is_a_copy_of_its_root() -> None:
    """They share the provider's idempotency key."""
    headers = [(names.NOTIFICATION_ID, b"replay-1-n"), (names.REPLAY_OF, b"n"), (names.REPLAY_COUNT, b"1")]
    roots, original = Roots(), copy()
    replay = work(notification("n"), channel=Channel.FIREBASE, offset=1, headers=headers)
    assert replay.envelope.identity.id == "replay-1-n"
    assert roots.take(original)
    assert not roots.take(replay)


def test_other_roots_do_not_wait() -> None:
    """Each root for itself."""
    roots = Roots()
    assert roots.take(copy("a"))
    assert roots.take(copy("b"))


def test_who_gives_up_while_waiting_leaves_the_queue() -> None:
    """The next one follows."""
    roots, first, second, third = Roots(), copy(), copy(offset=1), copy(offset=2)
    roots.take(first)
    roots.take(second)
    roots.take(third)
    assert roots.free(second) is None
    assert roots.free(first) is third


def test_who_gives_up_after_being_handed_the_root_hands_it_on() -> None:
    """Between being called and taking the root its partition may go; whoever waits behind it must not wait for ever."""
    roots, first, second, third = Roots(), copy(), copy(offset=1), copy(offset=2)
    roots.take(first)
    roots.take(second)
    roots.take(third)
    assert roots.free(first) is second
    assert roots.free(second) is third


class Copies(RuleBasedStateMachine):
    """Copies of one root come, are looked up, finish and are abandoned in any order."""

    @initialize()
    def begin(self) -> None:
        """Nobody is there."""
        self.roots = Roots()
        self.queue: list[Work] = []  # before the gate
        self.waiting: list[Work] = []
        self.holder: Work | None = None
        self.offset = 0

    @rule()
    def arrive(self) -> None:
        """A copy comes."""
        self.offset += 1
        self.queue.append(copy(offset=self.offset))

    @precondition(lambda self: self.queue)
    @rule()
    def look_up(self) -> None:
        """The first in the queue asks for the root."""
        one = self.queue.pop(0)
        if self.roots.take(one):
            assert self.holder is None
            self.holder = one
        else:
            self.waiting.append(one)

    @precondition(lambda self: self.holder)
    @rule()
    def finish(self) -> None:
        """The holder is done."""
        assert self.holder is not None
        done, self.holder = self.holder, None
        self._free(done)

    @precondition(lambda self: self.queue or self.waiting)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        """Somebody's partition goes."""
        one = data.draw(st.sampled_from(self.queue + self.waiting))
        (self.queue if one in self.queue else self.waiting).remove(one)
        self._free(one)

    def _free(self, one: Work) -> None:
        following = self.roots.free(one)
        if following is not None:
            self.waiting.remove(following)
            self.queue.append(following)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever waits will be called: by the holder, or by somebody who is about to take the root."""
        assert not self.waiting or self.holder or self.queue


TestCopies = Copies.TestCase
