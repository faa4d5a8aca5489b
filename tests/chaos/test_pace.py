from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Final

from tests.chaos.pace import Window, pace, recovered, seconds_to_recover, undisturbed
from tests.chaos.sent import Fate, Kind, Sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.rows import Row

T: Final = 1_800_000_000.0
CALM: Final = Window(T, T + 20)
FAULT: Final = Window(T + 20, T + 40)


def run(wait: Callable[[float], float], channel: str = "apns", rate: int = 50) -> tuple[list[Sent], dict[str, Row]]:
    """A minute's even load; `wait` is how long a record takes that comes so many seconds after the start."""
    sent, rows = [], {}
    for number in range(60 * rate):
        after = number / rate
        key = f"{channel}-{number}"
        sent.append(Sent(key, channel, Kind.PLAIN, Fate.OK, "notification-events", 0, number, "", T + after))
        if wait(after) < inf:
            rows[key] = {"recorded_at": datetime.fromtimestamp(T + after + wait(after), UTC)}
    return sent, rows


def in_fault(during: float, otherwise: float) -> Callable[[float], float]:
    return lambda after: during if T + after in FAULT else otherwise


def test_holds_when_nothing_changes() -> None:
    sent, rows = run(lambda _: 0.2)
    verdict = undisturbed(sent, rows, FAULT, CALM, ["apns"])
    assert verdict.ok, verdict


def test_a_short_p99_may_grow_up_to_the_floor() -> None:
    sent, rows = run(in_fault(0.4, 0.1))
    assert undisturbed(sent, rows, FAULT, CALM, ["apns"]).ok
    assert not undisturbed(sent, rows, FAULT, CALM, ["apns"], floor=0.3).ok


def test_a_longer_one_may_double() -> None:
    sent, rows = run(in_fault(1.1, 0.6))
    assert undisturbed(sent, rows, FAULT, CALM, ["apns"]).ok
    sent, rows = run(in_fault(1.3, 0.6))
    assert not undisturbed(sent, rows, FAULT, CALM, ["apns"]).ok


def test_throughput_that_falls_breaks_it() -> None:
    sent, rows = run(in_fault(5.0, 4.0))
    assert undisturbed(sent, rows, FAULT, CALM, ["apns"]).ok
    sent, rows = run(in_fault(7.0, 0.6))
    verdict = undisturbed(sent, rows, FAULT, CALM, ["apns"], floor=99)
    assert not verdict.ok
    assert "recorded 68% of 1000" in verdict.text


def test_groups_are_judged_apart() -> None:
    sent, rows = run(lambda _: 0.1)
    slow, slow_rows = run(in_fault(9.0, 0.1), "firebase")
    everything, all_rows = sent + slow, rows | slow_rows
    assert undisturbed(everything, all_rows, FAULT, CALM, ["apns"]).ok
    assert not undisturbed(everything, all_rows, FAULT, CALM, ["apns", "firebase"]).ok
    assert not undisturbed(everything, all_rows, FAULT, CALM, ["host"], group=lambda _: "host").ok


def test_nothing_to_look_at_proves_nothing() -> None:
    sent, rows = run(lambda _: 0.1)
    assert not undisturbed(sent, rows, FAULT, CALM, []).ok
    assert not undisturbed(sent, rows, FAULT, CALM, ["webhook"]).ok


def test_only_plain_records_count_each_once() -> None:
    sent, rows = run(lambda _: 0.1)
    again = [Sent(one.key, "apns", Kind.DUPLICATE, Fate.OK, one.topic, 0, 0, "", one.at + 25) for one in sent]
    assert pace(sent + again, rows, FAULT) == pace(sent, rows, FAULT)
    assert pace(sent, {}, FAULT).p99 == inf


AFTER: Final = Window(T + 20, T + 60)


def test_what_never_broke_recovers_at_once() -> None:
    sent, rows = run(lambda _: 0.1)
    seconds = seconds_to_recover(sent, rows, AFTER)
    assert seconds is not None
    assert seconds < 0.5
    assert recovered(sent, rows, AFTER).ok


def test_a_pause_is_measured_until_rows_come_again() -> None:
    """Nothing is recorded until ten seconds after the fault's end, and then everything at once."""
    sent, rows = run(lambda after: max(0.1, 30 - after))
    seconds = seconds_to_recover(sent, rows, AFTER)
    assert seconds is not None
    # A window that begins a little earlier holds enough already: the backlog falls into its end.
    assert 7.9 < seconds < 10.2
    assert recovered(sent, rows, AFTER).ok
    assert not recovered(sent, rows, AFTER, limit=7.5).ok


def test_a_rate_that_does_not_last_does_not_count() -> None:
    """It works for three seconds, stops for five, and goes on."""
    sent, rows = run(lambda after: 28 - after if 23 <= after < 28 else 0.1)
    seconds = seconds_to_recover(sent, rows, AFTER)
    assert seconds is not None
    assert 5.9 < seconds < 8.2


def test_what_stays_slow_has_not_recovered() -> None:
    sent, rows = run(lambda after: inf if after >= 20 and int(after * 50) % 5 == 0 else 0.1)
    assert seconds_to_recover(sent, rows, AFTER) is None
    assert not recovered(sent, rows, AFTER).ok


def test_without_load_nothing_is_shown() -> None:
    sent, rows = run(lambda _: 0.1)
    assert not recovered(sent, rows, Window(T + 100, T + 140)).ok
    assert not recovered(sent, rows, Window(T + 20, T + 21)).ok
