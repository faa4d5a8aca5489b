"""Which dead letters a replay sends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.clock import EPOCH
from tests.fakes.letters import letter
from tests.fakes.samples import expiring, notification

from ringonce.domain.notification import Channel
from ringonce.runtime.selection import ALL, USUAL, Rules, Selection, Verdict, judge
from ringonce.store.replays import Past

ABOUT: Any = {"event_key": "parcel:1", "user_id": "u"}


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(), True),
        (Selection(since=EPOCH), True),
        (Selection(since=EPOCH + 1), False),
        (Selection(until=EPOCH), False),
        (Selection(until=EPOCH + 1), True),
        (Selection(error_classes=frozenset({"refused", "other"})), True),
        (Selection(error_classes=frozenset({"rejected"})), False),
        (Selection(reasons=frozenset({"exhausted"})), True),
        (Selection(reasons=frozenset({"permanent"})), False),
        (Selection(statuses=frozenset({503, 500})), True),
        (Selection(statuses=frozenset({500})), False),
        (Selection(event_keys=frozenset({"parcel:1"})), True),
        (Selection(event_keys=frozenset({"parcel:2"})), False),
        (Selection(users=frozenset({"u"})), True),
        (Selection(users=frozenset({"U"})), False),
        (Selection(ids=frozenset({"n-1"})), True),
        (Selection(ids=frozenset({"replay-2-n-1"})), True),
        (Selection(ids=frozenset({"replay-1-n-1"})), False),
        (Selection(reasons=frozenset({"exhausted"}), statuses=frozenset({500})), False),
    ],
)
def test_a_letter_is_wanted_when_every_choice_takes_it(selection: Selection, *, wanted: bool) -> None:
    """Of one choice any value will do; an id is the root's or its own."""
    assert selection.wants(letter(notification(**ABOUT), replay=2)) is wanted


def test_what_cannot_be_read_is_wanted_by_what_its_headers_say() -> None:
    """And by nothing that only its content could say."""
    assert Selection(statuses=frozenset({503})).wants(letter(b"\xff"))
    assert not Selection(users=frozenset({"u"})).wants(letter(b"\xff"))


LATER = {"n-1": (2, 0, 0)}
COPY = {"n-1": (0, 0, 9)}
ANYTHING: Any = {}


@pytest.mark.parametrize(
    ("one", "given", "verdict"),
    [
        (letter(), {}, Verdict.GO),
        (letter(), {"selection": Selection(statuses=frozenset({500}))}, Verdict.OTHER),
        (letter(b"\xff"), {}, Verdict.UNFIT),
        (letter(notification("")), {}, Verdict.UNFIT),
        (letter(notification(channel=Channel.APNS)), {}, Verdict.UNFIT),
        (letter(), {"newest": LATER}, Verdict.SUPERSEDED),
        (letter(replay=2), {"newest": LATER}, Verdict.GO),
        (letter(), {"newest": COPY}, Verdict.SUPERSEDED),
        (letter(offset=9), {"newest": COPY}, Verdict.GO),
        (letter(), {"past": {"n-1": Past(delivered=True, replays=1)}}, Verdict.DELIVERED),
        (letter(), {"past": {"n-1": Past(replays=1)}}, Verdict.SUPERSEDED),
        (letter(replay=1), {"past": {"n-1": Past(replays=1)}}, Verdict.GO),
        (letter(), {"past": {"n-2": Past(delivered=True)}}, Verdict.GO),
        (letter(replay=2), {}, Verdict.GO),
        (letter(replay=3), {}, Verdict.GUARD),
        (letter(replay=3), {"rules": Rules(max_replays=4)}, Verdict.GO),
        (letter(expiring(0)), {}, Verdict.EXPIRED),
        (letter(expiring(1)), {}, Verdict.GO),
        (letter(maybe_reached="true"), {}, Verdict.MAYBE_REACHED),
        (letter(maybe_reached="true"), {"rules": Rules(include_maybe_reached=True)}, Verdict.GO),
        # Of several reasons the first: what no option changes before what an option does.
        (letter(expiring(0), maybe_reached="true"), {}, Verdict.EXPIRED),
        (letter(expiring(0), replay=3), {}, Verdict.GUARD),
        (letter(expiring(0), replay=3), {"past": {"n-1": Past(delivered=True, replays=3)}}, Verdict.DELIVERED),
        (letter(b"\xff"), {"selection": Selection(users=frozenset({"u"}))}, Verdict.OTHER),
    ],
)
def test_the_verdict(one: Any, given: dict[str, Any], verdict: Verdict) -> None:
    """Each rule alone, and which comes first."""
    everything = {"selection": ALL, "rules": USUAL, "newest": ANYTHING, "past": ANYTHING, "now": EPOCH, **given}
    assert judge(one, **everything) is verdict


@pytest.mark.parametrize(("channel", "verdict"), [(0, Verdict.GO), (Channel.APNS, Verdict.UNFIT), (99, Verdict.UNFIT)])
def test_only_what_came_without_a_channel_is_given_one(channel: int, verdict: Verdict) -> None:
    """Whoever named a channel may have meant it."""
    one = letter(notification(channel=channel), None)
    rules = Rules(fix=Channel.FIREBASE)
    assert judge(one, ALL, rules, {}, {}, EPOCH) is verdict
