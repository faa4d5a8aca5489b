"""What makes two replays the same, and where each begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ringonce.domain.notification import Channel
from ringonce.errors import ConfigurationError
from ringonce.runtime.order import EVERYTHING, Order
from ringonce.runtime.replay import begin
from ringonce.runtime.selection import Rules, Selection, Verdict
from ringonce.store.replays import Standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ringonce.kafka.reader import BoundedReader


class Ends:
    """A DLQ that begins at 2, where the plain replays' group stands at 5."""

    lows: Mapping[int, int] = {0: 2}
    starts: Mapping[int, int] = {0: 5}
    ends: Mapping[int, int] = {0: 9}

    def limit(self, ends: Mapping[int, int]) -> None:
        """See `BoundedReader.limit`."""
        self.ends = ends


def reader() -> tuple[BoundedReader, Ends]:
    ends = Ends()
    return cast("BoundedReader", ends), ends


CHOICES: list[Order] = [
    Order(name="x"),
    Order(Selection(statuses=frozenset({503}))),
    Order(rules=Rules(include_maybe_reached=True)),
    Order(rules=Rules(max_replays=9)),
    Order(rules=Rules(fix=Channel.FIREBASE)),
]


@pytest.mark.parametrize("order", CHOICES)
def test_with_a_choice_a_replay_begins_at_the_beginning(order: Order) -> None:
    """What an earlier one has passed by may be what is wanted now."""
    assert not order.plain
    assert begin(order, None, reader()[0])[1].positions == {0: 2}


@pytest.mark.parametrize("order", [EVERYTHING, Order(limit=5), Order(rate=1), Order(to="retry-30s")])
def test_without_a_choice_it_goes_on_where_the_last_one_ended(order: Order) -> None:
    """How fast, how many and where to is no choice among the letters."""
    assert order.plain
    assert begin(order, None, reader()[0])[1].positions == {0: 5}


NAMED = Order(Selection(since=100.0, ids=frozenset({"a", "b"})), name="x", limit=7, typed={"since": "2h"})
FOUND = Standing(NAMED.asked(), 100.0, None, {0: 8}, {0: 4}, 3, {"expired": 2, "other": 5})


def test_a_named_one_goes_on_as_it_began() -> None:
    """Its ends, its progress, and what "2h" meant then."""
    dlq, ends = reader()
    order, progress = begin(replace(NAMED, selection=replace(NAMED.selection, since=999.0)), FOUND, dlq)
    assert order.selection.since == 100.0
    assert ends.ends == {0: 8}
    assert (progress.positions, progress.published, progress.skipped, progress.seen) == ({0: 4}, 3, 2, 5)
    assert progress.verdicts == {Verdict.EXPIRED: 2, Verdict.OTHER: 5}
    assert not progress.finished


def test_a_finished_one_says_so() -> None:
    progress = begin(NAMED, FOUND._replace(finished=True), reader()[0])[1]
    assert progress.finished
    assert progress.before


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"limit": 8}, "limit"),
        ({"to": "retry-30s"}, "to"),
        ({"typed": {"since": "3h"}}, "since"),
        ({"rules": Rules(fresh_key=True)}, "fresh_key"),
        ({"selection": Selection(ids=frozenset({"a"}), statuses=frozenset({500}))}, "ids, status"),
    ],
)
def test_another_choice_under_the_same_name_is_refused(changes: dict[str, Any], what: str) -> None:
    """Said is in what they differ."""
    with pytest.raises(ConfigurationError, match=f"another choice of {what}: repeat it, or use another name"):
        begin(replace(NAMED, **changes), FOUND, reader()[0])


def test_the_rate_may_change() -> None:
    assert begin(replace(NAMED, rate=5.0), FOUND, reader()[0])[1].published == 3
