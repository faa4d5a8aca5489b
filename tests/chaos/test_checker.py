from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from tests.chaos.checker import (
    Damage,
    Verdict,
    bounded,
    came_in,
    lost,
    named,
    offsets,
    one_end,
    punctual,
    same_bytes,
    truth,
)
from tests.chaos.follower import Copy
from tests.chaos.sent import Fate, Kind, Sent

from ringonce.domain.identity import Origin
from ringonce.kafka.port import Partition
from ringonce.mock.memory import Act

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chaos.sampler import Sampler
    from tests.fixtures.rows import Row

    from ringonce.mock.thread import MockProvider

AT: Final = 1_800_000_000.0


def sent(key: str, fate: Fate = Fate.OK, kind: Kind = Kind.PLAIN, *, digest: str = "d" * 16, offset: int = 7) -> Sent:
    return Sent(key, "firebase", kind, fate, "notification-events", 0, offset, digest, AT)


def row(status: str = "delivered", root: str = "", **fields: Any) -> Row:
    given = {"status": status, "root_id": root, "channel": "firebase", "maybe_reached": False}
    return {**given, "replay_of": None, "expires_at": None, **fields}


def rows(*names: str, **fields: Any) -> dict[str, Row]:
    return {name: row(root=name, **fields) for name in names}


def act(key: str, text: str = "h", status: int | None = 200, wall: float = AT) -> Act:
    return Act(1, key, text, wall, wall, status)


def providers(acts: Iterable[Act]) -> list[MockProvider]:
    """Providers that have seen these; only what they saw is asked."""
    seen = list(acts)
    return [cast("MockProvider", SimpleNamespace(acts=lambda: seen))]


def copy(key: str, digest: str = "d" * 16) -> Copy:
    place = Partition("notification-firebase", 0)
    return Copy(place, 0, key, key, Origin("notification-events", 0, 7, 0), digest, 0, None, maybe_reached=False)


def test_one_line_each() -> None:
    assert str(Verdict("I1", ok=True, text="all there")) == "I1  holds  all there"
    assert str(Verdict("I1", ok=False, text="two gone")) == "I1  BROKEN  two gone"


def test_some_of_many_are_named() -> None:
    assert named([]) == ""
    assert named("ba") == "a, b"
    assert named("gfedcba") == "a, b, c, d, e and 2 more"


def test_holds_when_what_was_acknowledged_has_ended() -> None:
    came = [
        sent("a"),
        sent("b", Fate.INFO),
        sent("c", Fate.FAIL),
        sent("d", Fate.INFO),
        sent("a", kind=Kind.DUPLICATE),
    ]
    assert lost(came, rows("a", "b")).ok
    # Refused once and taken the second time.
    assert lost([sent("a", Fate.FAIL), sent("a")], rows("a")).ok


@pytest.mark.parametrize("found", [rows("a"), {**rows("a"), **rows("b", status="unknown")}, rows("a", "b", "refused")])
def test_a_missing_row_an_open_one_and_one_too_many_break_it(found: dict[str, Row]) -> None:
    assert not lost([sent("a"), sent("b"), sent("refused", Fate.FAIL)], found).ok


def test_nothing_acknowledged_proves_nothing() -> None:
    assert not lost([sent("a", Fate.INFO)], rows("a")).ok


def test_holds_for_acts_with_rows_and_rows_with_acts() -> None:
    found = {**rows("a"), **rows("b", status="dlq"), "replay-1-b": row(root="b", replay_of="b")}
    assert truth([sent("a"), sent("b")], found, providers([act("a"), act("b")])).ok


@pytest.mark.parametrize(
    ("found", "acts"),
    [
        (rows("a"), []),
        (rows("a", status="dlq"), [act("a")]),
        (rows("a", "stranger"), [act("a"), act("stranger")]),
        ({}, []),
    ],
)
def test_lies_break_it(found: dict[str, Row], acts: list[Act]) -> None:
    assert not truth([sent("a")], found, providers(acts)).ok


def test_an_answer_that_was_not_heard_is_told_or_explained_by_a_kill() -> None:
    found, acts = rows("a", status="expired"), providers([act("a")])
    assert truth([sent("a")], rows("a", status="expired", maybe_reached=True), acts).ok
    assert not truth([sent("a")], found, acts, Damage(slots=4)).ok
    assert truth([sent("a")], found, acts, Damage(slots=4, kills=1)).ok


def test_a_nameless_record_of_unknown_fate_is_known_by_its_digest() -> None:
    synthetic = "notification-events/1/12/1800000000000-dddddddd"
    came = [sent("", Fate.INFO, Kind.POISON, offset=-1)]
    assert came_in(came, rows(synthetic)) == {"", synthetic}
    assert synthetic not in came_in([sent("", Fate.INFO, Kind.POISON, digest="e" * 16, offset=-1)], rows(synthetic))
    assert came_in([sent("a", Fate.FAIL)], rows("a")) == set()


def test_copies_have_the_bytes_that_came_in() -> None:
    assert same_bytes([sent("a")], lambda key: [copy(key), copy(key)]).ok
    assert not same_bytes([sent("a")], lambda key: [copy(key), copy(key, "e" * 16)]).ok
    assert not same_bytes([sent("a")], lambda _: []).ok


def test_twins_have_either() -> None:
    twins = [sent("a"), sent("a", kind=Kind.TWIN, digest="e" * 16), sent("b")]
    assert same_bytes(twins, lambda key: [copy(key, "e" * 16)] if key == "a" else [copy(key)]).ok


BOTH: Final = (("firebase-sender", "a"), ("firebase-dlq", "a"))


def test_one_consumer_each_is_as_it_should_be() -> None:
    gate = [("firebase-sender", "a"), ("firebase-dlq", "b"), ("apns-dlq", "a"), ("router-dlq", "c")]
    assert one_end([sent("a")], rows("a"), gate).ok
    assert not one_end([sent("a")], rows("a"), []).ok


def test_two_need_a_reason() -> None:
    assert not one_end([sent("a")], rows("a"), BOTH).ok
    assert not one_end([sent("a")], rows("a"), BOTH, Damage(slots=9, duplicates=3)).ok
    assert one_end([sent("a")], rows("a"), BOTH, Damage(kills=1)).ok
    assert one_end([sent("a"), sent("a", kind=Kind.DUPLICATE)], rows("a"), BOTH).ok
    replayed = {**rows("a", status="dlq"), "replay-1-a": row(root="a", replay_of="a")}
    assert one_end([sent("a")], replayed, BOTH).ok


def test_without_damage_nothing_comes_twice() -> None:
    assert bounded([sent("a"), sent("b")], [act("a"), act("b")]).ok
    verdict = bounded([sent("a")], [act("a"), act("a", status=None)])
    assert (verdict.ok, verdict.text) == (False, "acts beyond the first: 1, allowed 0, of 2")
    assert not bounded([sent("a")], []).ok


@pytest.mark.parametrize(
    ("damage", "allowed"),
    [
        (Damage(slots=8, held=2, kills=1), 10),
        (Damage(slots=8, partitions_lost=2, overdue_drains=1), 24),
        (Damage(indeterminate=3, unknown_forwards=2, duplicates=1), 6),
        (Damage(router_crashes=2, router_batch=100, replay_crashes=1, replay_batch=10), 210),
        (Damage(slots=8, held=2, router_batch=100), 0),
    ],
)
def test_what_was_broken_says_how_many_may(damage: Damage, allowed: int) -> None:
    assert damage.allowance == allowed
    acts = [act("a")] * (allowed + 1)
    assert bounded([sent("a")], acts, damage).ok
    assert not bounded([sent("a")], [*acts, act("a")], damage).ok


def test_one_key_is_one_body_but_for_twins() -> None:
    acts, damage = [act("a", "one"), act("a", "two")], Damage(duplicates=1)
    assert not bounded([sent("a")], acts, damage).ok
    twins = [sent("a"), sent("a", kind=Kind.TWIN, digest="e" * 16)]
    assert bounded(twins, acts, damage).ok
    assert not bounded(twins, acts).ok
    assert not bounded(twins, [*acts, act("a", "three")], Damage(duplicates=9)).ok


def test_an_act_without_a_key_is_nobodys() -> None:
    assert not bounded([sent("a")], [act("a"), act("")]).ok


END: Final = datetime.fromtimestamp(AT + 10, UTC)


def test_calls_before_the_end_are_in_time() -> None:
    found = {"a": row(root="a", expires_at=END), **rows("b")}
    assert punctual([sent("a"), sent("b")], found, [act("a", wall=AT + 10.5), act("b", wall=AT + 99)]).ok
    assert not punctual([sent("a")], found, []).ok


def test_a_call_after_it_is_not() -> None:
    found = {"a": row(root="a", expires_at=END)}
    late = [act("a", wall=AT + 11.5, status=503)]
    assert not punctual([sent("a")], found, late).ok
    assert punctual([sent("a")], found, late, tampered=["firebase"]).ok
    assert punctual([sent("a"), sent("a", kind=Kind.TWIN)], found, late).ok


def test_what_came_too_late_is_never_called() -> None:
    expired = [sent("a", kind=Kind.EXPIRED)]
    assert not punctual(expired, rows("a", status="expired"), [act("a")]).ok
    assert punctual(expired, rows("a", status="expired"), [act("b")]).ok
    assert punctual(expired, rows("a"), [act("a")], tampered=["firebase"]).ok


def test_i5_is_what_the_sampler_says() -> None:
    clean = SimpleNamespace(covered=9, samples=3, violations=0, late=0, missed=0, unjudged=0, findings=[])

    def judged(**changes: Any) -> bool:
        return offsets(cast("Sampler", SimpleNamespace(**{**vars(clean), **changes}))).ok

    assert judged()
    assert not judged(covered=0)
    assert not judged(unjudged=1)
    assert not judged(violations=1, findings=["it passed"])
    assert "it passed" in offsets(cast("Sampler", SimpleNamespace(**{**vars(clean), "findings": ["it passed"]}))).text
